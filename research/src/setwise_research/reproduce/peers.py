"""F1's linear program through other people's layers, and AP-Perf: the peers of the papers' table of F-scores.

None of them is a dependency; a method that needs one names it, and is left out where it is not installed.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from setwise.lp import LinearProgram
from setwise.measures import fbeta_program

RIDGE = 1e-4  # qpth solves strictly convex programs only
Solver = Callable[[LinearProgram], Tensor]
"""Gives the variables (z, t) that solve F1's program, with their graph."""


class ProgramLoss(nn.Module):
    """1 - F1 as the optimum of its linear program, solved and differentiated by a layer.

    A batch without positives, on which F1 is undefined, gives 0.

    Args:
        layer: Makes the solver for so many samples; called once per size of a batch.
    """

    def __init__(self, layer: Callable[[int], Solver]) -> None:
        super().__init__()
        self.layer = layer
        self.solvers: dict[int, Solver] = {}

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of a batch of logits and labels 0 or 1."""
        if not bool((target > 0.5).any()):
            return 0 * input.sum()
        program = fbeta_program(input.double(), target)
        n = input.numel()
        if n not in self.solvers:
            self.solvers[n] = self.layer(n)
        x = self.solvers[n](program)  # shape: (n + 1,)
        return ((program.c * x).sum() + program.offset).to(input.dtype)


def by_cvxpylayers(samples: int) -> Solver:
    """cvxpylayers, which solves by SCS and differentiates by diffcp."""
    cp: Any = import_module("cvxpy")
    build = import_module("cvxpylayers.torch").CvxpyLayer
    z, t = cp.Variable(samples), cp.Variable()
    gain, gain_t, mass, mass_t = cp.Parameter(samples), cp.Parameter(), cp.Parameter(samples), cp.Parameter()
    upper, lower = cp.Parameter(samples), cp.Parameter(samples)
    rows = [mass @ z + mass_t * t == samples, z <= upper * t, z >= lower * t]
    problem = cp.Problem(cp.Minimize(gain @ z + gain_t * t), rows)
    layer = build(problem, [gain, gain_t, mass, mass_t, upper, lower], [z, t])

    def solve(program: LinearProgram) -> Tensor:
        A: Any = program.A
        equal: Any = program.A_eq
        sides = -A[:samples, -1], A[samples:, -1]
        found = layer(program.c[:-1], program.c[-1], equal[0, :-1], equal[0, -1], *sides, solver_args={"eps": 1e-5})
        return torch.cat([found[0], found[1].reshape(1)])

    return solve


def by_qpth(samples: int) -> Solver:
    """qpth, with a ridge in place of the quadratic term that it needs."""
    build = import_module("qpth.qp").QPFunction
    Q = RIDGE * torch.eye(samples + 1, dtype=torch.float64)

    def solve(program: LinearProgram) -> Tensor:
        layer = build(verbose=-1, check_Q_spd=False)
        x: Tensor = layer(Q, program.c, program.A, program.b, program.A_eq, program.b_eq)
        return x[0]

    return solve


def adversarial_f1() -> nn.Module:
    """AP-Perf's layer for F1 (Fathony and Kolter 2020), on logits."""
    metric = import_module("ap_perf.common_metrics").f1_score
    made: nn.Module = import_module("ap_perf").MetricLayer(metric)
    return made
