"""Decision-focused learning on PyEPO's own data: its losses and ours beside each other, regrets and times.

Shortest paths on a 5 x 5 grid (`pyepo.data.shortestpath.genData`) and a 0/1 knapsack of 32 items with capacity 20
(`pyepo.data.knapsack.genData`, one dimension), five features, noise half-width 0.5, costs a polynomial of some degree
in the features; the model is linear. For each seed 200 examples to learn from, 200 to choose by, 1,000 held out. Every
method starts from the same least-squares model in float32 and has Adam, batches of 20, 12 epochs, three learning rates;
rate and epoch (every fourth is looked at) are those with the least regret on the second set. Reported is the normalized
regret on held-out data as PyEPO defines it, sum of regrets over sum of |optimal values|, by the exact decisions of
dynamic programming; PyEPO's own metric on the same models is stored beside it. Time is CPU time per epoch of training.

- PyEPO 2.2.7 with Gurobi, its default backend (OR-Tools takes two to three times as long): SPO+, also on the
  relaxation, perturbed Fenchel-Young (10 samples, sigma 1), black-box differentiation (lambda 10) on the true cost.
- ours: `RegretLoss` and `FenchelYoungLoss` (10 samples, sigma 1), each by a linear program (of the knapsack the
  relaxation) and by an oracle (dynamic programming); the true cost of `perturbed_point` by the oracle.

    python benchmarks/pyepo_generators.py [--degrees 6 1] [--seeds 5] [--out runs/pyepo_generators.jsonl]

One line of JSON for each cell goes to the file as it ends; cells that are in it are not run again. Needs pyepo, and
gurobipy==13.0.3, which brings a license for small models. About 35 minutes of one core.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from harness import first_line, one_thread, peer
from setwise import lp, metrics

SIDE, ITEMS, CAPACITY, FEATURES, NOISE = 5, 32, 20.0, 5, 0.5
SIZES = (200, 200, 1000)
BATCH, EPOCHS, LOOK = 20, 12, 4
RATES = (0.01, 0.03, 0.1)
SAMPLES, SIGMA, LAMBDA = 10, 1.0, 10

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]  # of predictions, true costs and best decisions


class Examples(NamedTuple):
    """Features, true costs (of the knapsack: values) and best decisions."""

    x: Tensor  # shape: (examples, features)
    costs: Tensor  # shape: (examples, n)
    best: Tensor  # shape: (examples, n)


@dataclass(frozen=True)
class Problem:
    """What may be decided, for PyEPO and for us.

    Attributes:
        sign: -1 where PyEPO maximizes.
        oracle: From costs to minimizers, exact.
        program: The linear program, or relaxation.
        model: PyEPO's model.
        relaxed: PyEPO's model of the relaxation, where there is one.
        sets: Examples to learn from, to choose by and to judge by.
    """

    sign: float
    oracle: lp.Oracle
    program: lp.LinearProgram
    model: Any
    relaxed: Any
    sets: list[Examples]

    def decide(self, costs: Tensor) -> Tensor:
        """The best decisions, in PyEPO's sense."""
        return torch.as_tensor(self.oracle(self.sign * costs)).to(costs)

    def regret(self, model: nn.Module, held: Examples) -> float:
        """Normalized, as PyEPO has it."""
        with torch.no_grad():
            lost = (self.sign * held.costs * (self.decide(model(held.x)) - held.best)).double().sum()
        return float(lost / (held.costs * held.best).double().sum(1).abs().sum())


def path_oracle(costs: Tensor) -> Tensor:
    """Shortest paths from the first node to the last, by Bellman's recursion over the grid; costs may be negative."""
    count, (right, down) = len(costs), grid_edges()
    length = costs.new_full((count, SIDE + 1, SIDE + 1), torch.inf)  # of node i, j at i + 1, j + 1
    from_left = torch.zeros(count, SIDE, SIDE, dtype=torch.bool)
    for i in range(SIDE):
        for j in range(SIDE):
            left = length[:, i + 1, j] + costs[:, right[i, j - 1]]
            above = length[:, i, j + 1] + costs[:, down[i - 1, j]]
            from_left[:, i, j] = left < above
            length[:, i + 1, j + 1] = torch.minimum(left, above) if i or j else 0.0
    rows = torch.arange(count)
    row, column = torch.full((count,), SIDE - 1), torch.full((count,), SIDE - 1)
    path = torch.zeros_like(costs)
    for _ in range(2 * SIDE - 2):
        across = from_left[rows, row, column]
        edge = torch.where(across, right[row, column - 1], down[row - 1, column])
        path[rows, edge] = 1
        row, column = row - (~across).long(), column - across.long()
    return path


def grid_edges() -> tuple[Tensor, Tensor]:
    """Places of the edges to the right and down from each node, in PyEPO's order; rows of edges, then columns."""
    right, down = torch.zeros(2, SIDE, SIDE, dtype=torch.long)
    place = 0
    for i in range(SIDE):
        for j in range(SIDE - 1):
            right[i, j], place = place, place + 1
        for j in range(SIDE if i + 1 < SIDE else 0):
            down[i, j], place = place, place + 1
    return right, down


def knapsack_oracle(weights: list[int], capacity: int) -> lp.Oracle:
    """The most valuable items within a capacity, by dynamic programming over it; costs are minus values."""

    def oracle(costs: Tensor) -> Tensor:
        count = len(costs)
        value = costs.new_zeros(count, capacity + 1)
        taken = torch.zeros(len(weights), count, capacity + 1, dtype=torch.bool)
        for item, weight in enumerate(weights):
            with_it = value[:, : capacity + 1 - weight] - costs[:, item, None]
            torch.gt(with_it, value[:, weight:], out=taken[item, :, weight:])
            value = torch.cat([value[:, :weight], torch.maximum(value[:, weight:], with_it)], 1)
        left, rows = torch.full((count,), capacity), torch.arange(count)
        chosen = torch.zeros_like(costs)
        for item in reversed(range(len(weights))):
            take = taken[item, rows, left]
            chosen[:, item], left = take.to(costs), left - take.long() * weights[item]
        return chosen

    return oracle


def examples(x: Any, costs: Any, decide: Callable[[Tensor], Tensor]) -> list[Examples]:
    """Three sets of PyEPO's arrays."""
    features, truth = torch.tensor(x, dtype=torch.float32), torch.tensor(costs, dtype=torch.float32)
    best = decide(truth)
    return [Examples(*parts) for parts in zip(*(part.split(SIZES) for part in (features, truth, best)), strict=True)]


def shortest_path(degree: int, seed: int) -> Problem:
    """PyEPO's grid."""
    x, costs = peer("pyepo").data.shortestpath.genData(sum(SIZES), FEATURES, (SIDE, SIDE), degree, NOISE, seed)
    model = peer("pyepo").model.shortestPathModel((SIDE, SIDE), backend="gurobi")
    flow = torch.zeros(SIDE * SIDE, len(model.arcs), dtype=torch.float64)
    for place, (a, b) in enumerate(model.arcs):
        flow[a, place], flow[b, place] = -1.0, 1.0
    into = torch.zeros(SIDE * SIDE, dtype=torch.float64)
    into[0], into[-1] = -1.0, 1.0
    program = lp.LinearProgram(torch.zeros(len(model.arcs), dtype=torch.float64), A_eq=flow, b_eq=into, upper=1.0)
    return Problem(1.0, path_oracle, program, model, None, examples(x, costs, path_oracle))


def knapsack(degree: int, seed: int) -> Problem:
    """PyEPO's knapsack of one dimension; its weights have two decimals."""
    weights, x, values = peer("pyepo").data.knapsack.genData(sum(SIZES), FEATURES, ITEMS, 1, degree, NOISE, seed)
    model = peer("pyepo").model.knapsackModel(weights, np.array([CAPACITY]), backend="gurobi")
    oracle = knapsack_oracle([round(100 * weight) for weight in weights[0]], round(100 * CAPACITY))
    program = lp.LinearProgram(
        torch.zeros(ITEMS, dtype=torch.float64),
        torch.tensor(weights, dtype=torch.float64),
        torch.tensor([CAPACITY], dtype=torch.float64),
        upper=1.0,
    )
    sets = examples(x, values, lambda values: torch.as_tensor(oracle(-values)))
    return Problem(-1.0, oracle, program, model, model.relax(), sets)


PROBLEMS = {"path": shortest_path, "knapsack": knapsack}


def theirs(problem: Problem, name: str) -> Loss:
    """A loss of PyEPO."""
    functions = peer("pyepo.func")
    if name in ("SPO+", "SPO+, relaxation"):
        spo = functions.SPOPlus(problem.model if name == "SPO+" else problem.relaxed)
        return lambda p, c, best: spo(p, c, best, (c * best).sum(1, keepdim=True))
    if name == "Fenchel-Young":
        young = functions.perturbedFenchelYoung(problem.model, n_samples=SAMPLES, sigma=SIGMA)
        return lambda p, _, best: young(p, best)
    box = functions.blackboxOpt(problem.model, lambd=LAMBDA)
    return lambda p, c, best: (problem.sign * c * (box(p) - best)).sum(1).mean()


def ours(problem: Problem, name: str) -> Loss:
    """A loss of setwise."""
    over, sign = problem.program if name.endswith(("LP", "relaxation")) else problem.oracle, problem.sign
    if name.startswith("RegretLoss"):
        spo = lp.RegretLoss(over)
        return lambda p, c, best: spo(sign * p, sign * c, best)
    if name.startswith("FenchelYoungLoss"):
        young = lp.FenchelYoungLoss(over, samples=SAMPLES, sigma=SIGMA)
        return lambda p, _, best: young(sign * p, best)
    noise = torch.Generator().manual_seed(0)

    def true_cost(p: Tensor, c: Tensor, best: Tensor) -> Tensor:
        point = lp.perturbed_point(sign * p, over, sigma=SIGMA, samples=SAMPLES, generator=noise)
        return (sign * c * (point - best)).sum(1).mean()

    return true_cost


def methods(problem: Problem) -> dict[str, Loss | None]:
    """By name; none for least squares."""
    relaxed = problem.relaxed is not None
    program = "relaxation" if relaxed else "LP"
    found: dict[str, Loss | None] = {"least squares": None}
    for name in ("SPO+", "Fenchel-Young", "black box", *(["SPO+, relaxation"] if relaxed else [])):
        found[f"PyEPO {name}"] = theirs(problem, name)
    for name in ("RegretLoss", "FenchelYoungLoss"):
        for over in (program, "oracle"):
            found[f"setwise {name}, {over}"] = ours(problem, f"{name}, {over}")
    return found | {"setwise perturbed_point, oracle": ours(problem, "perturbed_point, oracle")}


def least_squares(learn: Examples) -> nn.Linear:
    """Where all methods start."""
    x = torch.cat([learn.x, torch.ones(len(learn.x), 1)], 1).double()
    found = torch.linalg.lstsq(x, learn.costs.double()).solution.float()
    model = nn.Linear(FEATURES, learn.costs.shape[1])
    with torch.no_grad():
        model.weight.copy_(found[:-1].T)
        model.bias.copy_(found[-1])
    return model


def train(problem: Problem, model: nn.Linear, loss: Loss, learn: Examples, seed: int) -> tuple[dict[str, Any], float]:
    """The state, in place, of the rate and epoch with the least regret on the second set; seconds per epoch."""
    first = {name: value.clone() for name, value in model.state_dict().items()}
    chosen: dict[str, Any] = {"choose": float("inf")}
    seconds = []
    for rate in RATES:
        model.load_state_dict(first)
        optimizer = torch.optim.Adam(model.parameters(), lr=rate)
        generator = torch.Generator().manual_seed(seed)
        for epoch in range(1, EPOCHS + 1):
            began = time.process_time()
            for rows in torch.randperm(len(learn.x), generator=generator).split(BATCH):
                optimizer.zero_grad()
                loss(model(learn.x[rows]), learn.costs[rows], learn.best[rows]).backward()
                optimizer.step()
            seconds.append(time.process_time() - began)
            if epoch % LOOK == 0 and (now := problem.regret(model, problem.sets[1])) < chosen["choose"]:
                state = {name: value.clone() for name, value in model.state_dict().items()}
                chosen = {"choose": now, "rate": rate, "epoch": epoch, "state": state}
    model.load_state_dict(chosen.pop("state"))
    return chosen, statistics.median(seconds)


def pyepo_regret(problem: Problem, model: nn.Module, held: Examples) -> float:
    """PyEPO's metric on the same predictions, by its own solver."""
    values = (held.costs * held.best).sum(1, keepdim=True)
    return float(peer("pyepo.metric").regret(model, problem.model, [(held.x, held.costs, held.best, values)]))


def cell(problem: Problem, name: str, loss: Loss | None, seed: int) -> dict[str, Any]:
    """One method on one draw."""
    learn = problem.sets[0]
    if name.endswith("relaxation"):  # its best decisions are those of the relaxation
        best = lp.solve(problem.program.replace(c=problem.sign * learn.costs.double())).primal
        learn = learn._replace(best=best.float())
    model = least_squares(learn)
    chosen, seconds = ({}, 0.0) if loss is None else train(problem, model, loss, learn, seed)
    regrets = {"regret": problem.regret(model, problem.sets[2]), "pyepo": pyepo_regret(problem, model, problem.sets[2])}
    return {name: round(value, 6) for name, value in (regrets | chosen | {"seconds": seconds}).items()}


def show(rows: list[dict[str, Any]]) -> None:
    """The table of each problem and degree."""
    for problem, degree in dict.fromkeys((row["problem"], row["degree"]) for row in rows):
        here = [row for row in rows if (row["problem"], row["degree"]) == (problem, degree)]
        print(f"\n{problem}, degree {degree}, {len({row['seed'] for row in here})} seeds\n")
        print("| method | regret, % | less least squares | ms per epoch |\n|---|---|---|---|")
        start = {row["seed"]: row["regret"] for row in here if row["method"] == "least squares"}
        for name in dict.fromkeys(row["method"] for row in here):
            mine = [row for row in here if row["method"] == name]
            value = metrics.mean_interval([100 * row["regret"] for row in mine])
            less = metrics.mean_interval([100 * (row["regret"] - start[row["seed"]]) for row in mine])
            speed = 1000 * statistics.median(row["seconds"] for row in mine)
            cells = [f"{value.estimate:.2f} [{value.low:.2f}, {value.high:.2f}]"]
            cells += [f"{less.estimate:+.2f} [{less.low:+.2f}, {less.high:+.2f}]", f"{speed:.0f}"]
            print("| " + " | ".join([name, *(cells if speed else [cells[0], "", ""])]) + " |")
        print(f"largest difference to PyEPO's metric: {max(abs(row['regret'] - row['pyepo']) for row in here):.1e}")


def what_is_missing() -> str:
    """Why the peer cannot be run, or nothing."""
    try:
        peer("pyepo"), peer("gurobipy")
    except ImportError as error:
        return first_line(error)
    return ""


def main() -> None:
    """Run what is missing and print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--degrees", type=int, nargs="+", default=[6, 1])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("runs/pyepo_generators.jsonl"))
    options = parser.parse_args()
    one_thread()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    text = options.out.read_text(encoding="utf-8") if options.out.exists() else ""
    rows = [json.loads(line) for line in text.splitlines()]
    done = {(row["problem"], row["degree"], row["seed"], row["method"]) for row in rows}
    missing = what_is_missing()
    if missing:
        print(f"PyEPO cannot be run here ({missing}); the tables are those of {options.out}.")
    else:
        for degree in options.degrees:
            for seed in range(options.seeds):
                run_seed(degree, seed, done, rows, options.out)
    show(rows)


def run_seed(degree: int, seed: int, done: set[tuple[Any, ...]], rows: list[dict[str, Any]], out: Path) -> None:
    """All cells of a degree and a seed that are not done."""
    for kind, build in PROBLEMS.items():
        problem = build(degree, seed)
        for name, loss in methods(problem).items():
            if (kind, degree, seed, name) in done:
                continue
            row = {"problem": kind, "degree": degree, "seed": seed, "method": name} | cell(problem, name, loss, seed)
            rows.append(row)
            with out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
