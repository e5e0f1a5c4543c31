"""Constraints on rates by group: rates, the objective under them, thresholds, model selection, reports."""
