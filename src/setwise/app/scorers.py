"""Fitted scorers of tables as plain tensors: linear models, boosted trees, random forests, perceptrons.

A scorer maps encoded rows to logits. All that it knows stands in its tensors (a model of trees is LightGBM's text as
bytes), so it is stored without pickle and rebuilt by :func:`scorer_of`, which checks what it is given.

>>> import numpy as np
>>> scorer = LinearScorer.of(np.array([2.0, 0.0]), -1.0)
>>> scorer.score(np.array([[1.0, 5.0], [0.0, 5.0]], np.float32))
array([ 1., -1.], dtype=float32)
>>> scorer_of(scorer.kind, scorer.tensors, columns=2).score(np.zeros((1, 2), np.float32))
array([-1.], dtype=float32)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from setwise._checks import InputError, one_of
from setwise.app.tensor_file import check_tensors
from setwise.app.tree_file import BOOSTER, START, booster_bytes, booster_of, checked_trees, text_of

SHARE, TREES = "share", "trees"  # names of a forest's further tensors
ROWS = 8192  # scored at once
LIMIT = 1e30  # logits are kept within it, so that means and weighted sums of them stay finite in single precision
_FOREST_ROWS = 100.0  # how many rows of a leaf's share the prior is weighed against

Floats = NDArray[np.float64]
Shapes = dict[str, tuple[Sequence[int], torch.dtype]]


class Scorer(Protocol):
    """A fitted model of the positive class."""

    @property
    def kind(self) -> str:
        """Which of the kinds that :func:`scorer_of` rebuilds."""

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """All that it has learned."""

    def score(self, inputs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Finite logits of encoded rows.  # shape: (n,)."""


def mean_score(scorers: Sequence[Scorer], inputs: NDArray[np.float32]) -> NDArray[np.float64]:
    """Mean logits of several scorers.  # shape: (n,)."""
    total = np.zeros(len(inputs))
    for scorer in scorers:
        total += scorer.score(inputs)
    return total / len(scorers)


@dataclass(frozen=True, eq=False)
class LinearScorer:
    """Scores X w + b.

    Attributes:
        tensors: ``coef`` of shape (d,) and ``intercept`` of shape (), in double precision.
    """

    kind: ClassVar[str] = "linear"
    tensors: Mapping[str, Tensor]

    @classmethod
    def of(cls, coef: Floats, intercept: float) -> Self:
        """From coefficients of the columns as given."""
        double = torch.float64
        return cls({"coef": torch.tensor(coef, dtype=double), "intercept": torch.tensor(intercept, dtype=double)})

    @classmethod
    def constant(cls, columns: int, logit: float) -> Self:
        """The same score for every row: what can be learned from rows of one class."""
        return cls.of(np.zeros(columns), logit)

    def score(self, inputs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Logits of encoded rows."""
        return _single(inputs.astype(np.float64) @ self.tensors["coef"].numpy() + float(self.tensors["intercept"]))


@dataclass(frozen=True, eq=False)
class TreeScorer:
    """Boosted trees of LightGBM.

    Attributes:
        tensors: The text as bytes, and the score that all rows start from.
        columns: Of the encoded rows.
    """

    kind: ClassVar[str] = "trees"
    tensors: Mapping[str, Tensor]
    columns: int

    @classmethod
    def of(cls, text: str, columns: int, start: float = 0.0) -> Self:
        """From LightGBM's text."""
        return cls({BOOSTER: booster_bytes(text), START: torch.tensor(start, dtype=torch.float64)}, columns)

    @cached_property
    def checked(self) -> str:
        """The text, read number by number: LightGBM itself trusts it."""
        return checked_trees(text_of(self.tensors[BOOSTER]), self.columns)

    @cached_property
    def _booster(self) -> Any:
        made = booster_of(self.checked)
        self.__dict__.pop("checked", None)  # megabytes of large forests, not needed any more
        return made

    def sums(self, inputs: NDArray[np.float32]) -> Floats:
        """Sums of the trees' values; one thread, since several scorers may be at work side by side."""
        return np.asarray(self._booster.predict(inputs, raw_score=True, num_threads=1), np.float64)

    def score(self, inputs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Logits of encoded rows."""
        return _single(self.sums(inputs) + float(self.tensors[START]))


@dataclass(frozen=True, eq=False)
class ForestScorer(TreeScorer):
    """The mean of the trees' shares of positives, as a logit.

    The mean is drawn a little towards the share in the training rows, so that the logit of a row is finite where all
    trees agree, and ranks stay as they are.
    """

    kind: ClassVar[str] = "forest"

    @classmethod
    def with_share(cls, text: str, columns: int, share: float) -> Self:
        """From the text of trees whose values add up to the mean share, and the share in the training rows."""
        start, whole = torch.zeros((), dtype=torch.float64), torch.tensor(share, dtype=torch.float64)
        return cls({BOOSTER: booster_bytes(text), START: start, SHARE: whole}, columns)

    def score(self, inputs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Logits of encoded rows."""
        mean = np.clip(self.sums(inputs), 0.0, 1.0)
        drawn = (_FOREST_ROWS * mean + float(self.tensors[SHARE])) / (_FOREST_ROWS + 1)
        return _single(np.log(drawn) - np.log1p(-drawn))


@dataclass(frozen=True, eq=False)
class NetworkScorer:
    """A perceptron with a linear path beside its hidden layers, on standardized columns: a'x + mlp(x).

    Attributes:
        tensors: ``mean`` and ``scale`` of the columns in double precision; ``linear``, ``weight.k`` and ``bias.k`` of
            the layers in single precision.
    """

    kind: ClassVar[str] = "network"
    tensors: Mapping[str, Tensor]

    @classmethod
    def of(cls, mean: Floats, scale: Floats, linear: Tensor, layers: Sequence[tuple[Tensor, Tensor]]) -> Self:
        """From the scaling, the linear path of shape (d, 1), and weights and biases by layer."""
        tensors = {"mean": torch.from_numpy(mean.copy()), "scale": torch.from_numpy(scale.copy())}
        tensors["linear"] = linear.detach().float().clone()
        for k, (weight, bias) in enumerate(layers):
            tensors[f"weight.{k}"] = weight.detach().float().clone()
            tensors[f"bias.{k}"] = bias.detach().float().clone()
        return cls(tensors)

    @torch.no_grad()
    def score(self, inputs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Logits of encoded rows."""
        found = np.empty(len(inputs), np.float32)
        mean, scale = self.tensors["mean"].numpy(), self.tensors["scale"].numpy()
        for k in range(0, len(inputs), ROWS):
            found[k : k + ROWS] = self._forward(standardized(inputs[k : k + ROWS], mean, scale))
        return _single(found)

    def _forward(self, inputs: Tensor) -> NDArray[np.float32]:
        value, layers = inputs, sum(name.startswith("weight.") for name in self.tensors)
        for k in range(layers):
            value = torch.addmm(self.tensors[f"bias.{k}"], value, self.tensors[f"weight.{k}"])
            if k < layers - 1:
                value = torch.relu(value)
        return (inputs @ self.tensors["linear"] + value)[:, 0].numpy()


def standardized(inputs: NDArray[np.float32], mean: Floats, scale: Floats) -> Tensor:
    """Columns of mean 0 and deviation 1, in double precision until then; far outliers are drawn in.

    A value 20 deviations out is an error or the tail of a heavy distribution; beyond it grows as a logarithm, so that
    one row cannot carry the network away.
    """
    z = (inputs.astype(np.float64) - mean) / scale
    far = np.abs(z) > _FAR
    if far.any():
        z[far] = np.sign(z[far]) * _FAR * (1 + np.log(np.abs(z[far]) / _FAR))
    return torch.from_numpy(z.astype(np.float32))


_FAR = 20.0
_KINDS: dict[str, Any] = {each.kind: each for each in (LinearScorer, TreeScorer, ForestScorer, NetworkScorer)}


def scorer_of(kind: str, tensors: Mapping[str, Tensor], columns: int) -> Scorer:
    """Rebuild a scorer from what was stored of it.

    Args:
        kind: Its kind.
        tensors: What it has learned.
        columns: Of the encoded rows that it will score.

    Raises:
        InputError: When these are not the tensors of such a scorer for so many columns.
    """
    one_of("kind", kind, tuple(_KINDS))
    what = f"a {kind} scorer for rows of {columns} columns"
    check_tensors(what, tensors, _shapes(kind, tensors, columns))
    if kind == ForestScorer.kind and not 0 < float(tensors[SHARE]) < 1:
        raise InputError(f"Expected `{SHARE}` of a forest to be in (0, 1), but got {float(tensors[SHARE])}.")
    if kind not in ("trees", "forest"):
        made: Scorer = _KINDS[kind](tensors)
        return made
    trees: TreeScorer = _KINDS[kind](tensors, columns)
    _ = trees.checked  # now, where the name of the file is known, and not when the first row is scored
    return trees


def _shapes(kind: str, tensors: Mapping[str, Tensor], columns: int) -> Shapes:
    """Names, shapes and types that the tensors must have; the widths of hidden layers are the file's own."""
    double = torch.float64
    if kind == "linear":
        return {"coef": ((columns,), double), "intercept": ((), double)}
    if kind in ("trees", "forest"):
        size = tensors[BOOSTER].numel() if BOOSTER in tensors else 0
        found: Shapes = {BOOSTER: ((size,), torch.uint8), START: ((), double)}
        return found | ({SHARE: ((), double)} if kind == "forest" else {})
    shapes: Shapes
    shapes = {"mean": ((columns,), double), "scale": ((columns,), double), "linear": ((columns, 1), torch.float32)}
    width, layers = columns, sum(name.startswith("weight.") for name in tensors)
    for k in range(layers):
        weight = tensors.get(f"weight.{k}")
        out = 1 if k == layers - 1 else int(weight.shape[-1]) if weight is not None and weight.ndim == 2 else 0
        shapes |= {f"weight.{k}": ((width, out), torch.float32), f"bias.{k}": ((1, out), torch.float32)}
        width = out
    return shapes if layers else shapes | {"weight.0": ((columns, 1), torch.float32), "bias.0": ((1, 1), torch.float32)}


def _single(logits: NDArray[Any]) -> NDArray[np.float32]:
    """In single precision, finite."""
    if np.isnan(logits).any():
        raise InputError("Expected finite scores, but got NaN: the inputs hold NaN or infinity; encode them anew.")
    found: NDArray[np.float32] = np.clip(logits, -LIMIT, LIMIT).astype(np.float32)
    return found
