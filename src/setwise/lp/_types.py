"""Types of arrays, defined once."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
Index: TypeAlias = NDArray[np.intp]
AnyArray: TypeAlias = Any  # a torch tensor or a NumPy array, in code that both libraries run
