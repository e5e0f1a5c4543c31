"""Base of the stored models of tables, of two classes and of several: typed predictions, report and file."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from setwise._checks import InputError
from setwise._files import write_bytes
from setwise.app.run_folder import MODEL
from setwise.app.tensor_file import read_tensors, sealed_tensors
from setwise.app.train_report import TrainReport
from setwise.data import News, TableEncoding
from setwise.data.tables.encoding import is_read
from setwise.data.tables.reading import frame_of
from setwise.metrics import IsotonicCalibration, PlattScaling, PriorCorrection

FORMAT = 3  # raised when the file changes its meaning; any other is refused
AGAIN = "train the model again, or fetch the file anew"
MOST_NAME = 1_000
SIGMOID = PlattScaling(1.0, 0.0)
_TYPES = {"int": int, "float": float, "bool": bool, "str": str}


@dataclass(frozen=True, eq=False)
class Prediction:
    """What a model says about the rows of a table.

    Attributes:
        scores: Logits; with several classes one of each against the others.  # shape: (n,) or (n, classes)
        probabilities: Of the positive class, calibrated on rows that the models had not seen; with several classes of
            the predicted one.  # shape: (n,)
        classes: Name of the predicted class of each row.
        remarks: What the table holds that the model has not seen before, in sentences.
        by_class: With several classes, the probability of each.  # shape: (n, classes)
    """

    scores: NDArray[np.float64]
    probabilities: NDArray[np.float64]
    classes: Sequence[str]
    remarks: Sequence[str]
    by_class: NDArray[np.float64] | None = None


class StoredModel(abc.ABC):
    """A model of tables, ready to predict: what does not depend on how many classes there are.

    Attributes:
        encoding: How columns become numbers, and which classes there are.
        measure: Name of the measure it was trained for.
        types: Type of the predicted values: ``"str"``, ``"int"``, ``"float"`` or ``"bool"``.
        about: Where it comes from: data, settings, versions, what is certified.
        summary: What the training found; None for a model that was put together by hand.
    """

    encoding: TableEncoding
    measure: str
    types: str
    about: Mapping[str, Any]
    summary: TrainReport | None

    def __post_init__(self) -> None:
        if not isinstance(self.measure, str) or len(self.measure) > MOST_NAME:
            raise InputError(f"Expected `measure` to be a name, but got {self.measure!r:.80}.")
        if self.types not in _TYPES:
            raise InputError(f"Expected `types` among {', '.join(_TYPES)}, but got {self.types!r:.80}.")

    @property
    def classes_(self) -> NDArray[Any]:
        """The values of the target, in the order of :meth:`predict_proba`'s columns; of two the positive one last."""
        return typed(self.encoding.classes, self.types)

    @abc.abstractmethod
    def apply(
        self, table: Any, *, threshold: float | None = None, news: News | None = None, first_row: int = 1
    ) -> Prediction:
        """Scores, probabilities and classes of a table's rows.

        Args:
            table: A frame of pandas or polars, a mapping of columns, or what :func:`setwise.data.read_frame` gives.
            threshold: A calibrated probability from which on a row is predicted positive, instead of the model's own;
                for two classes only.
            news: Counts what the table holds that the training rows did not, over several blocks of a table; the
                remarks are left to the last one then.
            first_row: Number of the first row, for messages.

        Raises:
            InputError: When a column is missing, or one of numbers holds texts.
        """

    def predict(self, table: Any) -> NDArray[Any]:
        """The predicted value of the target of each row; of several classes the most probable one.

        Args:
            table: A frame of pandas or polars, or a mapping of columns.
        """
        places = {name: place for place, name in enumerate(self.encoding.classes)}
        found = [places[name] for name in self.apply(table).classes]
        return np.asarray(self.classes_[np.array(found, dtype=np.int64)])

    def predict_proba(self, table: Any) -> NDArray[np.float64]:
        """Calibrated probabilities of the classes, which sum to 1; of two the positive is last.  # shape: (n, classes).

        Args:
            table: A frame of pandas or polars, or a mapping of columns.
        """
        found = self.apply(table)
        if found.by_class is not None:
            return found.by_class
        return np.stack([1 - found.probabilities, found.probabilities], axis=1)

    def report(self) -> TrainReport:
        """What the training found: printed as the command prints it, or written as a page.

        Raises:
            InputError: When the model was put together by hand.
        """
        if self.summary is None:
            raise InputError("Expected a model that `train` made, but this one was put together and has no report.")
        return self.summary

    def save(self, path: str | Path) -> Path:
        """Write the file as a whole, and return its path."""
        path = Path(path)
        state = {
            "format": FORMAT,
            "encoding": self.encoding.to_dict(),
            "classes": list(self.encoding.classes),
            "types": self.types,
            **self._learned(),
            "measure": self.measure,
            "about": dict(self.about),
            "report": None if self.summary is None else self.summary.to_dict(seconds=False),
        }
        write_bytes(path, sealed_tensors(self._tensors(), state))
        return path

    @abc.abstractmethod
    def _learned(self) -> dict[str, Any]:
        """Plain values of what it has learned, beside the tensors."""

    @abc.abstractmethod
    def _tensors(self) -> dict[str, Tensor]:
        """The tensors of what it has learned, by name."""

    def _encoded(self, table: Any, news: News | None, first_row: int) -> tuple[NDArray[np.float32], Sequence[str]]:
        """Encoded rows, and remarks on what is new in them unless that is counted elsewhere."""
        frame = table if is_read(table) else frame_of(table, texts=self.encoding.texts)
        found = News() if news is None else news
        inputs = self.encoding.encode(frame, found, first_row=first_row)
        return inputs, self.encoding.sentences(found, tuple(map(str, frame.columns))) if news is None else []


def read_state(path: str | Path) -> tuple[Path, dict[str, Any], dict[str, Tensor]]:
    """The file of a model, or the one in the folder of a run: its path, its state and its tensors.

    Raises:
        FileNotFoundError: When there is no such file.
        InputError: When the file holds no model, is damaged, or is of another format than this version knows.
    """
    path = Path(path).expanduser()
    path = path / MODEL if path.is_dir() else path
    if not path.is_file():
        raise FileNotFoundError(f"Expected a model file at {path}, but there is none; `setwise train` writes one.")
    return path, *read_tensors(path, "a model file", format_=FORMAT, advice=AGAIN)


def is_of_several(state: Mapping[str, Any]) -> bool:
    """Whether the state is that of a model of several classes."""
    return isinstance(state.get("classes"), list) and len(state["classes"]) > 2


def shared_parts(state: Mapping[str, Any]) -> dict[str, Any]:
    """Of a stored state what all models have, checked; a missing part is a KeyError."""
    encoding, classes = TableEncoding.from_dict(state["encoding"]), state["classes"]
    if list(encoding.classes) != classes:
        raise InputError(f"Expected `classes` to be those of `encoding`, but got {classes!r:.80}.")
    if not isinstance(state["about"], dict):
        raise InputError(f"Expected `about` to be an object, but got {type(state['about']).__name__}.")
    return {
        "encoding": encoding,
        "measure": state["measure"],
        "types": state["types"],
        "about": state["about"],
        "summary": None if state["report"] is None else TrainReport.from_dict(state["report"]),
    }


def check_calibration(calibration: Any) -> None:
    """Refuse what does not map scores to probabilities."""
    if not isinstance(calibration, PlattScaling | IsotonicCalibration | PriorCorrection):
        raise InputError(f"Expected `calibration` to be one of a score, but got {type(calibration).__name__}.")


def typed(classes: Sequence[str], types: str) -> NDArray[Any]:
    """Names of classes as the values that they are in a frame; texts where they cannot be."""
    try:
        if types == "bool":
            known = {"true": True, "1": True, "false": False, "0": False}
            return np.array([known[name.casefold()] for name in classes])
        return np.array([_TYPES[types](name) for name in classes])
    except (ValueError, KeyError):
        return np.array(classes)
