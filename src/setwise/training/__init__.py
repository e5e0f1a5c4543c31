"""What helps training on a measure, whichever measure it is."""

from setwise.training.blend import Blend

__all__ = ["Blend"]
