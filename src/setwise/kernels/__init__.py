"""Sort-and-scan kernels behind the measures: value and gradient in one pass, O(n log n) time, O(n) memory."""

from setwise.kernels.attach import attach
from setwise.kernels.pairwise import Term, pair_loss

__all__ = ["Term", "attach", "pair_loss"]
