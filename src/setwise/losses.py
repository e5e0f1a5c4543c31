"""The losses as modules."""

from setwise.measures import losses
from setwise.measures.losses import *

__all__: list[str] = []
__all__ += losses.__all__
