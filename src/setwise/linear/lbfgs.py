"""Limited-memory BFGS with a strong-Wolfe line search, for value and gradient in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Descent:
    """The end of a descent.

    Attributes:
        point: The best point that was seen.
        value: Its value.
        evaluations: How often value and gradient were asked for.
        slope: Largest entry of the gradient at the best point.
    """

    point: Floats
    value: float
    evaluations: int
    slope: float


def descend(
    objective: Callable[[Floats], tuple[float, Floats]],
    start: Floats,
    *,
    max_iter: int = 100,
    tolerance: float = 1e-8,
) -> Descent:
    """Lower a function that is smooth, or nearly so; the result is never above the start.

    Args:
        objective: Value and gradient.
        start: Where to begin.  # shape: (d,)
        max_iter: Steps; with twice as many evaluations at most.
        tolerance: Stop where no entry of the gradient is larger.

    >>> end = descend(lambda v: (float(((v - 3) ** 2).sum()), 2 * (v - 3)), np.zeros(2))
    >>> end.point.round(6).tolist()
    [3.0, 3.0]
    """
    point = torch.from_numpy(start.astype(np.float64)).clone().requires_grad_()
    best = Descent(start.copy(), np.inf, 0, np.inf)
    count = 0
    optimizer = torch.optim.LBFGS(
        [point],
        max_iter=max_iter,
        max_eval=2 * max_iter,
        history_size=20,
        tolerance_grad=tolerance,
        tolerance_change=1e-12,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        nonlocal best, count
        here = point.detach().numpy()
        value, gradient = objective(here)
        count += 1
        if value < best.value:
            best = Descent(here.copy(), value, count, float(np.abs(gradient).max(initial=0.0)))
        point.grad = torch.from_numpy(np.ascontiguousarray(gradient))
        return torch.tensor(value, dtype=torch.float64)

    optimizer.step(closure)
    return Descent(best.point, best.value, count, best.slope)
