"""Linear programs whose costs alone are learned: our gradients and regret loss beside PyEPO's and the Physarum solver.

min c'z s.t. A z <= b, z >= 0 with one A and b for the whole batch, as predict-then-optimize has it. At a vertex dz/dc
is 0, so every method puts another gradient in its place, and its error cannot be measured. Compared are the time of
forward + backward, memory, the gap of the forward point, and what the gradient is good for: the regret that is left
after 20 steps along it, from costs that are half noise, as a share of the regret at the start.

- ours: the smoothed and the implicit gradient of the point, and the regret's convex bound, `RegretLoss`.
- PyEPO 2.2.7: black-box differentiation, perturbed optimizer, perturbed Fenchel-Young loss, SPO+; 10 samples where it
  draws, HiGHS as its solver, warm started from the last basis.
- Physarum dynamics (Meng, Mukherjee, Wu, Singh, Ravi, "Physarum powered differentiable linear programming layers",
  AAAI 2021), re-implemented: q = W A'(A W A')^-1 b with W = diag(x / c), x <- (1 - h) x + h q, unrolled. It needs
  positive costs, so it is given the dual point that the draw was made with.

    python benchmarks/run.py --only costs
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from harness import Action, Case, apart, extra_megabytes, first_line, installed, interleave, peer
from lp import passed_to_highs
from records import Part, Row, Table, Verdict, script
from setwise import lp

SIZES = ((20, 60, 16), (50, 200, 16), (200, 1000, 1))  # variables, rows, batch
MEMORY = (50, 200, 16)
BUDGET = 10.0
LEARNED = (20, 60, 16)
STEPS, LENGTH = 20, 0.05  # of descent, relative to the costs
PHYSARUM_STEPS, PHYSARUM_RATE = 30, 0.5

Layer = Callable[[Tensor], Tensor]  # costs with a leading batch dimension -> z


class Programs(NamedTuple):
    """A batch of costs over one polytope, and dual variables y > 0 with c + A'y > 0."""

    c: Tensor  # shape: (batch, n)
    A: Tensor  # shape: (m, n)
    b: Tensor  # shape: (m,)
    y: Tensor  # shape: (batch, m)


def draw(size: tuple[int, int, int], seed: int) -> Programs:
    """Feasible by a point z > 0 with slack, bounded by dual variables that are all positive."""
    n, m, batch = size
    shared, generator = torch.Generator().manual_seed(0), torch.Generator().manual_seed(seed)
    A = torch.randn(m, n, generator=shared, dtype=torch.float64)
    b = A @ torch.rand(n, generator=shared, dtype=torch.float64) + 0.1
    b = b + torch.rand(m, generator=shared, dtype=torch.float64)
    y = torch.rand(batch, m, generator=generator, dtype=torch.float64) / m**0.5
    return Programs(torch.rand(batch, n, generator=generator, dtype=torch.float64) - y @ A, A, b, y)


class Problem:
    """The polytope in HiGHS, solved for one cost after the other, each from the basis of the last."""

    def __init__(self, A: Tensor, b: Tensor) -> None:
        self.n = A.shape[1]
        self.solver = passed_to_highs(torch.zeros(self.n, dtype=torch.float64), A, b)

    def set_costs(self, c: Any) -> None:
        """New costs."""
        self.solver.changeColsCost(self.n, np.arange(self.n, dtype=np.int32), np.asarray(c, dtype=np.float64))

    def solve(self) -> tuple[np.ndarray[Any, Any], float]:
        """The vertex and its value."""
        self.solver.run()
        return np.array(self.solver.getSolution().col_value), self.solver.getInfo().objective_function_value

    def points(self, c: Tensor) -> Tensor:
        """The vertices of a batch of costs, without a gradient."""
        found = []
        for costs in c.detach():
            self.set_costs(costs)
            found.append(self.solve()[0])
        return torch.tensor(np.array(found))


def pyepo_model(A: Tensor, b: Tensor) -> Any:
    """The same for PyEPO."""
    base: Any = peer("pyepo.model.opt").optModel

    class Model(base):  # type: ignore[misc]  # (a class of the peer)
        def _getModel(self) -> tuple[Problem, range]:
            return Problem(A, b), range(A.shape[1])

        def setObj(self, c: Any) -> None:
            self._model.set_costs(c)

        def solve(self) -> tuple[np.ndarray[Any, Any], float]:
            return self._model.solve()  # type: ignore[no-any-return]

    return Model()


def physarum(programs: Programs) -> Layer:
    """Unrolled Physarum dynamics on (A, I) (z, s) = b; c + A'y and y are positive costs with the same optimum."""
    A, b, y = programs.A, programs.b, programs.y
    m, n = A.shape
    whole = torch.cat([A, torch.eye(m, dtype=A.dtype)], 1)

    def layer(c: Tensor) -> Tensor:
        costs = torch.cat([c + y @ A, y], 1)
        x = torch.ones_like(costs)
        for _ in range(PHYSARUM_STEPS):
            w = x / costs  # shape: (batch, n + m)
            system = (whole * w.unsqueeze(1)) @ whole.T  # shape: (batch, m, m)
            potential = torch.linalg.solve(system, b.expand(len(c), m))
            x = (1 - PHYSARUM_RATE) * x + PHYSARUM_RATE * w * (potential @ whole)
            x = x.clamp_min(1e-12)
        return x[:, :n]

    return layer


def fenchel_young(programs: Programs, best: Tensor) -> Callable[[Tensor], Tensor]:
    """PyEPO's loss, which has its own target: the best points."""
    loss: Callable[[Tensor, Tensor], Tensor] = peer("pyepo.func").perturbedFenchelYoung(
        pyepo_model(programs.A, programs.b), n_samples=10, sigma=0.5
    )
    return lambda c: loss(c, best)


def spo_plus(programs: Programs, truth: Tensor, best: Tensor) -> Callable[[Tensor], Tensor]:
    """PyEPO's form of the loss that ours is too."""
    loss = peer("pyepo.func").SPOPlus(pyepo_model(programs.A, programs.b), reduction="sum")
    value = (truth * best).sum(1, keepdim=True)
    return lambda c: loss(c, truth, best, value)


def layers(programs: Programs) -> dict[str, Layer]:
    """All methods that can be run here."""
    A, b = programs.A, programs.b

    def ours(gradient: str) -> Layer:
        return lambda c: lp.solve(lp.LinearProgram(c, A, b), gradient=gradient).primal

    found = {"setwise, smoothed": ours("smoothed"), "setwise, implicit": ours("implicit")}
    if installed("pyepo"):
        functions = peer("pyepo.func")
        found |= {
            "PyEPO blackboxOpt": functions.blackboxOpt(pyepo_model(A, b), lambd=10),
            "PyEPO perturbedOpt": functions.perturbedOpt(pyepo_model(A, b), n_samples=10, sigma=0.5),
        }
    found["Physarum, unrolled"] = physarum(programs)
    return found


def losses(programs: Programs, truth: Tensor, best: Tensor) -> dict[str, Callable[[Tensor], Tensor]]:
    """By method, what is trained: the true cost of the point that predicted costs lead to; PyEPO's own loss for one."""

    def true_cost(layer: Layer) -> Callable[[Tensor], Tensor]:
        return lambda c: (truth * layer(c)).sum()

    found = {name: true_cost(layer) for name, layer in layers(programs).items()}
    feasible = lp.LinearProgram(truth, programs.A, programs.b)
    found["setwise, RegretLoss"] = lambda c: lp.regret_loss(c, truth, feasible, best=best, reduction="sum")
    if installed("pyepo"):
        found["PyEPO perturbedFenchelYoung"] = fenchel_young(programs, best)
        found["PyEPO SPOPlus"] = spo_plus(programs, truth, best)
    return found


def noisy(truth: Tensor, y: Tensor, A: Tensor) -> Tensor:
    """Costs to start from, half of them noise; bounded below still, as reduced costs stay positive."""
    generator = torch.Generator().manual_seed(7)
    return 0.5 * truth + 0.5 * (torch.rand(truth.shape, generator=generator, dtype=truth.dtype) - y.flip(0) @ A)


def regret_left(name: str) -> float:
    """The share of the regret that is left after some steps along a method's gradient."""
    programs = draw(LEARNED, 0)
    truth, reference = programs.c, Problem(programs.A, programs.b)
    best = reference.points(truth)
    start = noisy(truth, programs.y, programs.A)
    moved = programs._replace(y=0.5 * programs.y + 0.5 * programs.y.flip(0))  # dual point of the costs at the start
    loss, c = losses(moved, truth, best)[name], start.clone()

    def regret(costs: Tensor) -> float:
        return float((truth * (reference.points(costs) - best)).sum())

    for _ in range(STEPS):
        c.requires_grad_()
        (gradient,) = torch.autograd.grad(loss(c), c)
        length = LENGTH * start.norm(dim=1, keepdim=True) / gradient.norm(dim=1, keepdim=True).clamp_min(1e-12)
        c = (c - length * gradient).detach()
    return regret(c) / regret(start)


def cases(size: tuple[int, int, int], seeds: Callable[[], int]) -> dict[str, Case]:
    """Forward and backward of every method on fresh costs."""
    programs = draw(size, 0)

    def case(name: str) -> Case:
        built = losses(programs, programs.c, torch.zeros_like(programs.c))  # set-up is not timed

        def prepare() -> Action:
            if name.startswith("Physarum"):  # its dual point goes with the costs
                fresh = draw(size, seeds())
                layer, c = physarum(fresh), fresh.c.requires_grad_()
                return lambda: (fresh.c.detach() * layer(c)).sum().backward()
            c = draw(size, seeds()).c.requires_grad_()
            return lambda: built[name](c).backward()

        return prepare

    return {name: case(name) for name in losses(programs, programs.c, torch.zeros_like(programs.c))}


def gaps(size: tuple[int, int, int]) -> dict[str, float]:
    """The largest relative gap of each method's point."""
    programs = draw(size, 1)
    best = (programs.c * Problem(programs.A, programs.b).points(programs.c)).sum(1)
    found = {}
    for name, layer in layers(programs).items():
        value = (programs.c * layer(programs.c)).sum(1)
        found[name] = float(((value - best).abs() / (1 + best.abs())).max())
    return found


def spent(name: str) -> float:
    """Megabytes of one forward and backward pass, in this process."""
    small = cases((4, 12, 2), lambda: 1)
    small[name]()()
    return extra_megabytes(cases(MEMORY, lambda: 1)[name]())


def label(size: tuple[int, int, int]) -> str:
    """Variables x rows, batch."""
    return f"{size[0]}x{size[1]} batch {size[2]}"


def part() -> Part:
    """The table, and what the gradients are good for."""
    rows: list[Row] = []
    counter = iter(range(1, 10**9))
    for size in SIZES:
        timings = interleave(cases(size, lambda: next(counter)), 7, warm_up=1, budget=BUDGET)
        errors = gaps(size)
        for name, timing in timings.items():
            memory = apart(spent, timeout=300)(name) if size == MEMORY and not timing.failure else math.nan
            gap = errors.get(name, math.nan)
            rows.append(Row(name, label(size), None, timing.ms, memory, gap, note=timing.failure))
            print(f"  {label(size)}: {name}: {timing.ms:.3g} ms", flush=True)
    verdicts = []
    for name in dict.fromkeys(row.method for row in rows):
        try:
            left = apart(regret_left, timeout=300)(name)
        except Exception as error:  # noqa: BLE001 (part of the result)
            print(f"  {name}: {first_line(error)}")
            continue
        verdicts.append(Verdict(f"{name}: share of the regret left after {STEPS} steps", left))
    return Part([Table("Linear programs, costs learned", rows, unit="", memory_case=label(MEMORY))], verdicts)


if __name__ == "__main__":
    script(__doc__, part)
