"""Algorithms behind :func:`setwise.lp.solve`, and the verifier that every status comes from."""
