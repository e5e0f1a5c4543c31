"""Experiments on the public API, and the networks they train; needs ``pip install 'setwise[experiments]'``."""
