"""The two-group problems that a measure of the whole data set is made of.

A *task* sets the members of one group (S+) against those of all others or of one other (S-), by one column of the
scores. Two groups make one task. More make one per group (macro), one per ordered pair (pairwise), or a single one in
which every example has one row per group (micro). A measure that is an area has one task per point of its grid.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from setwise import _checks
from setwise.lagrangian.regularizers.problems import (
    FBetaProblem,
    OperatingPointProblem,
    Sizes,
    TwoSetProblem,
    surrogate_by_name,
)
from setwise.measures import parse

GRID = 10  # points of an area, as in the papers' grid of operating points
AVERAGES = ("macro", "micro", "pairwise")
KNOWN = "f1, fbeta(2), precision@recall>=0.9, recall@precision>=0.9, tpr@fpr<=0.1, auroc, auprc"
_POINTS: dict[str, Callable[[float], OperatingPointProblem]] = {
    "precision@recall>=": OperatingPointProblem.precision_at_recall,
    "recall@precision>=": OperatingPointProblem.recall_at_precision,
    "tpr@fpr<=": OperatingPointProblem.tpr_at_fpr,
}


@dataclass(frozen=True)
class Tasks:
    """All tasks of a measure.

    Args:
        problems: One per task, or one for all.
        columns: Column of the scores that each task reads.
        positive: Group that is S+ of each task.
        negative: Group that is S- of each task; -1 for all others.
        rows: Rows per example: 1, or one per group for micro averages.
        width: Columns of the scores of a row.
    """

    problems: tuple[TwoSetProblem, ...]
    columns: tuple[int, ...]
    positive: tuple[int, ...]
    negative: tuple[int, ...]
    rows: int
    width: int

    def __len__(self) -> int:
        return len(self.columns)

    def by_problem(self) -> list[tuple[TwoSetProblem, slice]]:
        """Tasks that share a problem and are computed together."""
        if len(self.problems) == 1:
            return [(self.problems[0], slice(None))]
        return [(problem, slice(k, k + 1)) for k, problem in enumerate(self.problems)]

    def each(self) -> tuple[TwoSetProblem, ...]:
        """The problem of each task."""
        return self.problems if len(self.problems) > 1 else self.problems * len(self)

    def scores(self, scores: Tensor) -> Tensor:
        """The score that each task reads, shape (rows, tasks), from shape (rows, width)."""
        # A view: points of an area all read the same score, and a copy would be ten times the batch.
        return scores.expand(-1, len(self)) if self.width == 1 else scores[:, list(self.columns)]

    def members(self, groups: Tensor) -> tuple[Tensor, Tensor]:
        """Who is in S+ and who in S-, both of shape (rows, tasks); groups of -1 (unknown) are in neither."""
        positive = groups.new_tensor(self.positive)
        negative = groups.new_tensor(self.negative)
        own = groups[:, None] == positive  # shape: (rows, tasks)
        # Unknown groups (-1) are never "all others": they would count as negatives before they are known.
        other = torch.where(negative < 0, ~own & (groups >= 0)[:, None], groups[:, None] == negative)
        return own, other

    def split(self, scores: Tensor, groups: Tensor) -> Iterator[tuple[TwoSetProblem, Tensor, Tensor]]:
        """Problem, scores of S+ and scores of S- of each task, from scores (rows, width) and groups (rows,)."""
        values, (own, other) = self.scores(scores), self.members(groups)
        for k, problem in enumerate(self.each()):
            yield problem, values[own[:, k], k], values[other[:, k], k]

    def sizes(self, counts: Tensor) -> tuple[Tensor, Tensor]:
        """How many examples are in S+ and in S- of each task, from the number of each group."""
        positives = counts[list(self.positive)]
        negative = counts.new_tensor(self.negative)
        return positives, torch.where(negative < 0, counts.sum() - positives, counts[negative.clamp(min=0)])

    def parts(self, scores: Tensor, variable: Tensor, multiplier: Tensor) -> tuple[Tensor, Tensor]:
        """p(q_i) and g(q_j) of the Lagrangian L for every row, as if it were in S+ and in S-; (batch, tasks) each."""
        columns = [(p, scores[:, k], variable[k], multiplier[k]) for p, k in self.by_problem()]
        found = [(p.positive_part(*column), p.negative_part(*column)) for p, *column in columns]
        positive, negative = zip(*found, strict=True)
        return torch.cat(positive, 1), torch.cat(negative, 1)

    def constant(self, variable: Tensor, multiplier: Tensor, sizes: Sizes) -> Tensor:
        """The part of L without examples, shape (tasks,)."""
        return torch.cat([p.constant(variable[k], multiplier[k], sizes.of(k)) for p, k in self.by_problem()])

    @property
    def num_groups(self) -> int:
        """Groups of a row: those of the examples, or two for micro averages."""
        return max(2, self.width)

    def spread(self, scores: Tensor, groups: Tensor, index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Rows of the examples: scores (rows, width), groups and row numbers; for micro one row per group."""
        if self.rows == 1:
            return scores.reshape(len(index), self.width), groups, index
        # Micro averages pool the counts: each example is one row per group, positive in its own.
        classes = torch.arange(self.rows, device=index.device)
        own = (groups[:, None] == classes).to(groups.dtype)
        return scores.reshape(-1, 1), own.reshape(-1), (index[:, None] * self.rows + classes).reshape(-1)


def tasks_of(measure: str, num_groups: int, average: str, surrogate: str) -> Tasks:
    """The tasks of a measure's name."""
    _checks.is_count("num_groups", num_groups, 2)
    _checks.one_of("average", average, AVERAGES)
    problems = _problems(measure, surrogate)
    if num_groups == 2:
        k = len(problems)
        return Tasks(problems, (0,) * k, (1,) * k, (-1,) * k, rows=1, width=1)
    if len(problems) > 1 or not isinstance(problems[0], FBetaProblem):
        raise _checks.InputError(f"Expected `measure` to be an F-measure for {num_groups} groups, but got {measure!r}.")
    groups = range(num_groups)
    if average == "micro":
        return Tasks(problems, (0,), (1,), (-1,), rows=num_groups, width=1)
    if average == "macro":
        return Tasks(problems, tuple(groups), tuple(groups), (-1,) * num_groups, rows=1, width=num_groups)
    first, second = zip(*[(a, b) for a in groups for b in groups if a != b], strict=True)
    return Tasks(problems, first, first, second, rows=1, width=num_groups)


def _problems(measure: str, surrogate: str) -> tuple[TwoSetProblem, ...]:
    phi = surrogate_by_name(surrogate)
    name = re.sub(r"\s", "", measure).lower() if isinstance(measure, str) else measure
    levels = [(k + 0.5) / GRID for k in range(GRID)]
    if name in ("auc", "auroc"):
        return _fixed(surrogate, [OperatingPointProblem.tpr_at_fpr(level) for level in levels])
    if name in ("auprc", "ap", "average_precision"):
        return _fixed(surrogate, [OperatingPointProblem.precision_at_recall(level) for level in levels])
    # Spellings are those of every other measure, by the same parser.
    known = parse(measure)  # says what is wrong with a name that is no measure at all
    beta = re.fullmatch(r"f(?:beta\()?([\d.]+)\)?", known.name)
    if beta is not None:
        return (FBetaProblem(float(beta[1]), phi),)
    for prefix, make in _POINTS.items():
        if known.name.startswith(prefix):
            level = float(known.name.removeprefix(prefix))
            if make == OperatingPointProblem.recall_at_precision:
                _checks.in_range("measure", level, 0, 1, open_high=True)
            return _fixed(surrogate, [make(level)])
    raise _checks.InputError(f"Expected `measure` to be one of {KNOWN}, but got {measure!r}.")


def _fixed(surrogate: str, problems: list[OperatingPointProblem]) -> tuple[TwoSetProblem, ...]:
    if surrogate != "hinge":
        raise _checks.InputError(
            f"Expected `surrogate` to be 'hinge' for an operating point or an area, but got {surrogate!r}."
        )
    return tuple(problems)
