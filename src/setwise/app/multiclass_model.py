"""A trained model of tables of several classes: each against the others, calibrated, brought to a sum of 1.

The file is that of two classes (:mod:`setwise.app.model_file`) with the models and the calibration of every class: in
its header ``heads`` in the order of the classes, their tensors named after the number of the class.

>>> from setwise.app.scorers import LinearScorer
>>> from setwise.data import NumberCode, TableEncoding
>>> encoding = TableEncoding((NumberCode("size"),), "kind", "medium", "small", further=("large",))
>>> linear = [LinearScorer.of(np.array([slope]), 0.0) for slope in (-1.0, 0.0, 1.0)]
>>> heads = tuple(Head(Ensemble({"logistic": (each,)})) for each in linear)
>>> model = MulticlassModel(encoding, heads, "auc")
>>> model.predict({"size": [-2.0, 2.0]})
array(['small', 'large'], dtype='<U6')
>>> model.predict_proba({"size": [-2.0, 2.0]}).sum(axis=1)
array([1., 1.])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from setwise._checks import InputError
from setwise.app.ensemble import Ensemble
from setwise.app.files import contents_of
from setwise.app.stored_model import AGAIN, SIGMOID, Prediction, StoredModel, check_calibration, shared_parts
from setwise.app.train_report import TrainReport
from setwise.data import News, TableEncoding
from setwise.metrics import CalibrationMap, calibration_from_dict

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Head:
    """What tells one class from the others.

    Attributes:
        ensemble: The models that score.
        calibration: The map from scores to probabilities.
    """

    ensemble: Ensemble
    calibration: CalibrationMap = SIGMOID

    def __post_init__(self) -> None:
        check_calibration(self.calibration)


@dataclass(frozen=True, eq=False)
class MulticlassModel(StoredModel):
    """A model of tables of several classes, ready to predict the most probable one.

    Args:
        encoding: How columns become numbers, and which classes there are.
        heads: What tells each class from the others, in the order of the classes.
        measure: Name of the measure it was trained for.
        types: Type of the predicted values: ``"str"``, ``"int"`` or ``"float"``.
        about: Where it comes from: data, settings, versions.
        summary: What the training found; None for a model that was put together by hand.
    """

    encoding: TableEncoding
    heads: tuple[Head, ...]
    measure: str
    types: str = "str"
    about: Mapping[str, Any] = field(default_factory=dict)
    summary: TrainReport | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 2 < len(self.heads) == len(self.encoding.classes):
            raise InputError(
                f"Expected `heads` to be one for each of {len(self.encoding.classes)} classes, at least 3, but got "
                f"{len(self.heads)}."
            )

    def score(self, inputs: NDArray[np.float32]) -> Floats:
        """Logits of encoded rows, of each class against the others.  # shape: (n, classes).

        Args:
            inputs: What :meth:`setwise.data.TableEncoding.encode` gives.  # shape: (n, columns)
        """
        return np.stack([head.ensemble.score(inputs) for head in self.heads], axis=1)

    def apply(
        self, table: Any, *, threshold: float | None = None, news: News | None = None, first_row: int = 1
    ) -> Prediction:
        """Scores, probabilities and the most probable class of a table's rows; see the base class."""
        if threshold is not None:
            raise InputError(
                f"Expected `threshold` only with a model of two classes, but this one is of {len(self.heads)} and "
                "predicts the most probable; leave it out."
            )
        inputs, remarks = self._encoded(table, news, first_row)
        scores = self.score(inputs)
        found = probabilities(scores, [head.calibration for head in self.heads])
        places = found.argmax(axis=1)
        names = [self.encoding.classes[place] for place in places.tolist()]
        return Prediction(scores, found[np.arange(len(found)), places], names, remarks, found)

    def most_probable(self, scores: Floats) -> NDArray[np.int64]:
        """Number of the predicted class, from the logits of :meth:`score`.  # shape: (n,)."""
        return np.asarray(probabilities(scores, [head.calibration for head in self.heads]).argmax(axis=1))

    def _learned(self) -> dict[str, Any]:
        return {
            "heads": [{"parts": head.ensemble.parts, "calibration": head.calibration.to_dict()} for head in self.heads]
        }

    def _tensors(self) -> dict[str, Tensor]:
        return {
            f"{k}.{name}": tensor for k, head in enumerate(self.heads) for name, tensor in head.ensemble.tensors.items()
        }

    @classmethod
    def of(cls, path: Path, state: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> MulticlassModel:
        """Rebuild it from what a file holds, checked; the path is for messages.

        Raises:
            InputError: When parts and tensors do not fit together.
        """
        with contents_of(path, AGAIN):
            shared = shared_parts(state)
            return cls(heads=_read_heads(state["heads"], tensors, shared["encoding"]), **shared)


def probabilities(scores: Floats, calibrations: Sequence[CalibrationMap]) -> Floats:
    """Calibrated probabilities of each class against the others, brought to sum 1.  # shape: (n, classes).

    Where all of them are 0, as an isotonic map may say, the scores are taken as logits of the classes.

    Args:
        scores: Of each class against the others.  # shape: (n, classes)
        calibrations: Scores to probabilities, of each class.
    """
    single = np.stack([calibration(scores[:, k]) for k, calibration in enumerate(calibrations)], axis=1)
    total = single.sum(axis=1, keepdims=True)
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    softmax = powers / powers.sum(axis=1, keepdims=True)
    return np.asarray(np.where(total > 0, single / np.where(total > 0, total, 1.0), softmax))


def _read_heads(stored: Any, tensors: Mapping[str, Tensor], encoding: TableEncoding) -> tuple[Head, ...]:
    """What tells each class from the others, from what was stored."""
    if not isinstance(stored, list) or len(stored) != len(encoding.classes):
        raise InputError(f"Expected `heads` to be one for each of {len(encoding.classes)} classes, but it is not.")
    own: list[dict[str, Tensor]] = [{} for _ in stored]
    numbers = {str(k): k for k in range(len(stored))}
    for name, tensor in tensors.items():
        number, _, rest = name.partition(".")
        if number not in numbers:
            raise InputError(f"Expected tensors of {len(stored)} classes, but there is {name!r:.80}.")
        own[numbers[number]][rest] = tensor
    return tuple(
        Head(
            Ensemble.of(each["parts"], mine, columns=len(encoding.columns)), calibration_from_dict(each["calibration"])
        )
        for each, mine in zip(stored, own, strict=True)
    )
