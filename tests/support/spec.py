"""The table of measures: one row gives a measure the whole conformance battery, a variant of a row its core."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from setwise.lp import LinearProgram
from support.draws import Draw, draw, spread_scores


@dataclass(frozen=True)
class Case:
    """One measure with one choice of settings.

    Attributes:
        name: Shown as the test's id.
        loss: The module's class.
        functional: The loss as a function.
        settings: The options of both.
        oracle: The loss by brute force, ``oracle(scores, labels, weight, **settings)``, differentiable.
        others: For every option another value that must change the loss.
        refused: Options that must be refused, each with a part of the message.
        judge: The hard measure of scikit-learn, ``judge(labels, scores, sample_weight=None)``.
        metric: Ours, ``metric(scores, labels, weight=None)``.
        exact: The program's optimum by structure, ``exact(scores, labels, weight=, **exact_settings)``, or None.
        exact_settings: Its options.
        exact_is_loss: Whether it is the loss itself, not a multiple of it.
        program: The program, or None where these settings have none.
        program_settings: Its options.
        layout: ``"binary"`` (scores and labels of one shape) or ``"classes"`` (scores (n, C), class indices (n,)).
        draw: Random sets.
        limit: Options under which the loss is 1 - the hard measure on the sets of ``limit_draw``, or None.
        limit_draw: Sets whose scores are far from every kink.
        lower: Options under which the loss is never below 1 - the hard measure, or None.
        upper: Options under which the loss is never above 1 - the hard measure, or None.
        undefined: Which degenerate sets have no value.
        tame: Moves scores to where the loss has the gradient of its value (it may keep slopes that its value lost).
        curved: Whether the second derivative is not zero; None where that depends on the set.
        convex: Whether it is convex in the scores.
        every_error_has_gradient: Whether a misranked or misclassified sample always keeps a gradient; None where it may
            or may not.
        shift_invariant: Whether adding a number to all scores changes nothing.
        monotone: Whether better scores never cost more.
        descends: Whether a small step along the negative gradient never costs more, ties included.
        tested_elsewhere: Options that mean nothing with these settings.
        reaches: The hard measure that descent on free scores must reach.
        least: What a perfect ranking costs.
        has_kink_convention: Whether the gradient exactly at a kink is promised, and is that of the oracle.
        oracle_is_quick: Whether it takes no time on some hundred samples.
        brute_force_cases: How many random sets are compared with the oracle, with and without ties each.
        names: What ``parse`` understands, with the options that each name stands for.
    """

    name: str
    loss: Callable[..., Any]
    functional: Callable[..., Tensor]
    settings: dict[str, Any]
    oracle: Callable[..., Tensor]
    others: dict[str, Any]
    refused: list[tuple[dict[str, Any], str]]
    judge: Callable[..., float]
    metric: Callable[..., float]
    exact: Callable[..., Tensor] | None = None
    exact_settings: dict[str, Any] = field(default_factory=dict)
    exact_is_loss: bool = False
    program: Callable[..., LinearProgram] | None = None
    program_settings: dict[str, Any] = field(default_factory=dict)
    layout: str = "binary"
    draw: Callable[..., Draw] = draw
    limit: dict[str, Any] | None = None
    limit_draw: Callable[[int], tuple[Tensor, Tensor]] = spread_scores
    lower: dict[str, Any] | None = None
    upper: dict[str, Any] | None = None
    undefined: frozenset[str] = frozenset({"empty", "one positive", "one negative", "positives only", "negatives only"})
    tame: Callable[[Tensor, Tensor], Tensor] = lambda scores, labels: scores  # noqa: ARG005
    curved: bool | None = False
    convex: bool = False
    every_error_has_gradient: bool | None = True
    shift_invariant: bool = False
    monotone: bool = True
    descends: bool = True
    tested_elsewhere: frozenset[str] = frozenset()
    reaches: float = 0.99
    least: float = 0.0
    has_kink_convention: bool = True
    oracle_is_quick: bool = True
    brute_force_cases: int = 25
    names: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name

    def value(self, scores: Tensor, labels: Tensor, weight: Tensor | None = None, /, **options: Any) -> Tensor:
        """The loss with the settings of the row."""
        return self.functional(scores, labels, weight=weight, **{**self.settings, **options})
