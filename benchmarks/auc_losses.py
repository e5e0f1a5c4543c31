"""AUC losses beside each other and cross-entropy: ours, a pair matrix, LibAUC's, and the linear program of pairs.

The papers' method is re-implemented from its description: one variable and one row for each pair, their exterior
Newton loop with its settings, the gradient through the unrolled steps. `auc_program.py` has the same program in HiGHS.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

import setwise
from auc_program import table as program_table
from cases import Loss
from harness import installed, peer
from loss_tables import Method, always, loss_table
from records import Part, faster, script
from setwise.lp import ExteriorNewton, LinearProgram, UnrolledGradient, solve
from setwise.measures import auc_program

SIZES = (64, 256, 1024, 4096, 16_384, 65_536, 1_000_000, 10_000_000)


def pair_matrix(scores: Tensor, target: Tensor) -> Tensor:
    """The hinge of all pairs, written out."""
    positive = target > 0.5
    return torch.relu(1 - (scores[positive].unsqueeze(1) - scores[~positive])).mean()


def squared_pair_matrix(scores: Tensor, target: Tensor) -> Tensor:
    """The squared hinge of all pairs."""
    positive = target > 0.5
    return torch.relu(1 - (scores[positive].unsqueeze(1) - scores[~positive])).square().mean()


def sort_and_scan(scores: Tensor, target: Tensor) -> Tensor:
    """The exact hinge in eight lines of plain torch: for each positive, the negatives within its margin."""
    positive = target > 0.5
    p, q = scores[positive], scores[~positive].sort().values
    sums = torch.cat([q.new_zeros(1), q.cumsum(0)])
    first = torch.searchsorted(q, (p - 1).detach())
    count = len(q) - first
    return (count * (1 - p) + sums[-1] - sums[first]).sum() / (len(p) * len(q))


def papers_program(scores: Tensor, target: Tensor) -> Tensor:
    """The papers' loop on the program of all pairs; dense, as they have it."""
    sparse = auc_program(scores, target)
    assert isinstance(sparse.A, Tensor)  # noqa: S101 (as it is built)
    problem = LinearProgram(sparse.c, sparse.A.to_dense(), sparse.b)
    solution = solve(
        problem, ExteriorNewton(penalty=1e-3, undamped=True), gradient=UnrolledGradient(1e-3, steps=20), throw=False
    )
    return solution.primal.mean()


def layer_of_pairs(n: int) -> Loss:
    """The program of all pairs as a layer of cvxpylayers, Clarabel differentiated by diffcp."""
    cp: Any = peer("cvxpy")
    build = peer("cvxpylayers.torch").CvxpyLayer

    @cache
    def layer(positives: int) -> Any:
        size = (positives, n - positives)
        z, gaps = cp.Variable(size), cp.Parameter(size)
        problem = cp.Problem(cp.Minimize(cp.sum(z)), [z >= 1 - gaps, z >= 0])
        return build(problem, [gaps], [z], solver_args={"solve_method": "Clarabel"})

    def loss(scores: Tensor, target: Tensor) -> Tensor:
        positive = target > 0.5
        gaps = scores[positive].unsqueeze(1) - scores[~positive]
        z: Tensor = layer(len(gaps))(gaps)[0]
        return z.mean()

    layer(n // 10)  # the canonicalization is not timed
    return loss


def methods(table: str) -> dict[str, Method]:  # noqa: ARG001 (there is one)
    """All AUC losses that can be run here."""
    found = {
        "cross-entropy": always(torch.nn.BCEWithLogitsLoss),
        "AUCLoss": always(setwise.AUCLoss, pair_matrix),
        "AUCLoss, squared hinge": always(
            lambda: setwise.AUCLoss(surrogate="squared_hinge"), squared_pair_matrix, most=1_000_000
        ),
        "sort and scan in torch": always(lambda: sort_and_scan, pair_matrix, most=1_000_000),
        "pair matrix": always(lambda: pair_matrix, pair_matrix, most=16_384),
    }
    if installed("libauc"):
        found |= {
            "LibAUC AUCMLoss v1": always(lambda: of_probabilities(libauc().AUCMLoss()), most=65_536),
            "LibAUC CompositionalAUCLoss": always(
                lambda: of_probabilities(libauc().CompositionalAUCLoss()), most=65_536
            ),
            "LibAUC PairwiseAUCLoss, squared hinge": always(
                lambda: libauc().PairwiseAUCLoss("squared_hinge"), squared_pair_matrix, most=16_384
            ),
        }
    if installed("cvxpylayers"):
        found["cvxpylayers, program of pairs"] = Method(layer_of_pairs, 256, pair_matrix)
    found["the papers' program and loop"] = always(lambda: papers_program, pair_matrix, most=64)
    return found


def libauc() -> Any:
    """Its losses."""
    return peer("libauc.losses")


def of_probabilities(loss: Loss) -> Loss:
    """LibAUC wants these in place of logits."""
    return lambda scores, target: loss(scores.sigmoid(), target)


def part() -> Part:
    """All losses in turns, then the program; ratios to cross-entropy with nothing else between are in `auc.py`."""
    table = loss_table("auc_losses", "auc", SIZES, title="AUC losses", memory_n=1_000_000)
    judged = faster(table, "AUCLoss", ("pair matrix", "LibAUC Pair"), 4096, 10.0)
    return Part([table, program_table()], judged)


if __name__ == "__main__":
    script(__doc__, part)
