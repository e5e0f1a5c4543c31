r"""The Euclidean projection onto C = {(tau, eps): tau_i <= eps, eps >= 0}, exact and differentiable.

    (tau, eps) = argmin ||tau - gamma||^2 + (eps - delta)^2   subject to   tau_i <= eps, eps >= 0.

For a given eps the best tau is min(gamma, eps), which leaves a convex function of eps alone. So

    eps = max(0, e)   where   e - delta = sum_i relu(gamma_i - e),      tau = min(gamma, eps),

and with k entries above eps > 0 the derivatives are those of a mean, d eps / d delta = d eps / d gamma_i = 1 / (1 + k)
for the entries above, 0 for the others; where eps = 0 is clamped, eps has none and tau_i has 1 where gamma_i <= 0.

>>> import torch
>>> from setwise.lagrangian import project
>>> project(torch.tensor([3.0, 0.5]), torch.tensor(1.0))  # 3 and 1 meet at their mean
(tensor([2.0000, 0.5000]), tensor(2.))
>>> project(torch.tensor([3.0]), torch.tensor(-1.0))
(tensor([1.]), tensor(1.))
>>> project(torch.tensor([-2.0, 0.5]), torch.tensor(-1.0))  # clamped
(tensor([-2.,  0.]), tensor(0.))

The set is the one that the program for the F-measure over a whole data set leaves after its other constraints have got
multipliers; n is then the number of its positives.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn

from setwise import _checks
from setwise.lagrangian.dual_ascent.projection_threshold import exact_threshold, sampled_threshold, sinkhorn_threshold

METHODS = ("newton", "sort", "one_pass", "sampled", "sinkhorn")
"""The names that :func:`project` takes as ``method``."""


def project(
    gamma: Tensor,
    delta: Tensor,
    *,
    method: str = "newton",
    samples: int = 10_000,
    generator: torch.Generator | None = None,
    temperature: float = 0.01,
    iterations: int = 100,
) -> tuple[Tensor, Tensor]:
    """The point (tau, eps) with tau_i <= eps and eps >= 0 that is nearest to (gamma, delta).

    The first three methods are exact and give the same result:

    - ``"newton"``: a few passes over ever fewer entries, O(n) but for entries made to resist, which are sorted.
    - ``"sort"``: the largest mean of delta and the k highest entries, over all k, by one sort.
    - ``"one_pass"``: the sequential algorithm of the 2019 paper (its Algorithm 4): down the sorted entries while they
      are above the mean of those before. Corrected are: the mean starts from delta, not from max(delta, 0), which is
      wrong for negative delta; the entry that joins it is the one just compared, not the one before; all entries up to
      the last that joined become eps, where the print leaves that one as it was; and the list may end before an entry
      stays below. (Its short form, Algorithm 2, leaves delta out of the mean's count as well.)

    The other two approximate eps. Their (tau, eps) is in the set too, but not the nearest point:

    - ``"sampled"``: ``samples`` entries drawn with replacement stand for all. The error of eps is about
      n s / ((1 + k) sqrt(samples)) for s the standard deviation of relu(gamma_i - eps): small where a good share of the
      entries is above eps, and large, mostly too low, where so few are that the sample holds none of them. Derivatives
      are the exact ones at the eps found.
    - ``"sinkhorn"``: the papers' soft sort by entropic optimal transport, ``iterations`` of Sinkhorn's algorithm, then
      the largest mean as above (in place of their formulas (18) and (19); the former as printed is 1 throughout). Soft
      sorting mixes entries within sqrt(temperature) of the ranks, so eps comes out too low, the more so the fewer
      entries are above it; with too few iterations for the temperature it may come out too high. Differentiable by
      autograd through all of it. It needs n^2 memory and time n^2 per iteration, so it is for n up to some thousands.

    ``benchmarks/projection.py`` measures times and errors of all.

    Args:
        gamma: float16 and bfloat16 are computed in float32.  # shape: (*batch, n)
        delta: As many as rows of gamma.  # shape: (*batch,)
        method: See above.
        samples: How many entries ``"sampled"`` draws.
        generator: Draws them; torch's own if None.
        temperature: How soft ``"sinkhorn"`` sorts.
        iterations: How many iterations ``"sinkhorn"`` takes.

    Returns:
        ``tau`` of gamma's shape and ``eps`` of delta's.
    """
    _check(gamma, delta, method)
    if gamma.dtype in (torch.float16, torch.bfloat16):
        options: dict[str, Any] = {"samples": samples, "generator": generator}
        options |= {"temperature": temperature, "iterations": iterations}
        # Half precision cannot hold running sums of thousands of entries.
        tau, eps = project(gamma.float(), delta.float(), method=method, **options)
        return tau.to(gamma.dtype), eps.to(gamma.dtype)
    if method == "sinkhorn":
        _checks.in_range("temperature", temperature, 0.0, open_low=True, open_high=True)
        _checks.is_count("iterations", iterations)
        eps = sinkhorn_threshold(gamma, delta, float(temperature), int(iterations))
        return torch.minimum(gamma, eps.unsqueeze(-1)), eps
    if method == "sampled":
        _checks.is_count("samples", samples)
        threshold = sampled_threshold(gamma, delta, int(samples), generator)
    else:
        threshold = exact_threshold(gamma, delta, method)
    if _checks.values_are_readable():
        # Closed form: the derivative is that of a mean, whatever method has found the threshold.
        function: type[torch.autograd.Function] = _Project
        return cast("tuple[Tensor, Tensor]", function.apply(gamma, delta, threshold))
    return _by_operations(gamma, delta, threshold)


def project_touched(tau: Tensor, eps: Tensor, index: Tensor, *, method: str = "newton") -> tuple[Tensor, Tensor]:
    """The projection of eps and of the rows of tau that a mini-batch has touched; the other rows stay.

    This costs what the batch costs, and is the whole projection only while the other rows are at most eps. When a
    step lowers eps, rows that the batch does not hold stay above it until the next full :func:`project`:

    >>> tau, eps = torch.tensor([1.0, 1.0, 0.2]), torch.tensor(1.0)
    >>> eps = eps - 0.5  # a step on eps, and on row 2 alone
    >>> tau[2] += 0.1
    >>> project_touched(tau, eps, torch.tensor([2]))  # rows 0 and 1 are now above eps
    (tensor([1.0000, 1.0000, 0.3000]), tensor(0.5000))
    >>> project(tau, eps)
    (tensor([0.8333, 0.8333, 0.3000]), tensor(0.8333))

    A batch of one row and eps is the papers' "batch of two": where tau_i > eps, both become (tau_i + eps) / 2. Their
    rule for eps < 0, to set eps to 0 and leave tau_i, is right only where tau_i <= 0:

    >>> project_touched(torch.tensor([3.0]), torch.tensor(-1.0), torch.tensor([0]))
    (tensor([1.]), tensor(1.))

    Args:
        tau: All rows.  # shape: (n,)
        eps: A single number.  # shape: ()
        index: The rows that take part, in any order; repeated ones count once.  # shape: (rows,)
        method: One of the exact ones, see :func:`project`.

    Returns:
        A new ``tau`` and ``eps``, differentiable. :func:`project_touched_` changes them in place.
    """
    rows = _touched(tau, eps, index, method)
    found, eps = project(tau[rows], eps, method=method)
    return tau.index_copy(0, rows, found), eps


@torch.no_grad()
def project_touched_(tau: Tensor, eps: Tensor, index: Tensor, *, method: str = "newton") -> None:
    """:func:`project_touched` in place and without gradients, so that only the touched rows cost anything.

    Args:
        tau: All rows; parameters will do.  # shape: (n,)
        eps: A single number.  # shape: ()
        index: The rows that take part.  # shape: (rows,)
        method: One of the exact ones, see :func:`project`.
    """
    rows = _touched(tau, eps, index, method)
    found, level = project(tau[rows], eps, method=method)
    tau.index_copy_(0, rows, found)
    eps.copy_(level)


class Projection(nn.Module):
    """:func:`project` as a layer, for use inside a forward pass: ``tau, eps = projection(gamma, delta)``.

    So an optimizer may move gamma and delta freely, and the loss sees only points of the set (the papers' single loop).
    Mind that all entries above eps get the same gradient, so those that once are stay tied to each other and descent
    can stop short of the optimum; start with gamma below delta.

    Args:
        method: See :func:`project`, as for all others.
        samples: How many entries ``"sampled"`` draws.
        generator: Draws them.
        temperature: How soft ``"sinkhorn"`` sorts.
        iterations: How many iterations ``"sinkhorn"`` takes.
    """

    def __init__(
        self,
        method: str = "newton",
        *,
        samples: int = 10_000,
        generator: torch.Generator | None = None,
        temperature: float = 0.01,
        iterations: int = 100,
    ) -> None:
        super().__init__()
        self.method, self.samples, self.generator = method, samples, generator
        self.temperature, self.iterations = temperature, iterations
        self(torch.zeros(1), torch.zeros(()))  # refuses what does not fit, here and not at the first batch

    def forward(self, gamma: Tensor, delta: Tensor) -> tuple[Tensor, Tensor]:
        """The nearest point of the set.

        Args:
            gamma: What tau would be without the constraints.  # shape: (*batch, n)
            delta: What eps would be without them.  # shape: (*batch,)
        """
        return project(
            gamma,
            delta,
            method=self.method,
            samples=self.samples,
            generator=self.generator,
            temperature=self.temperature,
            iterations=self.iterations,
        )

    def extra_repr(self) -> str:
        """The settings, for ``repr``."""
        own = {"sampled": ("samples",), "sinkhorn": ("temperature", "iterations")}.get(self.method, ())
        return ", ".join([f"method={self.method!r}", *(f"{name}={getattr(self, name)}" for name in own)])


class _Project(torch.autograd.Function):
    """tau and eps of a threshold found elsewhere, with the derivative in closed form."""

    @staticmethod
    def forward(ctx: Any, gamma: Tensor, delta: Tensor, threshold: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ARG004 (autograd hands back its gradient)
        eps = threshold.to(gamma.dtype)
        saved = (gamma, _round_down(threshold, gamma.dtype), threshold > 0)
        ctx.save_for_backward(*saved)
        # For forward mode, which asks for its own.
        ctx.save_for_forward(*saved)
        return torch.minimum(gamma, eps.unsqueeze(-1)), eps

    @staticmethod
    def backward(ctx: Any, grad_tau: Tensor, grad_eps: Tensor) -> tuple[Tensor, Tensor, None]:
        gamma, level, free = ctx.saved_tensors
        active = gamma > level.unsqueeze(-1)  # shape: (*batch, n)
        total = grad_eps + torch.where(active, grad_tau, 0).sum(-1)
        # eps is a mean of delta and the entries above it, so all of them get the same share.
        share = torch.where(free, total / (1 + active.sum(-1)), 0)  # shape: (*batch,)
        return torch.where(active, share.unsqueeze(-1), grad_tau), share, None

    @staticmethod
    def jvp(ctx: Any, gamma_t: Tensor | None, delta_t: Tensor | None, _: None) -> tuple[Tensor, Tensor]:
        gamma, level, free = ctx.saved_tensors
        gamma_t = torch.zeros_like(gamma) if gamma_t is None else gamma_t
        active = gamma > level.unsqueeze(-1)
        total = torch.where(active, gamma_t, 0).sum(-1)
        total = total if delta_t is None else total + delta_t
        eps_t = torch.where(free, total / (1 + active.sum(-1)), 0)
        return torch.where(active, eps_t.unsqueeze(-1), gamma_t), eps_t


def _by_operations(gamma: Tensor, delta: Tensor, threshold: Tensor) -> tuple[Tensor, Tensor]:
    """The same for ``torch.compile`` and ``torch.func``, which differentiate plain operations in every way."""
    active = gamma > _round_down(threshold, gamma.dtype).unsqueeze(-1)
    total = delta.to(threshold.dtype) + torch.where(active, gamma, 0).sum(-1, dtype=threshold.dtype)
    eps = torch.where(threshold > 0, total / (1 + active.sum(-1)), 0).to(gamma.dtype)
    return torch.where(active, eps.unsqueeze(-1), gamma), eps


def _round_down(threshold: Tensor, dtype: torch.dtype) -> Tensor:
    """The largest number of a type that is not above: what exceeds the one exceeds the other."""
    level = threshold.to(dtype)
    return torch.where(level > threshold, torch.nextafter(level, torch.full_like(level, -torch.inf)), level)


def _check(gamma: Tensor, delta: Tensor, method: str) -> None:
    _checks.one_of("method", method, METHODS)
    _checks.is_floating("gamma", gamma)
    _checks.is_floating("delta", delta)
    if gamma.ndim == 0 or delta.shape != gamma.shape[:-1]:
        raise _checks.InputError(
            "Expected `gamma` of shape (*batch, n) and `delta` of shape (*batch,), one number for each row, "
            f"but got {tuple(gamma.shape)} and {tuple(delta.shape)}."
        )
    if delta.dtype != gamma.dtype or delta.device != gamma.device:
        raise TypeError(
            f"Expected `delta` to be {gamma.dtype} on {gamma.device} like `gamma`, "
            f"but got {delta.dtype} on {delta.device}."
        )
    if _checks.values_are_readable():
        for name, value in (("gamma", gamma), ("delta", delta)):
            wide = torch.float64 if value.dtype == torch.float64 else torch.float32
            if not bool(value.detach().sum(dtype=wide).isfinite()):  # a sum shows what is not finite, by one pass
                _checks.all_finite(name, value)


def _touched(tau: Tensor, eps: Tensor, index: Tensor, method: str) -> Tensor:
    """The rows, each once."""
    _checks.one_of("method", method, METHODS[:3])
    _checks.is_floating("tau", tau)
    _checks.is_floating("eps", eps)
    if tau.ndim != 1 or eps.ndim != 0:
        raise _checks.InputError(
            f"Expected `tau` of shape (n,) and `eps` a single number, but got {tuple(tau.shape)} and "
            f"{tuple(eps.shape)}."
        )
    _checks.is_tensor("index", index)
    if index.dtype not in (torch.int64, torch.int32) or index.ndim != 1:
        raise TypeError(
            f"Expected `index` to be integers (int64) in one dimension, but got {index.dtype} of shape "
            f"{tuple(index.shape)}."
        )
    # A row given twice would enter the mean twice.
    rows: Tensor = torch.unique(index.to(device=tau.device, dtype=torch.int64))
    if len(rows) and not 0 <= int(rows[0]) <= int(rows[-1]) < len(tau):
        wrong = int(rows[0]) if rows[0] < 0 else int(rows[-1])
        raise _checks.InputError(f"Expected `index` to be in [0, {len(tau) - 1}], but got {wrong}.")
    return rows
