"""A trained model of tables as one file: safetensors with the weights, and everything else as JSON in its header.

The header's entry ``setwise`` says the format's version, how columns become numbers, the classes, which candidates'
models there are, the threshold, the calibration, the measure, the report in words and where the model comes from.
Trees are LightGBM's own text, kept as bytes among the tensors. The entry ``sha256`` is the checksum of the whole file,
so damage anywhere is noticed. The file is written beside its place and moved there; nothing in it is unpickled, and
nothing is built from it before its content is checked.

>>> import tempfile
>>> from pathlib import Path
>>> from setwise.app.scorers import LinearScorer
>>> from setwise.data import CategoryCode, NumberCode, TableEncoding
>>> encoding = TableEncoding((NumberCode("age"), CategoryCode("job", ("clerk", "smith"))), "fraud", "yes", "no")
>>> ensemble = Ensemble({"logistic": (LinearScorer.of(np.array([0.1, 0.0, 1.0]), -3.0),)})
>>> model = TableModel(encoding, ensemble, score_threshold=0.0, measure="auc")
>>> with tempfile.TemporaryDirectory() as folder:
...     path = model.save(Path(folder) / "model.safetensors")
...     TableModel.load(path).predict({"age": [20, 40], "job": ["clerk", "smith"]})
array(['no', 'yes'], dtype='<U3')
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise._checks import InputError, in_range
from setwise._files import write_bytes
from setwise.app.ensemble import Ensemble
from setwise.app.files import contents_of
from setwise.app.run_folder import MODEL
from setwise.app.tensor_file import read_tensors, sealed_tensors
from setwise.app.train_report import TrainReport
from setwise.data import News, TableEncoding
from setwise.data.tables.encoding import is_read
from setwise.data.tables.reading import frame_of
from setwise.metrics import (
    CalibrationMap,
    IsotonicCalibration,
    PlattScaling,
    PriorCorrection,
    calibration_from_dict,
)

FORMAT = 3  # raised when the file changes its meaning; any other is refused
SIGMOID = PlattScaling(1.0, 0.0)
MOST_NAME = 1_000
_AGAIN = "train the model again, or fetch the file anew"
_TYPES = {"int": int, "float": float, "bool": bool, "str": str}


@dataclass(frozen=True, eq=False)
class Prediction:
    """What a model says about the rows of a table.

    Attributes:
        scores: Logits.  # shape: (n,)
        probabilities: Of the positive class, calibrated on rows that the models had not seen.  # shape: (n,)
        classes: Name of the predicted class of each row.
        remarks: What the table holds that the model has not seen before, in sentences.
    """

    scores: NDArray[np.float64]
    probabilities: NDArray[np.float64]
    classes: Sequence[str]
    remarks: Sequence[str]


@dataclass(frozen=True, eq=False)
class TableModel:
    """A model of tables, ready to predict.

    Args:
        encoding: How columns become numbers, and which classes there are.
        ensemble: The models that score.
        score_threshold: Score (logit) from which on a row is predicted positive; infinity for none.
        measure: Name of the measure it was trained for.
        calibration: The map from scores to probabilities.
        types: Type of the predicted values: ``"str"``, ``"int"``, ``"float"`` or ``"bool"``.
        about: Where it comes from: data, settings, versions, what is certified.
        summary: What the training found; None for a model that was put together by hand.
    """

    encoding: TableEncoding
    ensemble: Ensemble
    score_threshold: float
    measure: str
    calibration: CalibrationMap = SIGMOID
    types: str = "str"
    about: Mapping[str, Any] = field(default_factory=dict)
    summary: TrainReport | None = None

    def __post_init__(self) -> None:
        in_range("score_threshold", self.score_threshold)  # refuses NaN
        if not isinstance(self.measure, str) or len(self.measure) > MOST_NAME:
            raise InputError(f"Expected `measure` to be a name, but got {self.measure!r:.80}.")
        if not isinstance(self.calibration, PlattScaling | IsotonicCalibration | PriorCorrection):
            raise InputError(f"Expected `calibration` to be one of a score, but got {type(self.calibration).__name__}.")
        if self.types not in _TYPES:
            raise InputError(f"Expected `types` among {', '.join(_TYPES)}, but got {self.types!r:.80}.")

    @property
    def threshold(self) -> float:
        """Calibrated probability from which on a row is predicted positive; infinity for none."""
        if not math.isfinite(self.score_threshold):
            return self.score_threshold
        return float(self.calibration(np.array([self.score_threshold]))[0])

    @property
    def classes_(self) -> NDArray[Any]:
        """The negative and the positive value, in the order of :meth:`predict_proba`'s columns."""
        return _typed(self.encoding.classes, self.types)

    def score(self, inputs: NDArray[np.float32]) -> NDArray[np.float64]:
        """Logits of encoded rows.

        Args:
            inputs: What :meth:`setwise.data.TableEncoding.encode` gives.  # shape: (n, columns)
        """
        return self.ensemble.score(inputs)

    def apply(
        self, table: Any, *, threshold: float | None = None, news: News | None = None, first_row: int = 1
    ) -> Prediction:
        """Scores, probabilities and classes of a table's rows.

        Args:
            table: A frame of pandas or polars, a mapping of columns, or what :func:`setwise.data.read_frame` gives.
            threshold: A calibrated probability from which on a row is predicted positive, instead of the model's own.
            news: Counts what the table holds that the training rows did not, over several blocks of a table; the
                remarks are left to the last one then.
            first_row: Number of the first row, for messages.

        Raises:
            InputError: When a column is missing, or one of numbers holds texts.
        """
        frame = table if is_read(table) else frame_of(table, texts=self.encoding.texts)
        found = News() if news is None else news
        scores = self.score(self.encoding.encode(frame, found, first_row=first_row))
        probabilities = np.asarray(self.calibration(scores))
        # Probabilities near 1 round to 1, so the model's own threshold is one of the score.
        positive = scores >= self.score_threshold if threshold is None else probabilities >= threshold
        classes = [self.encoding.classes[flag] for flag in positive.astype(int).tolist()]
        remarks = self.encoding.sentences(found, tuple(map(str, frame.columns))) if news is None else []
        return Prediction(scores, probabilities, classes, remarks)

    def predict(self, table: Any) -> NDArray[Any]:
        """The predicted value of the target of each row.

        Args:
            table: A frame of pandas or polars, or a mapping of columns.
        """
        positive: NDArray[np.bool_] = self.apply(table).scores >= self.score_threshold
        return np.asarray(self.classes_[positive.astype(int)])

    def predict_proba(self, table: Any) -> NDArray[np.float64]:
        """Calibrated probabilities of the negative and the positive class.  # shape: (n, 2).

        Args:
            table: A frame of pandas or polars, or a mapping of columns.
        """
        positive = self.apply(table).probabilities
        return np.stack([1 - positive, positive], axis=1)

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
            "parts": self.ensemble.parts,
            "threshold": self.score_threshold if math.isfinite(self.score_threshold) else None,  # null: none positive
            "calibration": self.calibration.to_dict(),
            "measure": self.measure,
            "about": dict(self.about),
            "report": None if self.summary is None else self.summary.to_dict(seconds=False),
        }
        write_bytes(path, sealed_tensors(self.ensemble.tensors, state))
        return path

    @classmethod
    def load(cls, path: str | Path) -> TableModel:
        """Read a file that :meth:`save` wrote, or the one in the folder of a run.

        Raises:
            FileNotFoundError: When there is no such file.
            InputError: When the file holds no model, is damaged, or is of another format than this version knows.
        """
        path = Path(path).expanduser()
        path = path / MODEL if path.is_dir() else path
        if not path.is_file():
            raise FileNotFoundError(f"Expected a model file at {path}, but there is none; `setwise train` writes one.")
        state, tensors = read_tensors(path, "a model file", format_=FORMAT, advice=_AGAIN)
        with contents_of(path, _AGAIN):
            encoding, classes = TableEncoding.from_dict(state["encoding"]), state["classes"]
            if list(encoding.classes) != classes:
                raise InputError(f"Expected `classes` to be those of `encoding`, but got {classes!r:.80}.")
            if not isinstance(state["about"], dict):
                raise InputError(f"Expected `about` to be an object, but got {type(state['about']).__name__}.")
            return cls(
                encoding,
                Ensemble.of(state["parts"], tensors, columns=len(encoding.columns)),
                score_threshold=math.inf if state["threshold"] is None else state["threshold"],
                measure=state["measure"],
                calibration=calibration_from_dict(state["calibration"]),
                types=state["types"],
                about=state["about"],
                summary=None if state["report"] is None else TrainReport.from_dict(state["report"]),
            )


def _typed(classes: ArrayLike, types: str) -> NDArray[Any]:
    """Names of classes as the values that they are in a frame; texts where they cannot be."""
    names = [str(name) for name in np.asarray(classes)]
    try:
        if types == "bool":
            return np.array([{"true": True, "1": True, "false": False, "0": False}[name.casefold()] for name in names])
        return np.array([_TYPES[types](name) for name in names])
    except (ValueError, KeyError):
        return np.array(names)
