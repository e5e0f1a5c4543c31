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
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from setwise._checks import InputError, in_range
from setwise.app.ensemble import Ensemble
from setwise.app.files import contents_of
from setwise.app.multiclass_model import MulticlassModel
from setwise.app.stored_model import (
    AGAIN,
    FORMAT,
    SIGMOID,
    Prediction,
    StoredModel,
    check_calibration,
    is_of_several,
    read_state,
    shared_parts,
)
from setwise.app.train_report import TrainReport
from setwise.data import News, TableEncoding
from setwise.metrics import CalibrationMap, calibration_from_dict

__all__ = ["FORMAT", "Prediction", "TableModel", "load_model"]


@dataclass(frozen=True, eq=False)
class TableModel(StoredModel):
    """A model of tables of two classes, ready to predict.

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
        super().__post_init__()
        check_calibration(self.calibration)

    @property
    def threshold(self) -> float:
        """Calibrated probability from which on a row is predicted positive; infinity for none."""
        if not math.isfinite(self.score_threshold):
            return self.score_threshold
        return float(self.calibration(np.array([self.score_threshold]))[0])

    def score(self, inputs: NDArray[np.float32]) -> NDArray[np.float64]:
        """Logits of encoded rows.

        Args:
            inputs: What :meth:`setwise.data.TableEncoding.encode` gives.  # shape: (n, columns)
        """
        return self.ensemble.score(inputs)

    def apply(
        self, table: Any, *, threshold: float | None = None, news: News | None = None, first_row: int = 1
    ) -> Prediction:
        """Scores, probabilities and classes of a table's rows; see the base class."""
        inputs, remarks = self._encoded(table, news, first_row)
        scores = self.score(inputs)
        probabilities = np.asarray(self.calibration(scores))
        # Probabilities near 1 round to 1, so the model's own threshold is one of the score.
        positive = scores >= self.score_threshold if threshold is None else probabilities >= threshold
        classes = [self.encoding.classes[flag] for flag in positive.astype(int).tolist()]
        return Prediction(scores, probabilities, classes, remarks)

    def _learned(self) -> dict[str, Any]:
        return {
            "parts": self.ensemble.parts,
            "threshold": self.score_threshold if math.isfinite(self.score_threshold) else None,  # null: none positive
            "calibration": self.calibration.to_dict(),
        }

    def _tensors(self) -> dict[str, Tensor]:
        return self.ensemble.tensors

    @classmethod
    def load(cls, path: str | Path) -> TableModel:
        """Read a file that :meth:`save` wrote, or the one in the folder of a run; :func:`load_model` reads any model.

        Raises:
            FileNotFoundError: When there is no such file.
            InputError: When the file holds no model, one of several classes, is damaged, or is of another format than
                this version knows.
        """
        found = load_model(path)
        if not isinstance(found, TableModel):
            raise InputError(
                f"Expected {path} to be a model of two classes, but it is of {len(found.encoding.classes)}: read it "
                "with setwise.app.load_model."
            )
        return found

    @classmethod
    def of(cls, path: Path, state: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> TableModel:
        """Rebuild it from what a file holds, checked; the path is for messages.

        Raises:
            InputError: When parts and tensors do not fit together.
        """
        with contents_of(path, AGAIN):
            shared = shared_parts(state)
            return cls(
                ensemble=Ensemble.of(state["parts"], tensors, columns=len(shared["encoding"].columns)),
                score_threshold=math.inf if state["threshold"] is None else state["threshold"],
                calibration=calibration_from_dict(state["calibration"]),
                **shared,
            )


def load_model(path: str | Path) -> TableModel | MulticlassModel:
    """Read a model that `setwise train` wrote, of two classes or of several.

    Args:
        path: The file, or the folder of a run.

    Raises:
        FileNotFoundError: When there is no such file.
        InputError: When the file holds no model, is damaged, or is of another format than this version knows.
    """
    file, state, tensors = read_state(path)
    # By the state and not by the name: files are renamed.
    kind = MulticlassModel if is_of_several(state) else TableModel
    return kind.of(file, state, tensors)
