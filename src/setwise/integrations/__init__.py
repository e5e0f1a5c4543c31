"""Bridges to other libraries, one module per host; none is imported until asked for."""
