"""Stored trainings of a run of images: the record, weights and scores of each that is finished.

``runs.jsonl``
    One line per finished training, appended when its weights and scores are safe, with the checksums of both.
``models/*.safetensors``, ``scores/*.safetensors``
    Best weights, and the scores and labels of the validation and test sets.
``checkpoints/``
    The last checkpoint of the training in progress.

A training whose files are damaged is run again on resume.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from setwise._checks import extra
from setwise._files import DamagedFileError, append_line, damaged, write_bytes
from setwise.app.files import DIFFERS, contents_of, digest_of, parse_sealed, plain, sealed_json
from setwise.app.images.records import check_scores
from setwise.app.run_folder import PARTS, RECORDS, Record, RunFolder

_RUN_AGAIN = "this training is run again"

Key = tuple[int, str]


class TrainingStore:
    """The trainings of one run.

    Args:
        folder: The run.
    """

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder

    def file(self, kind: str, seed: int, method: str) -> Path:
        """Path of the ``models``, ``scores`` or ``checkpoints`` entry of one training."""
        stem = f"seed{seed}-{re.sub(r'[^a-z0-9_]+', '-', method.lower()).strip('-')}"
        return self.folder.path / kind / (stem + (".safetensors" if kind in PARTS else ""))

    def repair(self, wanted: Sequence[Key], check: Callable[[Record], None]) -> tuple[dict[Key, Record], list[str]]:
        """Drop what cannot be used, so that it is computed again.

        ``runs.jsonl`` is written anew without broken lines and without the trainings whose files are damaged;
        checkpoints of finished trainings and files that a kill has left unfinished are removed.

        Args:
            wanted: All trainings by seed and method.
            check: Refuses a record whose content cannot be one, by an InputError.

        Returns:
            The records of the finished trainings by seed and method, and what is run again and why, in sentences.
        """
        self.folder.remove_partial()
        path = self.folder.path / RECORDS
        content = path.read_bytes() if path.is_file() else b""
        # A line that cannot be read hides of which training it is, so missing lines are then no second fault.
        lines, notes = self._read_lines(content, wanted, check)
        broken, records, kept = bool(notes), {}, b""
        for key in wanted:
            if key in lines:
                records[key], text = lines[key]
                try:
                    self.verify(records[key])
                    self.weights(*key)
                    self.scores(*key)
                except DamagedFileError as error:
                    notes.append(_sentence(error))
                    del records[key]
                    continue
                kept += text + b"\n"
                shutil.rmtree(self.file("checkpoints", *key), ignore_errors=True)
            elif not broken and any(self.file(kind, *key).is_file() for kind in PARTS):
                notes.append(f"{path} has no line of seed {key[0]}, {key[1]}: this training is run again.")
        # An undamaged file is left as it is, to the last byte.
        if kept != content:
            write_bytes(path, kept)
        return records, notes

    def _read_lines(
        self, content: bytes, wanted: Sequence[Key], check: Callable[[Record], None]
    ) -> tuple[dict[Key, tuple[Record, bytes]], list[str]]:
        """Whole lines of ``runs.jsonl`` with their records, and what is wrong with the others."""
        path, found, notes = self.folder.path / RECORDS, {}, []
        for number, line in enumerate(content.split(b"\n"), start=1):
            if not line:
                continue
            place = path.with_name(f"{path.name}, line {number}")
            try:
                record = parse_sealed(line + b"\n", place, _RUN_AGAIN)
                with contents_of(place, _RUN_AGAIN):
                    check(record)
                key = record["seed"], record["method"]
                if key not in wanted:
                    raise damaged(place, f"the run has no seed {key[0]}, {key[1]}", _RUN_AGAIN)
                if key in found:
                    notes.append(f"{place} is damaged (it repeats seed {key[0]}, {key[1]}): it is left out.")
                else:
                    found[key] = record, line
            except DamagedFileError as error:
                notes.append(_sentence(error))
        return found, notes

    def verify(self, record: Mapping[str, Any], advice: str = "") -> None:
        """Refuse the files of a training that are missing or have another checksum than its record says."""
        advice = advice or _RUN_AGAIN
        for kind in PARTS:
            path = self.file(kind, record["seed"], record["method"])
            if not path.is_file():
                raise damaged(path, "there is no such file", advice)
            if digest_of(path) != record["files"][kind]:
                raise damaged(path, DIFFERS if path.stat().st_size else "it is empty", advice)

    def finish(
        self, record: Mapping[str, Any], weights: Mapping[str, Tensor], scores: Mapping[str, NDArray[Any]]
    ) -> Record:
        """Store one finished training: weights and scores first, then its line, then its checkpoint goes."""
        seed, method = int(record["seed"]), str(record["method"])
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
        arrays = {name: np.ascontiguousarray(array) for name, array in scores.items()}
        digests = {}
        for kind, content in (
            ("models", extra("safetensors.torch", "cli").save(tensors)),
            ("scores", extra("safetensors.numpy", "cli").save(arrays)),
        ):
            write_bytes(self.file(kind, seed, method), content)
            digests[kind] = hashlib.sha256(content).hexdigest()
        stored: Record = plain(record) | {"files": digests}
        # After the files: a kill in between costs this training again, and never leaves a record without its files.
        append_line(self.folder.path / RECORDS, sealed_json(stored, indent=None))
        shutil.rmtree(self.file("checkpoints", seed, method), ignore_errors=True)
        return stored

    def weights(self, seed: int, method: str) -> dict[str, Tensor]:
        """Best weights of one training."""
        loaded: dict[str, Tensor] = self._read("models", seed, method, "torch")
        for name, tensor in loaded.items():
            # A checksum that is right does not say that the content makes sense.
            if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
                why = f"it holds no finite weights, but NaN or infinity in {name}"
                raise damaged(self.file("models", seed, method), why, self.folder.again)
        return loaded

    def scores(self, seed: int, method: str) -> dict[str, NDArray[Any]]:
        """Scores and labels of the validation and test sets of one training."""
        arrays: dict[str, NDArray[Any]] = self._read("scores", seed, method, "numpy")
        with contents_of(self.file("scores", seed, method), self.folder.again):
            check_scores(arrays)
        return arrays

    def _read(self, kind: str, seed: int, method: str, library: str) -> Any:
        """The tensors or arrays of a file, by name."""
        path = self.file(kind, seed, method)
        if not path.is_file():
            raise damaged(path, "there is no such file", self.folder.again)
        try:
            with contents_of(path, self.folder.again):
                return extra(f"safetensors.{library}", "cli").load(path.read_bytes())
        except extra("safetensors", "cli").SafetensorError as error:
            raise damaged(path, f"it is no safetensors file ({error})", self.folder.again) from error


def _sentence(error: DamagedFileError) -> str:
    return f"{error.path} is damaged ({error.why}): {_RUN_AGAIN}."
