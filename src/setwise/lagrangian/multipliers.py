r"""Lagrange multipliers as modules: one per constraint, or one per example of the data set.

For min_x f(x) subject to g(x) <= 0 (an inequality) or g(x) = 0 (an equality) the model minimizes, with lambda fixed,

    f(x) + sum_k term_k,    term = lambda g + (rho / 2) g^2                       for equalities,
                            term = (relu(rho g + lambda)^2 - lambda^2) / (2 rho)  for inequalities, rho > 0,
                            term = lambda g                                       for inequalities, rho = 0,

and the multipliers rise along the violation, lambda <- clip(lambda + eta g), where clip keeps those of inequalities at
or above 0 and all within ``maximum``. With rho = 0 the last iterate may circle the solution for ever (its average comes
in); the quadratic term rho ("augmented") lets the last one come in as well.

What the model minimizes and what the multipliers see need not be the same g: :meth:`Multipliers.term` takes a
differentiable one, such as a hinge bound of an error rate, :meth:`Multipliers.record` the true one, such as the rate
itself (the proxy-Lagrangian).

The smallest x^2 with x >= 3 is 9, and d 9 / d 3 = 6 is its multiplier:

>>> import torch
>>> from setwise.lagrangian import Multipliers
>>> x = torch.nn.Parameter(torch.zeros(1))
>>> duals = Multipliers(augmented=1.0)
>>> descent, ascent = torch.optim.SGD([x], lr=0.1), duals.optimizer(0.5)
>>> for _ in range(300):
...     violation = 3 - x
...     loss = (x**2 + duals.term(violation)).sum()
...     duals.record(violation)
...     loss.backward()
...     for optimizer in (descent, ascent):
...         optimizer.step()
...         optimizer.zero_grad()
>>> print(f"{x.item():.4f} {duals().item():.4f}")
3.0000 6.0000
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from setwise import _checks
from setwise.lagrangian.constraints.inputs import read_integers

_KINDS = ("inequality", "equality")


class Multipliers(nn.Module):
    """One multiplier per constraint.

    The model's loss gives them no gradient: :meth:`term` takes them as constants. They move only by
    :meth:`record` and a step of an optimizer that maximizes, such as :meth:`optimizer`. ``values`` does not require
    grad, so ``[p for p in module.parameters() if p.requires_grad]`` leaves them to that optimizer; one for the model
    that is given all parameters passes over them as long as it steps before :meth:`record`.

    Args:
        count: How many constraints there are.
        kind: ``"inequality"`` (violation <= 0 is wanted) or ``"equality"`` (violation = 0; multipliers of either sign).
        init: Where the multipliers start.
        maximum: Where they are clipped: [0, maximum] for inequalities, [-maximum, maximum] for equalities.
        augmented: The weight rho of the quadratic term; 0 for none.

    Attributes:
        values: The multipliers, part of the ``state_dict``.  # shape: (count,)
    """

    values: nn.Parameter

    def __init__(
        self,
        count: int = 1,
        *,
        kind: str = "inequality",
        init: float = 0.0,
        maximum: float | None = None,
        augmented: float = 0.0,
    ) -> None:
        super().__init__()
        _checks.is_count("count", count)
        self._set_up((int(count),), kind, init, maximum, augmented)

    def _set_up(self, shape: tuple[int, ...], kind: str, init: float, maximum: float | None, augmented: float) -> None:
        _checks.one_of("kind", kind, _KINDS)
        if maximum is not None:
            _checks.in_range("maximum", maximum, 0.0, open_low=True)
        self.kind = kind
        self.maximum = None if maximum is None else float(maximum)
        low, high = self._bounds()
        _checks.in_range("init", init, low, high)
        _checks.in_range("init", init, open_low=True, open_high=True)  # the bounds may be infinite, init not
        _checks.in_range("augmented", augmented, 0.0, open_high=True)
        self.init = float(init)
        self._augmented = float(augmented)
        # No gradient by autograd: the model must not descend on what is to be maximized.
        self.values = nn.Parameter(torch.full(shape, self.init), requires_grad=False)

    @property
    def augmented(self) -> float:
        """The weight rho of the quadratic term."""
        return self._augmented

    def forward(self, index: Tensor | None = None) -> Tensor:
        """A copy of the multipliers, all or at ``index``, without gradient.

        Args:
            index: Which ones, integers of any shape.  # shape: (*rows,)
        """
        if index is None:
            return self.values.detach().clone()  # a later step of the duals shall not reach into the model's graph
        return self.values.detach()[self._read_index(index)]

    def term(self, violation: Tensor, index: Tensor | None = None) -> Tensor:
        """What the model minimizes, one number per violation; the multipliers are constants.

        Args:
            violation: g, differentiable; a single number will do for a single constraint.  # shape: (count,)
            index: Which constraints the violations belong to.  # shape: (*rows,)
        """
        self._check(violation, index)
        # The multipliers may stay on the CPU while the batch is on another device.
        value = self.forward(index).to(violation.device).reshape(violation.shape)
        rho = self._augmented
        # The formula below divides by rho; without it an inactive constraint is left to its falling multiplier.
        if rho == 0:
            return value * violation
        if self.kind == "equality":
            # Equalities are never inactive, so nothing is cut off.
            return value * violation + (rho / 2) * violation**2
        # (relu(rho g + lambda)^2 - lambda^2) / (2 rho) without a difference of large squares
        kept = torch.maximum(violation, -value / rho)
        return kept * (value + (rho / 2) * kept)

    def record(self, violation: Tensor, index: Tensor | None = None) -> None:
        """Add the violations to ``values.grad``, for the next step of an optimizer that maximizes.

        As with autograd, what is recorded adds up until ``zero_grad()``, repeated indices too.

        Args:
            violation: The true g; taken as a constant.  # shape: (count,)
            index: Which constraints the violations belong to.  # shape: (*rows,)
        """
        self._check(violation, index)
        # The true violation need not be differentiable, and must not pull the model by a second path.
        found = violation.detach().to(self.values)
        if index is None:
            self._accumulate(found.reshape(self.values.shape))
            return
        rows = self._read_index(index).reshape(-1)
        self._accumulate(self._gradient(rows, found.reshape(len(rows), *self.values.shape[1:])))

    def _gradient(self, rows: Tensor, violation: Tensor) -> Tensor:
        """The gradient of the recorded rows alone."""
        return torch.zeros_like(self.values).index_add_(0, rows, violation)

    def _accumulate(self, gradient: Tensor) -> None:
        before = self.values.grad
        if before is None:
            # A copy: the gradient may be the caller's own violations, which it is free to overwrite.
            self.values.grad = gradient.clone() if gradient.layout == torch.strided else gradient
        elif gradient.layout == torch.strided:
            self.values.grad = gradient + before  # in this order: dense + sparse is defined, sparse + dense is not
        else:
            self.values.grad = before + gradient

    def residual(self, violation: Tensor, index: Tensor | None = None) -> Tensor:
        """How far from optimal: zero where the violation fits its multiplier, one number per violation.

        That is abs(g) for equalities and abs(max(g, -lambda)) for inequalities, zero iff g <= 0, lambda >= 0 and
        lambda g = 0.

        Args:
            violation: g, taken as a constant.  # shape: (count,)
            index: Which constraints the violations belong to.  # shape: (*rows,)
        """
        self._check(violation, index)
        g = violation.detach()
        if self.kind == "equality":
            return g.abs()
        # Complementary slackness as one number: with lambda = 0 slack costs nothing, with lambda > 0 it does.
        return torch.maximum(g, -self.forward(index).to(g.device).reshape(g.shape)).abs()

    def optimizer(self, learning_rate: float, **options: Any) -> torch.optim.SGD:
        """Plain gradient ascent on the multipliers that keeps them within their bounds after each step.

        Args:
            learning_rate: The step eta.
            options: For ``torch.optim.SGD``, such as ``momentum``.
        """
        _checks.in_range("learning_rate", learning_rate, 0.0, open_high=True)
        ascent = torch.optim.SGD([self.values], lr=learning_rate, maximize=True, **options)
        # Clipping inside the step, so that no caller can read a multiplier out of its bounds.
        ascent.register_step_post_hook(self._after_step)
        return ascent

    def _after_step(self, *_: Any) -> None:
        gradient = self.values.grad
        if gradient is not None and gradient.layout == torch.sparse_coo:
            with torch.no_grad():
                # Only rows of the batch have moved; clipping all would cost the whole data set at every step.
                self._clip(gradient._indices()[0])  # noqa: SLF001 (the public name wants a coalesced one)
        else:
            self.project_()

    @torch.no_grad()
    def project_(self, index: Tensor | None = None) -> None:
        """Clip the multipliers to their bounds in place, all or those at ``index``.

        :meth:`optimizer` does this after each step; after steps of another one call it by hand.
        """
        self._clip(None if index is None else self._read_index(index))

    def _clip(self, rows: Tensor | None) -> None:
        low, high = self._bounds()
        if rows is None:
            self.values.clamp_(low, high)
        else:
            self.values[rows] = self.values[rows].clamp(low, high)

    def extra_repr(self) -> str:
        """The settings, for ``repr``."""
        rest = {"init": self.init, "maximum": self.maximum, "augmented": self._augmented}
        shown = [f"{name}={value}" for name, value in rest.items() if value]
        return ", ".join([*map(str, self.values.shape), f"kind={self.kind!r}", *shown])

    def _bounds(self) -> tuple[float, float]:
        high = float("inf") if self.maximum is None else self.maximum
        return (-high if self.kind == "equality" else 0.0), high

    def _read_index(self, index: Tensor) -> Tensor:
        return read_integers("index", index, 0, len(self.values), self.values.device)

    def _check(self, violation: Tensor, index: Tensor | None) -> None:
        _checks.is_floating("violation", violation)
        shape = self.values.shape
        if index is not None:
            _checks.is_tensor("index", index)
            shape = torch.Size([*index.shape, *self.values.shape[1:]])
        elif self.values.numel() == 1 and violation.numel() == 1:
            # A bare number would otherwise have to be reshaped by every caller with one constraint.
            shape = violation.shape  # one constraint: a plain number is as good
        if violation.shape != shape:
            raise _checks.InputError(
                f"Expected `violation` to be of shape {tuple(shape)}, one for each multiplier"
                f"{'' if index is None else ' at `index`'}, but got {tuple(violation.shape)}."
            )
        if _checks.values_are_readable() and not bool(violation.detach().isfinite().all()):
            _checks.all_finite("violation", violation)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        saved = state_dict.get(prefix + "values")
        if saved is not None and saved.shape != self.values.shape:
            raise _checks.InputError(
                f"Expected a state of multipliers of shape {tuple(self.values.shape)}, but got "
                f"{tuple(saved.shape)}{self._size_hint(saved)}."
            )
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def _size_hint(self, saved: Tensor) -> str:  # noqa: ARG002 (a subclass says what to do)
        return ""


class ExampleMultipliers(Multipliers):
    """One multiplier per example, or several, keyed by the example's index in the data set.

    ``record(violation, index)`` writes a sparse gradient, so a step with plain SGD touches only the rows of the batch,
    however large the data set. Options as :class:`Multipliers`.

    Args:
        num_examples: How many examples the data set has; it may grow (:meth:`resize`) or be put in another order
            (:meth:`reindex`).
        columns: How many constraints each example has; None for one, without a dimension for it.
        sparse: Whether gradients of batches are sparse. ``False`` for optimizers that take dense ones only.
        kind: ``"inequality"`` or ``"equality"``.
        init: Where the multipliers start, those of new examples too.
        maximum: Where they are clipped.
        augmented: The weight rho of the quadratic term.

    Attributes:
        values: The multipliers, part of the ``state_dict``.  # shape: (num_examples,) or (num_examples, columns)

    >>> duals = ExampleMultipliers(5)
    >>> ascent = duals.optimizer(0.1)
    >>> duals.record(torch.tensor([2.0, -1.0, 3.0]), torch.tensor([4, 0, 4]))
    >>> ascent.step()
    >>> duals()
    tensor([0.0000, 0.0000, 0.0000, 0.0000, 0.5000])
    >>> duals.reindex(torch.tensor([4, 0, -1]))  # example 4 comes first, then 0, then one never seen
    >>> duals()
    tensor([0.5000, 0.0000, 0.0000])
    """

    def __init__(
        self,
        num_examples: int,
        *,
        columns: int | None = None,
        sparse: bool = True,
        kind: str = "inequality",
        init: float = 0.0,
        maximum: float | None = None,
        augmented: float = 0.0,
    ) -> None:
        nn.Module.__init__(self)
        _checks.is_count("num_examples", num_examples, 0)
        if columns is not None:
            _checks.is_count("columns", columns)
        self.sparse = bool(sparse)
        shape = (int(num_examples),) if columns is None else (int(num_examples), int(columns))
        self._set_up(shape, kind, init, maximum, augmented)

    @property
    def num_examples(self) -> int:
        """How many examples there are."""
        return len(self.values)

    def resize(self, num_examples: int, *, shrink: bool = False) -> None:
        """Make room for a data set that has grown at its end: old rows stay, new ones start at ``init``.

        ``values`` stays the same object, so optimizers go on with it, but their momentum, where they have some, does
        not fit any more. Violations recorded since the last step are dropped.

        Args:
            num_examples: How many examples there are now.
            shrink: Whether fewer than before may be meant, whose multipliers are then lost.
        """
        self._check_size(num_examples, shrink=shrink)
        self._grow(self.values.detach()[:num_examples], int(num_examples))

    def reindex(self, source: Tensor) -> None:
        """Give example i the multiplier of what was example ``source[i]``, or ``init`` where that is -1.

        As with :meth:`resize`, ``values`` stays the same object, momentum does not fit any more, and what was recorded
        since the last step is dropped.

        Args:
            source: For each example of the new order its old index.  # shape: (num_examples,)
        """
        rows = self._read_source(source)
        old = self.values.detach()
        found = old.new_full((len(rows), *old.shape[1:]), self.init)  # shape: (new num_examples, *columns)
        known = rows >= 0
        found[known] = old[rows[known]]
        self._replace(found)

    def _check_size(self, num_examples: int, *, shrink: bool) -> None:
        _checks.is_count("num_examples", num_examples, 0)
        if num_examples < self.num_examples and not shrink:
            raise _checks.InputError(
                f"Expected `num_examples` to be at least {self.num_examples}, as many as there are, but got "
                f"{num_examples}; `shrink=True` drops the last ones."
            )

    def _read_source(self, source: Tensor) -> Tensor:
        rows = read_integers("source", source, -1, self.num_examples, self.values.device)
        if rows.ndim != 1:
            raise _checks.InputError(f"Expected `source` to have one dimension, but got shape {tuple(rows.shape)}.")
        return rows

    def _grow(self, kept: Tensor, count: int) -> None:
        """Keep these multipliers and add new ones behind them, up to a number."""
        new = kept.new_full((count - len(kept), *kept.shape[1:]), self.init)
        self._replace(torch.cat([kept, new]))

    def _replace(self, values: Tensor) -> None:
        # Recorded rows belong to the old order: a step would move the multipliers of other examples.
        self.values.grad = None
        # The parameter stays the same object, so that optimizers keep hold of it.
        self.values.data = values

    def _gradient(self, rows: Tensor, violation: Tensor) -> Tensor:
        if not self.sparse:
            return super()._gradient(rows, violation)
        # Not coalesced: SGD adds up repeated indices, and sorting them here would cost more than the step.
        return torch.sparse_coo_tensor(rows.unsqueeze(0), violation.clone(), self.values.shape, check_invariants=False)

    def _size_hint(self, saved: Tensor) -> str:
        if saved.shape[1:] != self.values.shape[1:]:
            return ""
        return (
            f"; call `resize({len(saved)}, shrink=True)` before loading it, and after it `resize` to the present size"
        )


def rise(duals: Multipliers, violation: Tensor, step: float, index: Tensor | None = None) -> None:
    """One step along the violation; plain gradient ascent has no state to keep for the next."""
    duals.values.grad = None
    duals.record(violation, index)
    duals.optimizer(step).step()
    duals.values.grad = None
