"""Measures over the whole data set: as regularizers, with one multiplier per example, and as constraints."""
