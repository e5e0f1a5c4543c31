"""Equivalent programs that are easier to solve, and the way back to the program that was asked for."""
