"""Two-class labels from many classes, and imbalance made on purpose.

What was done is returned, not only the outcome: an :class:`Imbalance` carries the seed and the counts, so that a run
can record it beside its results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from setwise._checks import InputError, in_range, is_count, to_numpy
from setwise._types import Index

Labels = Tensor | ArrayLike


def whole_labels(name: str, labels: Labels) -> NDArray[np.int64]:
    """Labels as ``int64`` of shape (n,); refuse other shapes, fractions and an empty array."""
    array = to_numpy(name, labels)
    if array.ndim != 1 or array.size == 0:
        raise InputError(f"Expected `{name}` to have the shape (n,) with n at least 1, but got {array.shape}.")
    whole = array.astype(np.int64)
    if not np.array_equal(whole, array):
        raise InputError(f"Expected `{name}` to hold whole numbers, but it also holds {array[whole != array][0]}.")
    return whole


def one_versus_rest(labels: Labels, positive: int) -> NDArray[np.int64]:
    """1 for one class, 0 for all others.

    Example:
        >>> one_versus_rest([0, 1, 2, 1], positive=1)
        array([0, 1, 0, 1])
    """
    return group_classes(labels, [positive])


def group_classes(labels: Labels, positive: Sequence[int]) -> NDArray[np.int64]:
    """1 for the classes listed, 0 for all others; each listed class must occur, and so must another.

    Example:
        >>> group_classes([0, 1, 2, 3], positive=[1, 3])
        array([0, 1, 0, 1])
    """
    array = whole_labels("labels", labels)
    absent = sorted(set(positive) - set(array.tolist()))
    if absent or not positive:
        raise InputError(f"Expected `positive` to list classes that occur in `labels`, but got {list(positive)}.")
    grouped = np.isin(array, list(positive)).astype(np.int64)
    if grouped.all():
        raise InputError("Expected `positive` to leave at least one class for the negatives, but it lists all.")
    return grouped


@dataclass(frozen=True, eq=False)
class Imbalance:
    """Which samples were kept, and what was asked for.

    Attributes:
        index: Positions of the samples kept, ascending.
        seed: Seed of the draw.
        classes: The classes samples were dropped from.
        minority: The share of all samples asked for; None if a drop rate was asked for.
        fraction: The drop rate asked for; None if a share was asked for.
        share: The share these classes now have of all samples.
        counts_before: Samples per class before.
        counts_after: Samples per class now.
    """

    index: Index
    seed: int
    classes: tuple[int, ...]
    minority: float | None
    fraction: float | None
    share: float
    counts_before: dict[int, int]
    counts_after: dict[int, int]

    def to_dict(self) -> dict[str, Any]:
        """All fields as lists, numbers and string keys, ready for JSON."""
        plain = asdict(self) | {"index": self.index.tolist(), "classes": list(self.classes)}
        for key in ("counts_before", "counts_after"):
            plain[key] = {str(label): count for label, count in plain[key].items()}
        return plain


def make_imbalanced(labels: Labels, *, minority: float = 0.05, minority_class: int = 1, seed: int = 0) -> Imbalance:
    r"""Drop samples of one class at random until it has the share asked for.

    With :math:`m` samples of other classes, :math:`k = \mathrm{round}(m\,p / (1 - p))` of the class are kept, so that
    :math:`k / (k + m)` is as near to the share :math:`p` as whole samples allow. No other class is touched.

    Args:
        labels: Shape (n,).
        minority: The share :math:`p` of all samples, in (0, 1).
        minority_class: The class to thin out.
        seed: Seed of the draw.

    Raises:
        InputError: The class does not occur, is already rarer than that, or not one sample of it would be left.

    Example:
        >>> thinned = make_imbalanced([0] * 90 + [1] * 90, minority=0.1)
        >>> thinned.counts_after, thinned.share
        ({0: 90, 1: 10}, 0.1)
    """
    in_range("minority", minority, 0, 1, open_low=True, open_high=True)
    array = whole_labels("labels", labels)
    members = _members(array, minority_class, "minority_class")
    rest = array.size - members.size
    if rest == 0:
        raise InputError(f"Expected `labels` to hold classes beside {minority_class}, but it holds no other.")
    # k / (k + m) = p solved for k.
    keep = round(rest * minority / (1 - minority))
    if keep > members.size:
        raise InputError(
            f"Expected `minority` to be at most {members.size / array.size:.6g}, the share class {minority_class} has, "
            f"since samples are only dropped, but got {minority}."
        )
    if keep == 0:
        raise InputError(
            f"Expected `minority` to leave at least one sample of class {minority_class} beside {rest} others, "
            f"but {minority} leaves none."
        )
    return _thin(array, {minority_class: members.size - keep}, seed, minority=minority)


def drop_class(labels: Labels, *, cls: int | Sequence[int], fraction: float, seed: int = 0) -> Imbalance:
    """Drop a fraction of the samples of each of some classes at random.

    Args:
        labels: Shape (n,).
        cls: The class, or the classes; each is thinned on its own, so that all keep the same part.
        fraction: The drop rate, in [0, 1]; 1 removes the classes altogether. Rounded to whole samples per class.
        seed: Seed of the draw.

    Example:
        >>> drop_class([0] * 10 + [1] * 10, cls=1, fraction=0.8).counts_after
        {0: 10, 1: 2}
    """
    in_range("fraction", fraction, 0, 1)
    array = whole_labels("labels", labels)
    classes = sorted({cls} if isinstance(cls, int | np.integer) else set(cls))
    if not classes:
        raise InputError("Expected `cls` to name at least one class, but it is empty.")
    dropped = {c: round(fraction * _members(array, c, "cls").size) for c in classes}
    if sum(dropped.values()) == array.size:
        raise InputError("Expected `cls` and `fraction` to leave at least one sample, but they drop all of them.")
    return _thin(array, dropped, seed, fraction=fraction)


def _members(labels: NDArray[np.int64], cls: int, argument: str) -> Index:
    members = np.flatnonzero(labels == cls)
    if members.size == 0:
        known = ", ".join(map(str, np.unique(labels)[:12]))
        raise InputError(f"Expected `{argument}` to be a class of `labels` ({known}), but got {cls}.")
    return members


def _thin(
    labels: NDArray[np.int64],
    dropped: dict[int, int],
    seed: int,
    *,
    minority: float | None = None,
    fraction: float | None = None,
) -> Imbalance:
    is_count("seed", seed, 0)
    rng = np.random.default_rng(seed)
    kept = np.ones(labels.size, dtype=bool)
    for cls, count in dropped.items():
        # A permutation cut short: with one seed a smaller share is a part of a larger one.
        kept[rng.permutation(np.flatnonzero(labels == cls))[:count]] = False
    after = labels[kept]
    counts = {int(c): int((after == c).sum()) for c in np.unique(labels)}
    return Imbalance(
        index=np.flatnonzero(kept),
        seed=seed,
        classes=tuple(int(c) for c in dropped),
        minority=minority,
        fraction=fraction,
        share=sum(counts[int(c)] for c in dropped) / after.size,
        # Plain integers, which JSON takes.
        counts_before={int(c): int((labels == c).sum()) for c in np.unique(labels)},
        counts_after=counts,
    )
