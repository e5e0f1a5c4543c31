"""Dual ascent on the S-measure: primal and dual variables, their steps, and the projection."""
