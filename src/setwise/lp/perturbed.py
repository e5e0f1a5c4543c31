r"""Perturbed optimizers: Fenchel-Young loss of predicted costs, and the mean minimizer with its derivative.

A minimizer z(p) of p'z over a polytope, or over a finite set, is piecewise constant in p. With noise Z ~ N(0, I),

    F(p) = E min_z (p + sigma Z)'z    and    grad F(p) = E z(p + sigma Z),

F is concave and smooth, and its gradient is a smoothed minimizer. The Fenchel-Young loss of p and a decision y is

    loss(p, y) = p'y - F(p) = E (p + sigma Z)'(y - z(p + sigma Z))  >=  0,

convex and smooth in p, with the gradient y - E z(p + sigma Z): 0 where the smoothed minimizer is y. The general
Fenchel-Young loss adds the constant sup_p F(p) - p'y. It is 0 where y is the only minimizer of some costs, so for every
vertex: F(p) <= E (p + sigma Z)'y = p'y for every feasible y, and both sides meet as those costs grow. For other y, such
as means of decisions, it is below 0. It is left out here: the gradient is the same, the loss never below 0.

The expectation is a mean over samples, in the second form: it has the same expectation and the same gradient as the
first, is never negative and does not vary with y'Z. All samples of all examples are one batch of programs.

The mean minimizer itself has, by parts on the density of Z, the derivative E z(p + sigma Z) Z' / sigma, which is
estimated from the same samples as their covariance, sum_k (z_k - mean z) Z_k' / ((samples - 1) sigma).

Reference: Berthet, Blondel, Teboul, Cuturi, Vert, Bach, "Learning with Differentiable Perturbed Optimizers", NeurIPS
2020 (there for maximization).

>>> program = LinearProgram(torch.zeros(3), A_eq=torch.ones(1, 3), b_eq=torch.ones(1))  # choose one of three
>>> predicted, best = torch.tensor([1.0, 1.0, 9.0], requires_grad=True), torch.tensor([1.0, 0.0, 0.0])
>>> loss = fenchel_young_loss(predicted, best, program, samples=1000, generator=torch.Generator().manual_seed(0))
>>> loss.backward()
>>> bool(loss > 0), predicted.grad.round(decimals=1)  # the first two are chosen equally often, the third never
(True, tensor([ 0.5000, -0.5000,  0.0000]))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from setwise import _checks
from setwise.lp.oracle import Oracle, check_feasible_set, check_not_beaten, minimizers, read
from setwise.lp.problem import LinearProgram
from setwise.lp.regret import REDUCTIONS
from setwise.lp.solvers.hot_start import HotStart

if TYPE_CHECKING:
    from setwise.lp.solve import Solver

PERTURBED = "predicted + sigma * noise"


def fenchel_young_loss(
    predicted: Tensor,
    best: Tensor,
    program: LinearProgram | Oracle,
    *,
    sigma: float = 1.0,
    samples: int = 10,
    reduction: str = "mean",
    generator: torch.Generator | None = None,
    solver: Solver | None = None,
    memory: HotStart | None = None,
) -> Tensor:
    """The perturbed Fenchel-Young loss of predicted costs and the decisions that were best.

    It needs no true costs, only the decisions: those of an expert, or the minimizers for known costs, found once before
    training by ``solve(program.replace(c=costs)).primal`` or ``oracle(costs)``.

    Args:
        predicted: Predicted costs; half precision is computed in the program's.  # shape: (*batch, n)
        best: Feasible decisions to imitate, constants.  # shape: (*batch, n)
        program: What may be decided: a program, whose own ``c`` and ``offset`` do not count, or an oracle. Bounds that
            keep every variable finite are a good idea: the perturbed costs may be any.
        sigma: Standard deviation of the noise, in the units of the costs. The loss wants predictions that stay right
            under that much noise, so it sets their scale too.
        samples: Noise vectors per example, each one program more.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        generator: Of the noise, on the CPU; by default torch's own. The noise is the same on every device.
        solver: A solver, or None to let :func:`~setwise.lp.solve` choose.
        memory: What the solver keeps between calls over the same program, see :func:`~setwise.lp.solve`.

    Returns:
        A scalar, or the loss of each program for ``"none"``; 0 for a batch of none. Its expectation is p'y - F(p).

    Raises:
        LPError: When a program has no optimum for the perturbed costs.
        InputError: When an argument cannot be used, when ``best`` is not feasible for a program, or when an oracle's
            answer is no minimizer: then the loss is negative.
    """
    _checks.one_of("reduction", reduction, REDUCTIONS)
    _check_noise(sigma, samples, generator)
    # Half precision has too few digits for a difference of costs; the loss comes back in float32 at least.
    dtype = torch.promote_types(predicted.dtype, torch.float32) if isinstance(predicted, Tensor) else None
    program, (predicted, best) = read(program, solver, {"predicted": predicted, "best": best})
    best = best.detach()
    perturbed = predicted + sigma * _noise(program, predicted, samples, generator)  # shape: (samples, *batch, n)
    points = minimizers(program, perturbed, solver, PERTURBED, memory)
    check_not_beaten(program, perturbed, points, best, costs_name=PERTURBED, other_name="`best`")
    loss = (perturbed * (best - points)).sum(-1).mean(0)
    if reduction != "none":
        loss = loss.sum() / (max(loss.numel(), 1) if reduction == "mean" else 1)
    return loss.to(dtype)


def perturbed_point(
    predicted: Tensor,
    program: LinearProgram | Oracle,
    *,
    sigma: float = 1.0,
    samples: int = 10,
    generator: torch.Generator | None = None,
    solver: Solver | None = None,
) -> Tensor:
    """The mean minimizer under noise, E z(p + sigma Z), with a derivative that is not 0: for any loss of a decision.

    Args:
        predicted: Predicted costs; half precision is computed in the program's.  # shape: (*batch, n)
        program: What may be decided: a program, whose own ``c`` and ``offset`` do not count, or an oracle.
        sigma: Standard deviation of the noise, in the units of the costs.
        samples: Noise vectors per example, at least 2; the estimates' errors fall with their root.
        generator: Of the noise, on the CPU; by default torch's own. The noise is the same on every device.
        solver: A solver, or None to let :func:`~setwise.lp.solve` choose.

    Returns:
        The mean over the samples, a feasible point of a program. Mean and derivative are without bias.
        # shape: (*batch, n)

    Raises:
        LPError: When a program has no optimum for the perturbed costs.
        InputError: When an argument cannot be used, or an oracle's answer is no minimizer.

    Examples:
        >>> program = LinearProgram(torch.zeros(2), A_eq=torch.ones(1, 2), b_eq=torch.ones(1))  # choose one of two
        >>> predicted = torch.zeros(2, requires_grad=True)
        >>> noise = torch.Generator().manual_seed(0)
        >>> point = perturbed_point(predicted, program, samples=10_000, generator=noise)
        >>> point[0].backward()
        >>> point.detach().round(decimals=1), predicted.grad.round(decimals=1)  # the truth: 1/2 -+ 1 / (2 sqrt(pi))
        (tensor([0.5000, 0.5000]), tensor([-0.3000,  0.3000]))
    """
    _check_noise(sigma, samples, generator)
    _checks.is_count("samples", samples, 2)  # the derivative is a covariance over them
    dtype = torch.promote_types(predicted.dtype, torch.float32) if isinstance(predicted, Tensor) else None
    program, (predicted,) = read(program, solver, {"predicted": predicted})
    noise = _noise(program, predicted, samples, generator)
    perturbed = predicted.detach() + sigma * noise  # shape: (samples, *batch, n)
    points = minimizers(program, perturbed, solver, PERTURBED)
    mean = points.mean(0)
    if not isinstance(program, LinearProgram):
        check_not_beaten(
            program, perturbed, points, mean, costs_name=PERTURBED, other_name="the mean of its answers to all samples"
        )
    # Of value 0: it carries the derivative (z_k - mean) Z_k' / ((samples - 1) sigma), and no Jacobian is formed.
    along = (noise * (predicted - predicted.detach())).sum(-1, keepdim=True) / sigma
    return (mean + ((points - mean) * along).sum(0) / (samples - 1)).to(dtype)


class FenchelYoungLoss(nn.Module):
    """:func:`fenchel_young_loss` as a module: ``loss(predicted, best)``.

    In training every call draws new noise. The generator's state is part of ``state_dict``, so that a run resumes with
    the noise it would have had. After ``eval()`` every call draws the noise of the first call and leaves the state
    alone, so that values can be compared.

    Args:
        program: What may be decided: a program, whose own ``c`` and ``offset`` do not count, or an oracle.
        sigma: Standard deviation of the noise, in the units of the costs.
        samples: Noise vectors per example.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        seed: Of the noise.
        solver: A solver, or None to let :func:`~setwise.lp.solve` choose.

    Examples:
        >>> loss = FenchelYoungLoss(LinearProgram(torch.zeros(3), A_eq=torch.ones(1, 3), b_eq=torch.ones(1)), sigma=0.1)
        >>> loss(torch.tensor([[2.0, 1.0, 3.0], [1.0, 2.0, 3.0]]), torch.tensor([1.0, 0.0, 0.0])).round(decimals=1)
        tensor(0.5000)
    """

    def __init__(
        self,
        program: LinearProgram | Oracle,
        *,
        sigma: float = 1.0,
        samples: int = 10,
        reduction: str = "mean",
        seed: int = 0,
        solver: Solver | None = None,
    ) -> None:
        super().__init__()
        check_feasible_set("program", program, solver)
        _check_noise(sigma, samples, None)
        _checks.one_of("reduction", reduction, REDUCTIONS)
        _checks.is_count("seed", seed, 0)
        self.program = program
        self.sigma = sigma
        self.samples = samples
        self.reduction = reduction
        self.seed = seed
        self.solver = solver
        self._generator = torch.Generator().manual_seed(seed)
        self._memory = HotStart()

    def forward(self, predicted: Tensor, best: Tensor) -> Tensor:
        """The loss of one batch; see :func:`fenchel_young_loss`."""
        return fenchel_young_loss(
            predicted,
            best,
            self.program,
            sigma=self.sigma,
            samples=self.samples,
            reduction=self.reduction,
            generator=self._generator if self.training else torch.Generator().manual_seed(self.seed),
            solver=self.solver,
            memory=self._memory,
        )

    def get_extra_state(self) -> Tensor:
        """Where the noise has got to."""
        return self._generator.get_state()

    def set_extra_state(self, state: Tensor) -> None:
        """Take up where the state was saved."""
        self._generator.set_state(state.cpu())

    def extra_repr(self) -> str:
        """The settings, for ``print(model)``."""
        return (
            f"program={self.program!r}, sigma={self.sigma}, samples={self.samples}, reduction={self.reduction!r}, "
            f"seed={self.seed}, solver={self.solver!r}"
        )


def _check_noise(sigma: float, samples: int, generator: torch.Generator | None) -> None:
    _checks.in_range("sigma", sigma, 0.0, float("inf"), open_low=True, open_high=True)
    _checks.is_count("samples", samples)
    if generator is None:
        return
    if not isinstance(generator, torch.Generator):
        raise TypeError(f"Expected `generator` to be a torch.Generator, but got {type(generator).__name__}.")
    if generator.device.type != "cpu":
        raise _checks.InputError(
            f"Expected `generator` to be on the CPU, where the noise is drawn, but it is on {generator.device}."
        )


def _noise(
    program: LinearProgram | Oracle, predicted: Tensor, samples: int, generator: torch.Generator | None
) -> Tensor:
    """Standard normal noise, the same on every device and in every dtype.  # shape: (samples, *batch, n)."""
    batch = predicted.shape[:-1]
    if isinstance(program, LinearProgram):  # programs that differ in their constraints have noise of their own
        batch = torch.broadcast_shapes(batch, program.batch_shape)
    noise = torch.randn(samples, *batch, predicted.shape[-1], generator=generator, dtype=torch.float64)
    return noise.to(predicted.dtype).to(predicted.device)  # in this order: some devices have no float64
