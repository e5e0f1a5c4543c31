"""The research record of :mod:`setwise`: the papers' tables, the benchmark suite, and what they are made with."""
