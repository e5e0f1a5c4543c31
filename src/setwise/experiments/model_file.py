"""A trained model of tables as one file: safetensors with the weights, and everything else as JSON in its header.

The header's entry ``setwise`` says the format's version, the kind of model, how columns become numbers, the classes,
the threshold, the calibration, the measure, the recipe and where the model comes from. A boosting model is LightGBM's
own text, kept as bytes among the tensors. The file is written beside its place and moved there, and nothing in it is
unpickled.

>>> import tempfile
>>> from pathlib import Path
>>> from setwise.data import ColumnCode, TableEncoding
>>> encoding = TableEncoding((ColumnCode("age"), ColumnCode("job", ("clerk", "smith"))), "fraud", "yes", "no")
>>> network = MLP(3, hidden=())
>>> model = TableModel("network", encoding, network.state_dict(), threshold=0.0, measure="auc", hidden=())
>>> with tempfile.TemporaryDirectory() as folder:
...     path = model.save(Path(folder) / "model.safetensors")
...     TableModel.load(path).encoding.classes
('no', 'yes')
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from setwise._checks import InputError, extra, one_of
from setwise.data import TableEncoding
from setwise.experiments.networks import MLP
from setwise.experiments.runs import write_whole
from setwise.experiments.scoring import score
from setwise.metrics import CalibrationMap, PlattScaling, calibration_from_dict
from setwise.training.ensemble import network_of

FORMAT = 1  # raised when the file changes its meaning; an older format stays readable, a newer one is refused
KEY = "setwise"
FILE = "model.safetensors"
KINDS = ("network", "boosting")
BOOSTER = "booster"  # name of the tensor of bytes that is a boosting model's text
START = "start"  # name of the tensor that is added to its scores
SIGMOID = PlattScaling(1.0, 0.0)


@dataclass(frozen=True, eq=False)
class Prediction:
    """What a model says about the rows of a table.

    Attributes:
        scores: Logits.  # shape: (n,)
        probabilities: Of the positive class, calibrated on the validation rows.  # shape: (n,)
        classes: Name of the predicted class of each row.
        remarks: What the table holds that the model has not seen before, in sentences.
    """

    scores: NDArray[np.float32]
    probabilities: NDArray[np.float64]
    classes: Sequence[str]
    remarks: Sequence[str]


@dataclass(frozen=True, eq=False)
class TableModel:
    """A model of tables, ready to predict.

    Args:
        kind: ``"network"`` or ``"boosting"``.
        encoding: How columns become numbers, and which classes there are.
        tensors: The weights of the MLP, or of several, with the scaling of their inputs, or the boosting model's text
            as bytes.
        threshold: Score (logit) from which on a row is predicted positive; infinity for none.
        measure: Name of the measure it was trained for.
        hidden: Units of the MLP's hidden layers.
        recipe: Settings of the training.
        about: Where it comes from: data, seed, method, versions.
        calibration: The map from scores to probabilities; the sigmoid where the file holds none.
    """

    kind: str
    encoding: TableEncoding
    tensors: Mapping[str, Tensor]
    threshold: float
    measure: str
    hidden: tuple[int, ...] = ()
    recipe: Mapping[str, Any] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)
    calibration: CalibrationMap = SIGMOID

    def __post_init__(self) -> None:
        one_of("kind", self.kind, KINDS)
        if self.kind == "boosting" and BOOSTER not in self.tensors:
            raise InputError(f"Expected `tensors` to hold {BOOSTER!r}, but they hold {', '.join(self.tensors)}.")

    def score(self, inputs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Logits of encoded rows.

        Args:
            inputs: What :meth:`setwise.data.TableEncoding.encode` gives.  # shape: (n, columns)
        """
        if self.kind == "boosting":
            return score_trees(self.tensors, inputs)
        network = self._network()
        network.load_state_dict(dict(self.tensors))
        return score(network, torch.from_numpy(inputs)).numpy()

    def predict(self, cells: Mapping[str, Sequence[str]], *, threshold: float | None = None) -> Prediction:
        """Scores and classes of a table's rows.

        Args:
            cells: The table's columns as texts, as :func:`setwise.data.read_cells` gives them.
            threshold: A calibrated probability from which on a row is predicted positive, instead of the model's own
                threshold, which is one of the score.

        Raises:
            InputError: When a column is missing, or one of numbers holds texts.
        """
        inputs = self.encoding.encode(cells)
        scores = self.score(inputs)
        probabilities = self.calibration(scores)
        positive = scores >= np.float32(self.threshold) if threshold is None else probabilities >= threshold
        classes = [self.encoding.classes[int(flag)] for flag in positive]
        return Prediction(scores, probabilities, classes, self.encoding.remarks(cells))

    def save(self, path: str | Path) -> Path:
        """Write the file as a whole, and return its path."""
        path = Path(path)
        save_file = extra("safetensors.torch", "experiments").save_file
        state = {
            "format": FORMAT,
            "kind": self.kind,
            "encoding": self.encoding.to_dict(),
            "classes": list(self.encoding.classes),
            "threshold": self.threshold if math.isfinite(self.threshold) else None,  # null: nothing is positive
            "calibration": self.calibration.to_dict(),
            "measure": self.measure,
            "hidden": list(self.hidden),
            "recipe": dict(self.recipe),
            "about": dict(self.about),
        }
        header = {KEY: json.dumps(state, allow_nan=False)}
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in self.tensors.items()}
        write_whole(path, lambda partial: save_file(tensors, partial, metadata=header))
        return path

    @classmethod
    def load(cls, path: str | Path) -> TableModel:
        """Read a file that :meth:`save` wrote, or the one in the folder of a run.

        Raises:
            FileNotFoundError: When there is no such file.
            InputError: When the file holds no model, is broken, or is of a newer format than this version knows.
        """
        path = Path(path).expanduser()
        path = path / FILE if path.is_dir() else path
        if not path.is_file():
            raise FileNotFoundError(f"Expected a model file at {path}, but there is none; `setwise train` writes one.")
        state, tensors = _read(path)
        try:
            model = cls(
                kind=state["kind"],
                encoding=TableEncoding.from_dict(state["encoding"]),
                tensors=tensors,
                threshold=math.inf if state["threshold"] is None else float(state["threshold"]),
                measure=str(state["measure"]),
                hidden=tuple(state["hidden"]),
                recipe=state["recipe"],
                about=state["about"],
                calibration=calibration_from_dict(state.get("calibration", SIGMOID.to_dict())),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"Expected {path} to hold a whole setwise model, but it does not: {error}.") from error
        model._check_tensors(path)
        return model

    def _network(self) -> nn.Module:
        """One perceptron, or several; without the weights."""
        return network_of(self.tensors, lambda: MLP(len(self.encoding.columns), self.hidden))

    def _check_tensors(self, path: Path) -> None:
        if self.kind == "boosting":
            return
        wanted = self._network().state_dict()
        if {k: v.shape for k, v in wanted.items()} != {k: v.shape for k, v in self.tensors.items()}:
            raise InputError(f"Expected {path} to hold the weights of its network, but their names or shapes differ.")


def score_trees(tensors: Mapping[str, Tensor], inputs: NDArray[np.float32]) -> NDArray[np.float32]:
    """Logits by a boosting model.  # shape: (n,)."""
    start = float(tensors[START]) if START in tensors else 0.0
    found: NDArray[np.float32] = (booster_of(tensors).predict(inputs, raw_score=True) + start).astype(np.float32)
    return found


def booster_of(tensors: Mapping[str, Tensor]) -> Any:
    """The LightGBM model whose text is kept as bytes."""
    lightgbm = extra("lightgbm", "boosting")
    text = bytes(tensors[BOOSTER].numpy()).decode()
    try:
        return lightgbm.Booster(model_str=text)
    except lightgbm.basic.LightGBMError as error:
        raise InputError(f"Expected the model's text to be LightGBM's, but it cannot be read: {error}.") from error


def booster_bytes(text: str) -> Tensor:
    """A boosting model's text as a tensor of bytes."""
    return torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8).clone()


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    safetensors = extra("safetensors", "experiments")
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            if KEY not in header:
                raise InputError(f"Expected {path} to be a model of `setwise train`, but it holds other tensors.")
            state = json.loads(header[KEY])
            version = state.get("format") if isinstance(state, dict) else None
            if isinstance(version, int) and version > FORMAT:
                raise InputError(
                    f"Expected {path} to be of format {FORMAT} or older, but it is of format {version}, from a newer "
                    "setwise: update this one to read it."
                )
            if version != FORMAT:
                raise InputError(f"Expected {path} to be of format {FORMAT}, but its format is {version!r}.")
            return state, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except (safetensors.SafetensorError, json.JSONDecodeError) as error:
        raise InputError(f"Expected {path} to be a model file, but it cannot be read: {error}.") from error
