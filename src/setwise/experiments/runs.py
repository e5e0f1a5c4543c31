"""A comparison on disk: a folder that can be stopped at any moment and gone on with.

``settings.json``
    The settings and a fingerprint of the data.
``runs.jsonl``
    One line per finished training, appended when its weights and scores are safe. A last line cut short by a kill is
    dropped on reading, and that training is done again.
``models/*.safetensors``, ``scores/*.npz``
    Best weights, and the scores and labels of the validation and test sets.
``checkpoints/``
    The last checkpoint of the training in progress.
``model.safetensors``, ``results.json``, ``report.html``
    Written at the end; the model, of a table, is for ``setwise predict``.

Every file but ``runs.jsonl`` is written beside its place and moved into it, so it is there as a whole or not at all.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from setwise._checks import InputError, extra
from setwise.experiments.settings import FORMAT, ComparisonSettings

_FILES = ("settings.json", "runs.jsonl", "model.safetensors", "results.json", "report.html")
_FOLDERS = ("models", "scores", "checkpoints")


def plain(value: Any) -> Any:
    """Values for strict JSON: NumPy numbers become Python's, NaN and infinity become null."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a file beside ``path``, then move it there in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    write(partial)
    with partial.open("rb") as file:
        os.fsync(file.fileno())
    partial.replace(path)


def write_json(path: Path, value: object) -> None:
    """Write strict JSON as a whole."""
    text = json.dumps(plain(value), indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    write_whole(path, lambda partial: partial.write_text(text, encoding="utf-8"))


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object, or say what is wrong with the file."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"Expected {path} to be a JSON file, but it cannot be read: {error}.") from error
    if not isinstance(value, dict):
        raise InputError(f"Expected {path} to hold a JSON object, but it holds a {type(value).__name__}.")
    return value


class RunFolder:
    """The folder of one comparison.

    Args:
        path: The folder; it need not exist yet.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @property
    def exists(self) -> bool:
        """Whether a comparison was started here."""
        return (self.path / "settings.json").is_file()

    def file(self, kind: str, seed: int, method: str) -> Path:
        """Path of the ``models``, ``scores`` or ``checkpoints`` entry of one training."""
        stem = f"seed{seed}-{re.sub(r'[^a-z0-9_]+', '-', method.lower()).strip('-')}"
        return self.path / kind / (stem + {"models": ".safetensors", "scores": ".npz", "checkpoints": ""}[kind])

    def create(self, settings: ComparisonSettings, fingerprint: str, *, overwrite: bool = False) -> None:
        """Start anew in an empty folder, or in place of an earlier comparison when asked to."""
        self.check_free(overwrite=overwrite)
        if self.exists:
            self._clear()
        self.path.mkdir(parents=True, exist_ok=True)
        write_json(self.path / "settings.json", {"format": FORMAT, "data": fingerprint, "settings": settings.to_dict()})

    def check_free(self, *, overwrite: bool) -> None:
        """Refuse a folder that holds something; ``overwrite`` allows an earlier comparison, and nothing else."""
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"Expected `out` to be a folder, but {self.path} is a file.")
        if not self.path.exists() or not any(self.path.iterdir()):
            return
        if not self.exists:
            raise InputError(f"Expected `out` to be an empty folder or a run, but {self.path} holds other files.")
        if not overwrite:
            raise InputError(
                f"Expected `out` to be a new folder, but {self.path} already holds a run: continue it with --resume, "
                "replace it with --overwrite, or choose another --out."
            )

    def _clear(self) -> None:
        """Remove what a comparison writes, and nothing else; the settings last, so a kill leaves a known folder."""
        for name in _FOLDERS:
            shutil.rmtree(self.path / name, ignore_errors=True)
        for name in reversed(_FILES):
            (self.path / name).unlink(missing_ok=True)

    def settings(self) -> tuple[ComparisonSettings, str]:
        """The stored settings and the fingerprint of the data."""
        path = self.path / "settings.json"
        if not path.is_file():
            raise InputError(f"Expected {self.path} to be the folder of a run, but it has no settings.json.")
        stored = read_json(path)
        values, fingerprint = stored.get("settings"), stored.get("data")
        if stored.get("format") != FORMAT or not isinstance(values, dict) or not isinstance(fingerprint, str):
            raise InputError(f"Expected {path} to hold settings in format {FORMAT}, but it does not.")
        try:
            return ComparisonSettings.from_dict(values), fingerprint
        except (InputError, TypeError) as error:
            raise InputError(f"Expected {path} to hold valid settings, but it does not: {error}") from error

    def check_same(self, settings: ComparisonSettings, fingerprint: str) -> None:
        """Refuse to go on with other settings or other data than the run was started with."""
        stored, data = self.settings()
        for name, new, old in settings.differences(stored):
            raise InputError(
                f"Expected `{name}` to be {old!r}, as when the run in {self.path} was started, but got {new!r}; "
                "leave it out to resume, or start anew with --overwrite or another --out."
            )
        if fingerprint != data:
            raise InputError(f"Expected `data` {settings.data} to be as when {self.path} was made, but it has changed.")

    def finished(self) -> dict[tuple[int, str], dict[str, Any]]:
        """Records of the finished trainings by seed and method, without lines cut short or lacking their files."""
        path = self.path / "runs.jsonl"
        records: dict[tuple[int, str], dict[str, Any]] = {}
        for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
            try:
                record = json.loads(line)
                key = int(record["seed"]), str(record["method"])
            except (ValueError, KeyError, TypeError):
                continue
            if all(self.file(kind, *key).is_file() for kind in ("models", "scores")):
                records[key] = record
        return records

    def repair(self) -> dict[tuple[int, str], dict[str, Any]]:
        """Rewrite ``runs.jsonl`` without broken lines, drop checkpoints of finished trainings, return the finished."""
        records = self.finished()
        text = "".join(json.dumps(record) + "\n" for record in records.values())
        write_whole(self.path / "runs.jsonl", lambda partial: partial.write_text(text, encoding="utf-8"))
        for seed, method in records:
            shutil.rmtree(self.file("checkpoints", seed, method), ignore_errors=True)
        return records

    def finish(
        self, record: Mapping[str, Any], weights: Mapping[str, Tensor], scores: Mapping[str, NDArray[Any]]
    ) -> dict[str, Any]:
        """Store one finished training: weights and scores first, then its line, then its checkpoint goes."""
        save_file = extra("safetensors.torch", "experiments").save_file
        seed, method = int(record["seed"]), str(record["method"])
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
        write_whole(self.file("models", seed, method), lambda partial: save_file(tensors, partial))
        write_whole(self.file("scores", seed, method), lambda partial: _save_arrays(partial, scores))
        stored: dict[str, Any] = plain(record)
        with (self.path / "runs.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(stored, allow_nan=False) + "\n")
            file.flush()
            os.fsync(file.fileno())
        shutil.rmtree(self.file("checkpoints", seed, method), ignore_errors=True)
        return stored

    def weights(self, seed: int, method: str) -> dict[str, Tensor]:
        """Best weights of one training."""
        path = self.file("models", seed, method)
        if not path.is_file():
            raise InputError(f"Expected the weights of seed {seed}, {method}, at {path}, but there is no such file.")
        torch_files = extra("safetensors.torch", "experiments")
        try:
            loaded: dict[str, Tensor] = torch_files.load_file(path)
        except extra("safetensors", "experiments").SafetensorError as error:
            raise InputError(f"Expected {path} to be a safetensors file, but it cannot be read: {error}.") from error
        return loaded

    def scores(self, seed: int, method: str) -> dict[str, NDArray[Any]]:
        """Scores and labels of the validation and test sets of one training."""
        with np.load(self.file("scores", seed, method), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}


def _save_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    with path.open("wb") as file:  # a file handle, because np.savez appends .npz to a path
        np.savez_compressed(file, allow_pickle=False, **arrays)
