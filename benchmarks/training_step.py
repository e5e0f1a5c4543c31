"""What a loss costs of a whole training step: forward, backward, optimizer, batch of 64, on one thread.

For ResNet-18 on images of 32 and of 64 pixels, and for a small network on a table: the step with cross-entropy, the
step with AUCLoss, and forward and backward of each loss alone, all in turns on fresh batches.

    python benchmarks/training_step.py [--json FILE]
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from cases import Loss
from harness import Action, Case, interleave
from records import Part, Row, Table, Verdict, script
from setwise import AUCLoss
from setwise_research.networks import ResNet18

BATCH = 64
FEATURES = 32
LEVEL = 0.01  # the loss alone over the step with cross-entropy, for ResNet-18
LOSSES: dict[str, Callable[[], Loss]] = {"cross-entropy": nn.BCEWithLogitsLoss, "AUCLoss": AUCLoss}
SETUPS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], int]] = {
    "ResNet-18, 32x32": (lambda: ResNet18(stem="cifar"), (3, 32, 32), 3),
    "ResNet-18, 64x64": (lambda: ResNet18(stem="imagenet"), (3, 64, 64), 5),
    "MLP, 32-64-64-1": (
        lambda: nn.Sequential(
            *(nn.Linear(FEATURES, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1), nn.Flatten(0))
        ),
        (FEATURES,),
        200,
    ),
}


def labels() -> Tensor:
    """A tenth of positives, and at least one of either class."""
    target = (torch.rand(BATCH) < 0.1).float()
    target[0], target[1] = 1.0, 0.0
    return target


def step(make: Callable[[], nn.Module], shape: tuple[int, ...], loss: Loss) -> Case:
    """A training step on a fresh batch."""
    network = make()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)

    def case() -> Action:
        input, target = torch.randn(BATCH, *shape), labels()

        def action() -> None:
            optimizer.zero_grad()
            loss(network(input), target).backward()
            optimizer.step()

        return action

    return case


def alone(loss: Loss) -> Case:
    """Forward and backward of the loss only."""

    def case() -> Action:
        scores, target = torch.randn(BATCH, requires_grad=True), labels()
        return lambda: loss(scores, target).backward()

    return case


def part() -> Part:
    """Steps and losses by network, and the share of AUCLoss."""
    rows, verdicts = [], []
    for name, (make, shape, repetitions) in SETUPS.items():
        cases = {f"step with {what}": step(make, shape, loss()) for what, loss in LOSSES.items()}
        times = interleave(cases, repetitions, warm_up=1)
        # The losses alone take a thousandth of a step, so they get turns of their own, and more of them.
        times |= interleave({f"{what} alone": alone(loss()) for what, loss in LOSSES.items()}, 500, warm_up=20)
        rows += [Row(method, name, ms=timing.ms, note=timing.failure) for method, timing in times.items()]
        share = times["AUCLoss alone"].ms / times["step with cross-entropy"].ms
        level = LEVEL if name.startswith("ResNet") else None
        verdicts.append(Verdict(f"{name}: AUCLoss alone / step with cross-entropy", share, level))
        print(verdicts[-1], flush=True)
    return Part([Table(f"A training step, batch of {BATCH}", rows, unit="")], verdicts)


if __name__ == "__main__":
    script(__doc__, part)
