"""What the gradient of a solver gives and costs: by c, A and b; backward against forward. Table 3 of the 2021 paper.

Every entry is tried, not read from a page: whether a gradient by each input comes back, whether a sparse matrix is
taken, how many programs are solved for one value and gradient, and CPU seconds backward for one forward. A gradient
may be zero: the solution of a program is a step function of its costs, so by c only smoothed layers have a slope.
Below, the check of the papers' appendix: the cosine of the gradient in one step with that of the unrolled iterations.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from setwise._checks import is_count, one_of
from setwise.lp import HiGHS, LinearProgram, solve
from setwise.measures import fbeta_program
from setwise_research.lp_layers import black_box, perturbed
from setwise_research.reproduce.drawing import figure
from setwise_research.reproduce.solver_runtime import scorer_programs
from setwise_research.reproduce.study import Cell, Context, Record, Study, grid

Layer = Callable[[Tensor, Tensor, Tensor], Tensor]
"""From c, A, b of one program, with its bounds, to the solution."""
TITLES = {
    "implicit": "setwise, implicit",
    "smoothed": "setwise, smoothed",
    "unrolled": "setwise, unrolled",
    "cvxpylayers": "cvxpylayers (SCS)",
    "qpth": "qpth",
    "black_box": "black box around HiGHS",
    "perturbed": "perturbed HiGHS",
}
PACKAGES = {"cvxpylayers": "cvxpylayers", "qpth": "qpth", "black_box": "highspy", "perturbed": "highspy"}
INPUTS = ("c", "A", "b")
RIDGE = 1e-4  # qpth solves strictly convex programs only


def make_layer(method: str, program: LinearProgram, samples: int) -> tuple[Layer, list[int]]:
    """A layer for programs of this size, and a counter of the programs that it has solved."""
    solved = [0]
    bounds: tuple[Any, Any] = program.lower, program.upper

    def by_highs(A: Tensor, b: Tensor) -> Callable[[Tensor], Tensor]:
        def run(costs: Tensor) -> Tensor:
            solved[0] += len(costs)
            fixed = LinearProgram(costs, A.detach(), b.detach(), lower=bounds[0], upper=bounds[1])
            return solve(fixed, HiGHS()).primal.detach()

        return run

    def ours(c: Tensor, A: Tensor, b: Tensor) -> Tensor:
        solved[0] += 1
        return solve(LinearProgram(c, A, b, lower=bounds[0], upper=bounds[1]), gradient=method).primal

    if method == "black_box":
        return lambda c, A, b: black_box(by_highs(A, b), c.unsqueeze(0))[0], solved
    if method == "perturbed":
        noise = torch.Generator().manual_seed(0)
        return lambda c, A, b: perturbed(by_highs(A, b), c.unsqueeze(0), samples=samples, generator=noise)[0], solved
    if method in PACKAGES:
        other = (_by_cvxpylayers if method == "cvxpylayers" else _by_qpth)(program)

        def counted(c: Tensor, A: Tensor, b: Tensor) -> Tensor:
            solved[0] += 1
            return other(c, A, b)

        return counted, solved
    return ours, solved


def _by_cvxpylayers(program: LinearProgram) -> Layer:
    cp: Any = import_module("cvxpy")
    build = import_module("cvxpylayers.torch").CvxpyLayer
    m, n = program.b.shape[-1], program.variables
    z, c, A, b = cp.Variable(n), cp.Parameter(n), cp.Parameter((m, n)), cp.Parameter(m)
    lower, upper = (np.asarray(bound) for bound in (program.lower, program.upper))
    problem = cp.Problem(cp.Minimize(c @ z), [A @ z <= b, z >= lower, z <= upper])
    layer = build(problem, [c, A, b], [z])
    return lambda c, A, b: layer(c, A, b)[0]


def _by_qpth(program: LinearProgram) -> Layer:
    build = import_module("qpth.qp").QPFunction
    n = program.variables
    eye, none = torch.eye(n, dtype=torch.float64), torch.zeros(0, dtype=torch.float64)
    sides: Any = torch.cat([torch.as_tensor(program.upper), -torch.as_tensor(program.lower)])

    def run(c: Tensor, A: Tensor, b: Tensor) -> Tensor:
        rows, right = torch.cat([A, eye, -eye]), torch.cat([b, sides])
        solver = build(verbose=-1, check_Q_spd=False)
        z: Tensor = solver(RIDGE * eye, c, rows, right, none, none)
        return z[0]

    return run


def takes_sparse(layer: Layer, program: LinearProgram) -> bool:
    """Whether a CSR matrix is solved and differentiated by c or b."""
    dense: Any = program.A
    c, b = program.c.clone().requires_grad_(), program.b.clone().requires_grad_()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # torch's own: CSR is in beta state
            layer(c, dense.to_sparse_csr(), b).sum().backward()
    except (RuntimeError, TypeError, ValueError):  # what layers raise that do not know CSR
        return False
    return c.grad is not None or b.grad is not None


def one_step_cosine(batches: int, size: int) -> list[float]:
    """Cosines of the value's own gradient with that of the unrolled iterations, on F1 programs of random scores."""
    cosines = []
    g = torch.Generator().manual_seed(0)
    for _ in range(batches):
        scores = torch.randn(size, generator=g, dtype=torch.float64)
        labels = (torch.arange(size) % 2).double()
        grads = []
        for gradient in ("value", "unrolled"):
            s = scores.clone().requires_grad_()
            program = fbeta_program(s, labels)
            solution = solve(program, gradient=gradient)
            (solution.value if gradient == "value" else (program.c * solution.primal).sum()).backward()
            grads.append(s.grad if s.grad is not None else torch.zeros_like(s))
        cosines.append(float(functional.cosine_similarity(grads[0], grads[1], dim=0)))
    return cosines


@dataclass(frozen=True)
class GradientProperties(Study):
    """The study.

    Args:
        methods: Of the seven.
        side: Positives, and negatives, of a program.
        samples: Draws of the perturbed solver.
        repetitions: Programs that are timed.
        batches: F1 programs on which the gradient in one step is compared with the unrolled one.
    """

    methods: tuple[str, ...] = tuple(TITLES)
    side: int = 5
    samples: int = 10
    repetitions: int = 5
    batches: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.methods:
            one_of("methods", name, TITLES)
        for name in ("side", "samples", "repetitions", "batches"):
            is_count(name, getattr(self, name))

    def cells(self) -> list[Cell]:
        """A method; and the check of the gradient in one step."""
        return [*({"method": method} for method in self.methods), {"method": "one_step"}]

    def package(self, cell: Cell) -> str | None:
        """What a method calls."""
        return PACKAGES.get(str(cell["method"]))

    def of_a_cell(self, cell: Cell) -> dict[str, Any]:
        """The check has settings of its own."""
        if cell["method"] == "one_step":
            return {"batches": self.batches}
        return {"side": self.side, "samples": self.samples, "repetitions": self.repetitions}

    def run(self, cell: Cell, context: Context) -> dict[str, Any]:  # noqa: ARG002 (other studies need it)
        """Try a layer, or compare the two gradients."""
        method = str(cell["method"])
        if method == "one_step":
            return {"cosines": one_step_cosine(self.batches, 20)}
        forward, backward = [], []
        by: dict[str, bool] = {}
        calls = 0
        for k in range(self.repetitions + 1):
            batch = scorer_programs(1, self.side, seed=k)
            matrix: Any = batch.A
            program = replace(batch, c=batch.c[0], A=matrix[0])
            layer, solved = make_layer(method, program, self.samples)
            inputs = [t.clone().requires_grad_() for t in (program.c, matrix[0], program.b)]
            start = time.process_time()
            z = layer(*inputs)
            middle = time.process_time()
            (z * torch.linspace(-1, 1, len(z), dtype=z.dtype)).sum().backward()
            backward.append(time.process_time() - middle)
            forward.append(middle - start)
            by = {name: t.grad is not None for name, t in zip(INPUTS, inputs, strict=True)}
            calls = solved[0]
        return {
            "by": by,
            "sparse": takes_sparse(layer, program),
            "solves": calls,
            "forward": float(np.median(forward[1:])),
            "backward": float(np.median(backward[1:])),
        }

    def headline(self, records: Sequence[Record]) -> str:
        """Cost of backward, ours and the black box's."""
        cost = {r["method"]: r["backward"] / r["forward"] for r in records if "by" in r}
        told = [f"{TITLES[name]} {cost[name]:.2g}" for name in ("smoothed", "black_box") if name in cost]
        return f"Backward for one forward: {', '.join(told)}" if told else ""

    def markdown(self, records: Sequence[Record]) -> str:
        """The table, and the cosine of the two gradients."""
        rows = [
            [
                TITLES[r["method"]],
                ", ".join(name for name in INPUTS if r["by"][name]),
                "yes" if r["sparse"] else "no",
                str(r["solves"]),
                f"{1e3 * r['forward']:.1f}",
                f"{r['backward'] / r['forward']:.2f}",
            ]
            for r in records
            if "by" in r
        ]
        heads = ["Method", "gradients by", "sparse matrix", "programs solved", "forward, ms", "backward / forward"]
        told = (
            f"One program of {self.side**2 + 5} variables and {self.side**2} rows at a time; programs solved for one "
            f"value and gradient ({self.samples} draws of the perturbed solver); medians of CPU time, one thread."
        )
        checks = [
            f"Cosine of the gradient in one step with the unrolled one, F1 programs of 20 random scores: mean "
            f"{np.mean(r['cosines']):.4f}, least {np.min(r['cosines']):.4f} of {len(r['cosines'])} (the papers report "
            "a mean of 0.9991)."
            for r in records
            if "cosines" in r
        ]
        return "\n\n".join([told, grid(heads, rows), *checks])

    def rows(self, records: Sequence[Record]) -> list[Mapping[str, Any]]:
        """One line per method."""
        return [
            {"method": r["method"], **{f"by_{name}": r["by"][name] for name in INPUTS}, "sparse": r["sparse"]}
            | {"solves": r["solves"], "forward_seconds": r["forward"], "backward_seconds": r["backward"]}
            for r in records
            if "by" in r
        ]

    def draw(self, records: Sequence[Record], out: Path) -> None:
        """Forward and backward of each method."""
        some = [r for r in records if "by" in r]
        with figure(out / "table.png", 7, 3.6) as made:
            axes = made.subplots()
            place = np.arange(len(some))
            axes.barh(place - 0.2, [1e3 * r["forward"] for r in some], 0.4, label="forward")
            axes.barh(place + 0.2, [1e3 * r["backward"] for r in some], 0.4, label="backward")
            axes.set_yticks(place, [TITLES[r["method"]] for r in some])
            axes.set(xlabel="CPU milliseconds", xscale="log" if some else "linear")
            axes.invert_yaxis()
            axes.legend()


STUDY = GradientProperties
