"""Every linear program of SciPy's own tests of ``linprog``, with what HiGHS says of it there: run as a script.

python tests/support/scipy_programs.py FILE
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linprog

Array = NDArray[np.float64]


def plain(
    c: Any, A: Any = None, b: Any = None, E: Any = None, e: Any = None, bounds: Any = (0, None)
) -> tuple[Array, ...]:
    """The arguments of ``linprog`` as arrays c, A, b, E, e, lower, upper."""
    cost = np.asarray(c, np.float64).ravel()
    n = len(cost)

    def rows(matrix: Any) -> Array:
        written: Any = matrix.toarray() if sparse.issparse(matrix) else matrix
        return np.zeros((0, n)) if matrix is None else np.atleast_2d(np.asarray(written, np.float64)).reshape(-1, n)

    def sides(side: Any) -> Array:
        return np.zeros(0) if side is None else np.asarray(side, np.float64).ravel()

    pairs = np.array(np.broadcast_to(np.asarray((0, None) if bounds is None else bounds, dtype=object), (n, 2)))
    pairs[pairs[:, 0] == None, 0], pairs[pairs[:, 1] == None, 1] = -np.inf, np.inf  # noqa: E711 (of an array)
    lower, upper = pairs.astype(np.float64).T
    return cost, rows(A), sides(b), rows(E), sides(e), lower.copy(), upper.copy()


def main() -> int:
    """Run the tests of HiGHS with a ``linprog`` that notes what it is asked."""
    from scipy.optimize.tests import test_linprog  # its marks are unknown to a pytest that collects this file

    seen: dict[bytes, tuple[tuple[Array, ...], int, float]] = {}

    def noted(*arguments: Any, **options: Any) -> Any:
        result = linprog(*arguments, **options)
        if options.get("integrality") is None and result.status in (0, 2, 3):
            names = ("c", "A_ub", "b_ub", "A_eq", "b_eq", "bounds")
            given = dict(zip(names, arguments, strict=False)) | {k: v for k, v in options.items() if k in names}
            c, A, b, E, e = (given.get(name) for name in names[:5])
            parts = plain(c, A, b, E, e, given.get("bounds", (0, None)))
            numbers = all(np.isfinite(part).all() for part in (*parts[:2], *parts[3:5]))
            # An infinity on the wrong side is refused as an argument.
            if numbers and (parts[5] < np.inf).all() and (parts[6] > -np.inf).all() and (parts[2] > -np.inf).all():
                seen[b"|".join(part.tobytes() for part in parts)] = (parts, result.status, result.fun)
        return result

    test_linprog.linprog = noted
    code = pytest.main(["-q", "-p", "no:cacheprovider", "-k", "Highs or highs", str(test_linprog.__file__)])
    Path(sys.argv[1]).write_bytes(pickle.dumps(list(seen.values())))
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
