"""Sort-and-scan kernels behind the measures: value and gradient in one pass, O(n log n) time, O(n) memory."""

from setwise.kernels.attach import attach
from setwise.kernels.class_pairs import class_pair_loss
from setwise.kernels.pairwise import Term, pair_loss
from setwise.kernels.precision import precision_loss
from setwise.kernels.selection import selected_weight

__all__ = ["Term", "attach", "class_pair_loss", "pair_loss", "precision_loss", "selected_weight"]
