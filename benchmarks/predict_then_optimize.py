"""Shortest paths over predicted costs: does training on the regret lower it on held-out data?

Elmachtoub and Grigas's made-up data: five normal features x, a grid of 5 x 5 nodes with 40 edges to the right and down,
edge costs ((B x / sqrt(5) + 3)^degree + 1) / 3.5^degree times noise in [0.5, 1.5], B of zeros and ones. The model is
linear in x, so that for degrees above 1 no model is right, and what it gets wrong is a choice. 200 examples to learn
from, 200 to choose the learning rate (of three) and the epoch by, 1,000 held out; a new B and new examples for each
seed. Reported is the relative regret: the cost of the paths that the predictions lead to, over that of the best paths,
less 1.

- least squares: ridge regression on the costs, its penalty (of five) chosen by regret too.
- regret loss: `setwise.lp.RegretLoss`, from the least-squares model, Adam, 20 epochs.
- smoothed point: the true cost of `LPLayer(gradient="smoothed")`'s path, in the same way.

    python benchmarks/predict_then_optimize.py [--seeds 10] [--degrees 1 2 4 6]    # about forty minutes of one core
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from setwise import lp, metrics

SIDE, FEATURES = 5, 5
SIZES = (200, 200, 1000)
BATCH, EPOCHS, LOOK = 50, 20, 4  # every fourth epoch is looked at
RATES = (0.003, 0.01, 0.03)
PENALTIES = (0.01, 0.1, 1.0, 10.0, 100.0)

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]  # of predicted costs, true costs and best paths


class Examples(NamedTuple):
    """Features, true edge costs and best paths."""

    x: Tensor  # shape: (examples, features)
    costs: Tensor  # shape: (examples, edges)
    best: Tensor  # shape: (examples, edges)


def grid() -> lp.LinearProgram:
    """One unit of flow from the first node to the last; edges carry 0 to 1."""
    nodes = [(row, column) for row in range(SIDE) for column in range(SIDE)]
    edges = [(a, b) for a in nodes for b in ((a[0], a[1] + 1), (a[0] + 1, a[1])) if b in nodes]
    flow = torch.zeros(len(nodes), len(edges), dtype=torch.float64)
    for place, (a, b) in enumerate(edges):
        flow[nodes.index(a), place], flow[nodes.index(b), place] = -1.0, 1.0
    into = torch.zeros(len(nodes), dtype=torch.float64)
    into[0], into[-1] = -1.0, 1.0
    return lp.LinearProgram(torch.zeros(len(edges), dtype=torch.float64), A_eq=flow, b_eq=into, upper=1.0)


def draw(program: lp.LinearProgram, degree: int, seed: int) -> list[Examples]:
    """Examples to learn from, to choose by and to judge by."""
    generator = torch.Generator().manual_seed(seed)
    edges = program.variables
    B = (torch.rand(edges, FEATURES, generator=generator) < 0.5).double()
    found = []
    for size in SIZES:
        x = torch.randn(size, FEATURES, generator=generator, dtype=torch.float64)
        costs = ((x @ B.T / FEATURES**0.5 + 3) ** degree + 1) / 3.5**degree
        costs = costs * (0.5 + torch.rand(size, edges, generator=generator, dtype=torch.float64))
        found.append(Examples(x, costs, lp.solve(program.replace(c=costs)).primal))
    return found


def relative_regret(model: nn.Module, program: lp.LinearProgram, held: Examples) -> float:
    """The regret of all examples over the cost of their best paths."""
    with torch.no_grad():
        left = lp.regret(model(held.x), held.costs, program, best=held.best).sum()
    return float(left / (held.costs * held.best).sum())


def ridge(learn: Examples, penalty: float) -> nn.Linear:
    """Least squares with a penalty on the slopes."""
    x, y = learn.x - learn.x.mean(0), learn.costs - learn.costs.mean(0)
    slopes = torch.linalg.solve(x.T @ x + penalty * torch.eye(FEATURES, dtype=x.dtype), x.T @ y).T
    model = nn.Linear(FEATURES, y.shape[1], dtype=torch.float64)
    with torch.no_grad():
        model.weight.copy_(slopes)
        model.bias.copy_(learn.costs.mean(0) - slopes @ learn.x.mean(0))
    return model


def train(model: nn.Linear, loss: Loss, program: lp.LinearProgram, sets: list[Examples], seed: int) -> nn.Linear:
    """The model of the rate and epoch with the least regret on the second set, the start among them."""
    learn, choose = sets[:2]
    best, state = relative_regret(model, program, choose), model.state_dict()
    first = {name: value.clone() for name, value in state.items()}
    kept = dict(first)
    for rate in RATES:
        model.load_state_dict(first)
        optimizer = torch.optim.Adam(model.parameters(), lr=rate)
        generator = torch.Generator().manual_seed(seed)
        for epoch in range(1, EPOCHS + 1):
            for rows in torch.randperm(len(learn.x), generator=generator).split(BATCH):
                optimizer.zero_grad()
                loss(model(learn.x[rows]), learn.costs[rows], learn.best[rows]).backward()
                optimizer.step()
            if epoch % LOOK == 0 and (now := relative_regret(model, program, choose)) < best:
                best, kept = now, {name: value.clone() for name, value in model.state_dict().items()}
    model.load_state_dict(kept)
    return model


def methods(program: lp.LinearProgram) -> dict[str, Loss | None]:
    """Losses by method; none for least squares."""
    layer = lp.LPLayer(gradient="smoothed")

    def smoothed(predicted: Tensor, costs: Tensor, best: Tensor) -> Tensor:
        path: Tensor = layer(predicted, A_eq=program.A_eq, b_eq=program.b_eq, upper=program.upper)
        return (costs * (path - best)).sum(-1).mean()

    return {"least squares": None, "regret loss": lp.RegretLoss(program), "smoothed point": smoothed}


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--degrees", type=int, nargs="+", default=[1, 2, 4, 6])
    options = parser.parse_args()
    torch.set_num_threads(1)
    program, began = grid(), time.process_time()
    names = list(methods(program))
    print("| degree | " + " | ".join(names) + " | regret loss less least squares |\n|---|" + "---|" * (len(names) + 1))
    for degree in options.degrees:
        found: dict[str, list[float]] = {name: [] for name in names}
        for seed in range(options.seeds):
            sets = draw(program, degree, seed)
            starts = [ridge(sets[0], penalty) for penalty in PENALTIES]
            start = min(starts, key=lambda model: relative_regret(model, program, sets[1]))
            state = {name: value.clone() for name, value in start.state_dict().items()}
            for name, loss in methods(program).items():
                start.load_state_dict(state)
                model = start if loss is None else train(start, loss, program, sets, seed)
                found[name].append(100 * relative_regret(model, program, sets[2]))
        cells = [metrics.mean_interval(found[name]) for name in names]
        cells.append(metrics.paired_mean_interval(found["regret loss"], found["least squares"]))
        shown = " | ".join(f"{one.estimate:+.2f} [{one.low:+.2f}, {one.high:+.2f}]" for one in cells)
        print(f"| {degree} | {shown} |", flush=True)
    print(f"\nRelative regret in percent on held-out data. {time.process_time() - began:.0f} s of CPU")


if __name__ == "__main__":
    main()
