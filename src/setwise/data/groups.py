"""Groups: a discrete property of each example, such as big and small, that a model should not stumble over.

A group is a whole number 0..p-1 per example: a size cut at thresholds (:class:`GroupRule`), the majority of the classes
in an image (:func:`majority_group`), or a column of a table such as a protected attribute (:func:`column_groups`).
Sizes come from :mod:`setwise.data.object_sizes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from setwise._checks import InputError, all_finite, all_non_negative, in_range, is_count, one_of, to_numpy
from setwise._types import Index
from setwise.data.imbalance import Labels, whole_labels
from setwise.data.tables.values import is_missing

Sizes = NDArray[np.float64]
Bins = int | Sequence[float] | NDArray[Any] | None


@dataclass(frozen=True)
class GroupRule:
    """Sizes cut at edges: the group is how many of the edges a size reaches.

    With one edge, 0 is small (below it) and 1 is big (the edge itself included). Fit the rule on the training set and
    call it on held-out sizes, so that "big" means the same there.

    Args:
        edges: Ascending; p - 1 of them for p groups.

    Example:
        >>> rule = GroupRule.fit([0.1, 0.2, 0.3, 0.6])
        >>> [round(edge, 3) for edge in rule.edges], rule([0.2, 0.4]).tolist()
        ([0.3], [0, 1])
        >>> GroupRule.from_dict(rule.to_dict()) == rule
        True
    """

    edges: tuple[float, ...]

    def __post_init__(self) -> None:
        edges = _flat("edges", self.edges).tolist()
        if any(high <= low for low, high in pairwise(edges)):
            raise InputError(f"Expected `edges` to ascend, but got {edges}.")
        object.__setattr__(self, "edges", tuple(edges))

    @classmethod
    def fit(cls, sizes: Labels, threshold: str | float = "mean", *, bins: Bins = None) -> GroupRule:
        """Take the edges from the sizes of a training set.

        Args:
            sizes: Shape (n,).
            threshold: One edge: ``"mean"``, the papers' choice, or a number.
            bins: More groups instead: a number p of groups with about equally many examples each (edges at the
                quantiles), or the edges themselves.

        Raises:
            InputError: The sizes are too much alike for that many groups, so that one would have no example.
        """
        array = _flat("sizes", sizes)
        if bins is None:
            return cls((_threshold(array, threshold),))
        if threshold != "mean":
            raise InputError("Expected `threshold` or `bins`, but got both.")
        if not isinstance(bins, int | np.integer):
            return cls(tuple(_flat("bins", bins).tolist()))
        is_count("bins", bins, 2)
        rule_edges = np.quantile(array, np.arange(1, bins) / bins)
        if np.unique(np.searchsorted(rule_edges, array, side="right")).size < bins:
            raise InputError(
                f"Expected `sizes` to differ enough for {bins} groups of about equal counts, "
                f"but {np.unique(array).size} different sizes put the edges at {rule_edges.tolist()}."
            )
        return cls(tuple(rule_edges.tolist()))

    def __call__(self, sizes: Labels) -> Index:
        """The group of each size, 0..p-1."""
        return np.searchsorted(self.edges, _flat("sizes", sizes), side="right").astype(np.int64)

    @property
    def num_groups(self) -> int:
        """Number of groups p."""
        return len(self.edges) + 1

    def to_dict(self) -> dict[str, Any]:
        """The rule as JSON takes it."""
        return {"edges": list(self.edges)}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> GroupRule:
        """The rule that :meth:`to_dict` wrote."""
        if "edges" not in state:
            raise InputError(f"Expected `state` to come from `to_dict`, but it has no 'edges': {sorted(state)}.")
        return cls(tuple(state["edges"]))


def groups_of(sizes: Labels, threshold: str | float = "mean", *, bins: Bins = None) -> tuple[Index, tuple[float, ...]]:
    """The groups of sizes, and the edges that made them; :class:`GroupRule` keeps the edges for held-out data.

    Args:
        sizes: Shape (n,).
        threshold: One edge: ``"mean"`` or a number.
        bins: More groups instead: how many, or their edges.

    Example:
        >>> groups, edges = groups_of([0.0, 0.1, 0.2, 0.9], threshold=0.2)
        >>> groups.tolist(), edges
        ([0, 0, 1, 1], (0.2,))
        >>> groups_of([1, 2, 3, 4, 5, 6], bins=3)[0].tolist()
        [0, 0, 1, 1, 2, 2]
    """
    rule = GroupRule.fit(sizes, threshold, bins=bins)
    return rule(sizes), rule.edges


def majority_group(areas: Tensor | ArrayLike, threshold: str | float | Sequence[float] | NDArray[Any] = 0.05) -> Index:
    """Big (1) where the majority of the classes present in an image are big, else small (0), ties included.

    Args:
        areas: Area of each class in each image, shape (n, classes), 0 where it is not there; see
            :func:`setwise.data.class_areas`.
        threshold: The area from which a class is big: a number (the paper's 0.05), one per class, or ``"mean"`` for
            each class's own mean over the images that show it.

    Example:
        >>> majority_group([[0.5, 0.3, 0.02], [0.9, 0.02, 0.01], [0.04, 0.9, 0.0]]).tolist()
        [1, 0, 0]
    """
    table = _table("areas", areas)
    present = table > 0
    edges: Sizes
    if isinstance(threshold, str):
        one_of("threshold", threshold, ("mean",))
        edges = table.sum(axis=0) / np.maximum(present.sum(axis=0), 1)
    else:
        edges = to_numpy("threshold", threshold).astype(np.float64)
        all_finite("threshold", edges)
        if edges.shape not in ((), (table.shape[1],)):
            raise InputError(
                f"Expected `threshold` to be a number or one per class, ({table.shape[1]},), but got {edges.shape}."
            )
    big = (present & (table >= edges)).sum(axis=1)
    groups: Index = (2 * big > present.sum(axis=1)).astype(np.int64)
    return groups


class ColumnGroups(NamedTuple):
    """Groups from a column: a code per row, and the value each code stands for; unpacks as a tuple.

    Attributes:
        groups: 0..p-1 per row, shape (n,).
        names: The values, in order; row k has the value ``names[groups[k]]``.
    """

    groups: Index
    names: tuple[str, ...]


def column_groups(
    column: Tensor | ArrayLike | Iterable[object], *, names: Sequence[object] | None = None
) -> ColumnGroups:
    """Groups from a column of a table, such as a protected attribute.

    Args:
        column: One value per row: texts, numbers or booleans; an array, a tensor, a list or a pandas column.
        names: The values in the order of their codes, such as ``names`` of the training set's column. By default the
            values found, in ascending order.

    Raises:
        InputError: A value is missing, or not among ``names``.

    Example:
        >>> groups, names = column_groups(["Male", "Female", "Male"])
        >>> groups.tolist(), names
        ([1, 0, 1], ('Female', 'Male'))
        >>> column_groups(["Female"], names=names).groups.tolist()
        [0]
    """
    values = _cells(column)
    missing = sum(cell is None for cell in values)
    if missing:
        raise InputError(f"Expected `column` to have a value in every row, but {missing} of {len(values)} are missing.")
    known = [_text(name) for name in (_ordered(values) if names is None else names)]
    code = {name: k for k, name in enumerate(known)}
    if len(code) < len(known):
        raise InputError(f"Expected `names` to differ from each other, but got {known}.")
    texts = [_text(cell) for cell in values]
    strange = sorted(set(texts) - code.keys())
    if strange:
        shown = ", ".join(known[:12]) + (", ..." if len(known) > 12 else "")
        raise InputError(f"Expected `column` to hold only {shown}, but it also holds {', '.join(strange[:4])}.")
    return ColumnGroups(np.array([code[text] for text in texts], dtype=np.int64), tuple(known))


def size_spread(sizes: Tensor | ArrayLike, classes: Labels | None = None) -> Sizes:
    """Standard deviation of the sizes within each class, for choosing the class that varies most.

    Args:
        sizes: One size per example, shape (n,), with ``classes``; or the areas of all classes, shape (n, c), as
            :func:`setwise.data.class_areas` gives them: a class's spread is then taken over the images that show it.
        classes: Class of each example, shape (n,).

    Returns:
        One number per class, shape (c,); 0 for a class that does not occur.

    Example:
        >>> size_spread([0.1, 0.9, 0.4, 0.5], classes=[0, 0, 1, 1]).round(2).tolist()
        [0.4, 0.05]
    """
    if classes is None:
        table = _table("sizes", sizes)
        groups = [column[column > 0] for column in table.T]
    else:
        array, labels = _flat("sizes", sizes), whole_labels("classes", classes)
        if array.shape != labels.shape or labels.min() < 0:
            raise InputError(
                "Expected `classes` to hold a class 0, 1, ... for each of `sizes`, "
                f"but their shapes are {labels.shape} and {array.shape} and the lowest class is {labels.min()}."
            )
        groups = [array[labels == c] for c in range(int(labels.max()) + 1)]
    return np.array([group.std() if group.size else 0.0 for group in groups])


def _flat(name: str, values: Tensor | ArrayLike) -> Sizes:
    """Finite numbers of shape (n,) with n at least 1."""
    array = to_numpy(name, values).astype(np.float64)
    if array.ndim != 1 or array.size == 0:
        raise InputError(f"Expected `{name}` to have the shape (n,) with n at least 1, but got {array.shape}.")
    all_finite(name, array)
    return array


def _table(name: str, values: Tensor | ArrayLike) -> Sizes:
    """Finite, non-negative numbers of shape (n, c)."""
    array = to_numpy(name, values).astype(np.float64)
    if array.ndim != 2 or array.size == 0:
        raise InputError(f"Expected `{name}` to have the shape (n, classes), but got {array.shape}.")
    all_non_negative(name, array)
    return array


def _threshold(sizes: Sizes, threshold: str | float) -> float:
    if not isinstance(threshold, str):
        in_range("threshold", threshold)
        return float(threshold)
    one_of("threshold", threshold, ("mean",))
    if sizes.min() == sizes.max():
        raise InputError(f"Expected `sizes` to differ, so that some lie below their mean, but all are {sizes[0]}.")
    return float(sizes.mean())


def _cells(column: Tensor | ArrayLike | Iterable[object]) -> list[Any]:
    """One plain Python value per row; None where it is missing."""
    if isinstance(column, Tensor):
        column = column.detach().cpu().numpy()
    if getattr(column, "ndim", 1) != 1 or isinstance(column, str) or not isinstance(column, Iterable):
        raise InputError(
            f"Expected `column` to hold one value per row, but got {type(column).__name__} "
            f"of shape {getattr(column, 'shape', ())}."
        )
    values = [_cell(cell) for cell in column]
    if not values:
        raise InputError("Expected `column` to have at least one row, but it is empty.")
    return values


def _cell(cell: object) -> object:
    if isinstance(cell, np.generic):
        cell = cell.item()
    empty = is_missing(cell) if isinstance(cell, str) else cell is None or cell != cell  # noqa: PLR0124 (only NaN)
    return None if empty else cell


def _text(cell: object) -> str:
    """A value's name: 1 and 1.0 have the same, so that a column read as floats finds its codes."""
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def _ordered(values: list[Any]) -> list[Any]:
    different = set(values)
    try:
        return sorted(different)
    except TypeError:  # texts beside numbers have no order of their own
        return sorted(different, key=str)
