"""Linear programs: batched, differentiable descriptions of min c'z s.t. A z <= b, A_eq z = b_eq, lower <= z <= upper.

This package knows nothing of labels or measures. Importing it loads no extra; reading MPS files needs ``setwise[lp]``.
"""

from setwise.lp.mps import read_mps
from setwise.lp.operator import LinearOperator
from setwise.lp.problem import LinearProgram, Residuals

__all__ = ["LinearOperator", "LinearProgram", "Residuals", "read_mps"]
