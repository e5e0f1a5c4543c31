"""A trained model of tables as one file: safetensors with the weights, and everything else as JSON in its header.

The header's entry ``setwise`` says the format's version, the kind of model, how columns become numbers, the classes,
the threshold, the calibration, the measure, the recipe and where the model comes from. A boosting model is LightGBM's
own text, kept as bytes among the tensors. The entry ``sha256`` is the checksum of the whole file, so damage anywhere is
noticed. The file is written beside its place and moved there; nothing in it is unpickled, and nothing is built from it
before its content is checked.

>>> import tempfile
>>> from pathlib import Path
>>> from setwise.data import CategoryCode, NumberCode, TableEncoding
>>> encoding = TableEncoding((NumberCode("age"), CategoryCode("job", ("clerk", "smith"))), "fraud", "yes", "no")
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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from setwise._checks import InputError, all_finite, extra, in_range, is_count, one_of
from setwise._files import ZEROS, damaged, is_intact, is_sealed, seal, write_bytes
from setwise.app.files import DIFFERS, contents_of, parse_json
from setwise.app.networks import MLP, score
from setwise.app.run_folder import MODEL
from setwise.app.tree_file import checked_trees
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
from setwise.training.ensemble import network_of

FORMAT = 2  # raised when the file changes its meaning; any other is refused
KEY = "setwise"
KINDS = ("network", "boosting")
BOOSTER = "booster"  # name of the tensor of bytes that is a boosting model's text
START = "start"  # name of the tensor that is added to its scores
SIGMOID = PlattScaling(1.0, 0.0)
# Limits of what is built from a file; `setwise train` stays far below them.
MOST_LAYERS, MOST_UNITS, MOST_MEMBERS, MOST_NAME = 16, 16_384, 64, 1_000
_AGAIN = "train the model again, or fetch the file anew"


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
        in_range("threshold", self.threshold)  # refuses NaN
        if not isinstance(self.measure, str) or len(self.measure) > MOST_NAME:
            raise InputError(f"Expected `measure` to be a name, but got {self.measure!r:.80}.")
        if len(self.hidden) > MOST_LAYERS:
            raise InputError(f"Expected `hidden` to be at most {MOST_LAYERS} layers, but got {len(self.hidden)}.")
        for k, units in enumerate(self.hidden):
            is_count(f"hidden[{k}]", units)
            in_range(f"hidden[{k}]", units, 1, MOST_UNITS)
        if not isinstance(self.calibration, PlattScaling | IsotonicCalibration | PriorCorrection):
            raise InputError(f"Expected `calibration` to be one of a score, but got {type(self.calibration).__name__}.")
        if self.kind == "boosting":
            check_trees(self.tensors, len(self.encoding.columns))
        else:
            _check_finite(self.tensors)

    def score(self, inputs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Logits of encoded rows.

        Args:
            inputs: What :meth:`setwise.data.TableEncoding.encode` gives.  # shape: (n, columns)
        """
        if self.kind == "boosting":
            return score_trees(self.tensors, inputs)
        network = self._network()
        network.load_state_dict(dict(self.tensors))
        found: NDArray[np.float32] = score(network, torch.from_numpy(inputs)).numpy()
        all_finite("scores", found)  # finite weights may overflow
        return found

    def predict(
        self, table: Any, *, threshold: float | None = None, news: News | None = None, first_row: int = 1
    ) -> Prediction:
        """Scores and classes of a table's rows.

        Args:
            table: A frame of pandas or polars, a mapping of columns, or what :func:`setwise.data.read_frame` gives.
            threshold: A calibrated probability from which on a row is predicted positive, instead of the model's own
                threshold, which is one of the score.
            news: Counts what the table holds that the training rows did not, over several blocks of a table; the
                remarks are left to the last one then.
            first_row: Number of the first row, for messages.

        Raises:
            InputError: When a column is missing, or one of numbers holds texts.
        """
        frame = table if is_read(table) else frame_of(table, texts=self.encoding.texts)
        found = News() if news is None else news
        scores = self.score(self.encoding.encode(frame, found, first_row=first_row))
        probabilities = self.calibration(scores)
        with np.errstate(over="ignore"):  # a threshold beyond float32 is one that no score reaches
            own = np.float32(self.threshold)
        positive = scores >= own if threshold is None else probabilities >= threshold
        classes = [self.encoding.classes[flag] for flag in positive.astype(int).tolist()]
        remarks = self.encoding.sentences(found, tuple(map(str, frame.columns))) if news is None else []
        return Prediction(scores, probabilities, classes, remarks)

    def save(self, path: str | Path) -> Path:
        """Write the file as a whole, and return its path."""
        path = Path(path)
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
        write_bytes(path, sealed_tensors(self.tensors, {KEY: json.dumps(state, allow_nan=False)}))
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
        state, tensors = _read(path)
        with contents_of(path, _AGAIN):
            encoding, classes = TableEncoding.from_dict(state["encoding"]), state["classes"]
            if list(encoding.classes) != classes:
                raise InputError(f"Expected `classes` to be those of `encoding`, but got {classes!r:.80}.")
            for name in ("recipe", "about"):
                if not isinstance(state[name], dict):
                    raise InputError(f"Expected `{name}` to be an object, but got {type(state[name]).__name__}.")
            model = cls(
                kind=state["kind"],
                encoding=encoding,
                tensors=tensors,
                threshold=math.inf if state["threshold"] is None else state["threshold"],
                measure=state["measure"],
                hidden=tuple(state["hidden"]),
                recipe=state["recipe"],
                about=state["about"],
                calibration=calibration_from_dict(state["calibration"]),
            )
            if model.kind == "network":
                check_weights(tensors, model._new_member)
        return model

    def _network(self) -> nn.Module:
        """One perceptron, or several; without the weights."""
        return network_of(self.tensors, self._new_member)

    def _new_member(self) -> MLP:
        return MLP(len(self.encoding.columns), self.hidden)


def check_weights(weights: Mapping[str, Tensor], make: Callable[[], nn.Module]) -> None:
    """Refuse weights that are not finite, or not of a network that ``make`` gives or an ensemble of such.

    Args:
        weights: A ``state_dict``.
        make: Gives a network; it is called where tensors take no memory.
    """
    members = {name.split(".")[1] for name in weights if name.startswith("networks.")}
    if len(members) > MOST_MEMBERS:
        raise InputError(f"Expected weights of at most {MOST_MEMBERS} networks, but got {len(members)}.")
    with torch.device("meta"):
        wanted = network_of(weights, make).state_dict()
    for name in sorted(wanted.keys() ^ weights.keys()):
        has = "lack" if name in wanted else "also hold"
        raise InputError(
            f"Expected the weights of the network, but their names or shapes differ: they {has} {name!r:.80}."
        )
    for name, tensor in weights.items():
        if (tensor.shape, tensor.dtype) != (wanted[name].shape, wanted[name].dtype):
            raise InputError(
                f"Expected the weights of the network, but their names or shapes differ: {name} is "
                f"{tuple(tensor.shape)}, {tensor.dtype}, and not {tuple(wanted[name].shape)}, {wanted[name].dtype}."
            )
    _check_finite(weights)


def _check_finite(weights: Mapping[str, Tensor]) -> None:
    for name, tensor in weights.items():
        all_finite(name, tensor)
        if name.rpartition(".")[2] == "scale" and not bool((tensor > 0).all()):
            raise InputError(f"Expected `{name}` to be positive, but its smallest value is {float(tensor.min())}.")


def check_trees(tensors: Mapping[str, Tensor], columns: int) -> str:
    """Refuse tensors that are not those of a boosting model of so many columns; return its text."""
    if BOOSTER not in tensors or not tensors.keys() <= {BOOSTER, START}:
        raise InputError(f"Expected the tensors to be {BOOSTER!r} and {START!r}, but got {', '.join(tensors)!r:.80}.")
    text = tensors[BOOSTER]
    if text.dtype != torch.uint8 or text.ndim != 1:
        raise InputError(f"Expected {BOOSTER!r} to be bytes, but got {text.dtype} of shape {tuple(text.shape)}.")
    if START in tensors:
        if tensors[START].numel() != 1 or not tensors[START].is_floating_point():
            raise InputError(f"Expected {START!r} to be one number, but its shape is {tuple(tensors[START].shape)}.")
        all_finite(START, tensors[START])
    return checked_trees(bytes(text.numpy()).decode(), columns)


def score_trees(tensors: Mapping[str, Tensor], inputs: NDArray[np.float32]) -> NDArray[np.float32]:
    """Logits by a boosting model.  # shape: (n,)."""
    start = float(tensors[START]) if START in tensors else 0.0
    raw = booster_of(tensors, inputs.shape[1]).predict(inputs, raw_score=True) + start
    with np.errstate(over="ignore"):
        found: NDArray[np.float32] = raw.astype(np.float32)
    all_finite("scores", found)
    return found


def booster_of(tensors: Mapping[str, Tensor], columns: int) -> Any:
    """The LightGBM model whose text is kept as bytes, for a table of so many columns."""
    lightgbm = extra("lightgbm", "boosting")
    text = check_trees(tensors, columns)
    try:
        return lightgbm.Booster(model_str=text)
    except lightgbm.basic.LightGBMError as error:
        raise InputError(f"Expected the model's text to be LightGBM's, but it cannot be read: {error}.") from error


def booster_bytes(text: str) -> Tensor:
    """A boosting model's text as a tensor of bytes."""
    return torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8).clone()


def sealed_tensors(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    """A safetensors file with further entries in its header and its own checksum; the same bytes every time."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    content: bytes = extra("safetensors.torch", "experiments").save(plain)
    size = int.from_bytes(content[:8], "little")
    # The library writes entries of the metadata in any order, so the header is put together here.
    header = {"__metadata__": {"sha256": ZEROS, **metadata}, **json.loads(content[8 : 8 + size])}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return seal(len(text).to_bytes(8, "little") + text + content[8 + size :])


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The JSON of a model file and its tensors, all from the bytes whose checksum is right."""
    safetensors, torch_files = extra("safetensors", "experiments"), extra("safetensors.torch", "experiments")
    content = path.read_bytes()
    state = _state(content, path)
    intact = is_intact(content)
    if state.get("format") != FORMAT and (intact or not is_sealed(content)):  # early files have no checksum
        version = state.get("format")
        newer = isinstance(version, int) and version > FORMAT
        advice = "update this setwise, an older one than wrote it" if newer else "train the model again"
        raise InputError(f"Expected {path} to be of format {FORMAT}, but its format is {version!r:.40}: {advice}.")
    if not intact:
        raise damaged(path, DIFFERS, _AGAIN)
    try:
        return state, torch_files.load(content)
    except (safetensors.SafetensorError, ValueError, KeyError, RuntimeError, TypeError, AttributeError) as error:
        raise damaged(path, f"its tensors cannot be read: {error}"[:300], _AGAIN) from error


def _state(content: bytes, path: Path) -> dict[str, Any]:
    """The JSON in the header of a model file."""
    size = int.from_bytes(content[:8], "little")
    try:
        if not 8 < size + 8 <= len(content):
            raise InputError("it is no whole safetensors file")
        header = parse_json(content[8 : 8 + size].decode())
        metadata = header.get("__metadata__", {}) if isinstance(header, dict) else {}
        if isinstance(metadata, dict) and KEY not in metadata:
            raise InputError("it holds other tensors than a model of `setwise train`")
        state = parse_json(metadata[KEY])
    except (ValueError, TypeError, AttributeError) as error:
        why = str(error)[:300]
        raise InputError(f"Expected {path} to be a model file, but it cannot be read: {why}; {_AGAIN}.") from error
    if not isinstance(state, dict):
        raise damaged(path, "its header holds no JSON object", _AGAIN)
    return state
