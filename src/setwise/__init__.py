"""Setwise: train PyTorch models on the measure you report."""
