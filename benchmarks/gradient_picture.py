"""The picture of docs/gradients.md: a vertex does not move with the cost, the penalty's minimizer does.

python benchmarks/gradient_picture.py docs/images/gradients.png
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl
import torch
from torch import Tensor

from setwise.lp import LinearProgram, SmoothedGradient, solve
from setwise.lp.solvers.exterior_newton import minimize_penalty
from setwise.lp.standard_form import StandardForm

mpl.use("Agg")
import matplotlib.pyplot as plt

SIDES = 7
PENALTIES = {0.3: "#E69F00", 0.1: "#009E73"}


def polygon(angle: Tensor) -> LinearProgram:
    """Min c'z over a polygon with ``SIDES`` sides, c at the given angles.  # shape: (batch,)."""
    turn = 2 * torch.pi * torch.arange(SIDES, dtype=torch.float64) / SIDES
    A = torch.stack([turn.cos(), turn.sin()], -1)
    c = torch.stack([angle.cos(), angle.sin()], -1)
    return LinearProgram(c, A, torch.ones(SIDES, dtype=torch.float64), lower=-torch.inf)


def minimizer(problem: LinearProgram, penalty: float) -> Tensor:
    """The minimizer of Mangasarian's function.  # shape: (batch, 2)."""
    form = StandardForm.of(problem, tensors=True)
    return minimize_penalty(form, form.zero(), penalty)


def main() -> None:
    """Draw first coordinate and derivative against the angle of the cost."""
    angle = torch.linspace(0, 2 * torch.pi, 721, dtype=torch.float64, requires_grad=True)
    problem = polygon(angle)
    degrees = angle.detach().rad2deg()
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    left.plot(degrees, solve(problem).primal[:, 0].detach(), color="black", label="vertex z*")
    for penalty, colour in PENALTIES.items():
        left.plot(degrees, minimizer(problem, penalty)[:, 0], color=colour, label=f"minimizer y, penalty {penalty:g}")
        primal = solve(problem, gradient=SmoothedGradient(penalty)).primal[:, 0].sum()
        (slope,) = torch.autograd.grad(primal, angle, retain_graph=True)
        right.plot(degrees, slope, color=colour, label=f"smoothed, penalty {penalty:g}")
    (slope,) = torch.autograd.grad(solve(problem).primal[:, 0].sum(), angle)
    right.plot(degrees, slope, color="black", label="implicit")
    left.set(xlabel="angle of the cost (degrees)", ylabel="first coordinate", title="The point")
    right.set(xlabel="angle of the cost (degrees)", ylabel="derivative by the angle", title="Its derivative")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8)
    figure.savefig(Path(sys.argv[1]), dpi=110)


if __name__ == "__main__":
    main()
