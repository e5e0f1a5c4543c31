"""A run on disk: a folder that can be stopped at any moment and gone on with.

``settings.json``
    The settings, a fingerprint of the data, and whether the run is of a table or of images.
``fits/*.safetensors``
    Of a table: every candidate fitted for every fold, see :mod:`setwise.app.fit_store`. The next three are of images.
``runs.jsonl``
    One line per finished training, appended when its weights and scores are safe, with the checksums of both.
``models/*.safetensors``, ``scores/*.npz``
    Best weights, and the scores and labels of the validation and test sets.
``checkpoints/``
    The last checkpoint of the training in progress.
``model.safetensors``, ``results.json``, ``report.html``
    Written at the end; the model, of a table, is for ``setwise predict``.
``.lock``
    Held by the process that is at work here.

Every file but ``runs.jsonl`` is written beside its place and moved into it, so it is there as a whole or not at all.
JSON, each line of ``runs.jsonl``, the model and the page carry checksums of their own. What a disk or a hand has
damaged is noticed when it is read; a training whose files are damaged is run again on resume.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from torch import Tensor

from setwise._checks import InputError, extra
from setwise._files import PARTIAL, DamagedFileError, append_line, damaged, is_intact, write_bytes
from setwise.app import run_lock
from setwise.app.files import (
    DIFFERS,
    contents_of,
    digest_of,
    parse_sealed,
    plain,
    read_json,
    sealed_json,
    write_json,
)
from setwise.app.scores_file import arrays_of_bytes, arrays_to_bytes, check_scores

FORMAT = 5  # of settings.json and results.json; raised when they change their meaning
RESULTS, REPORT, MODEL = "results.json", "report.html", "model.safetensors"
PARTS = ("models", "scores")
RECORDS = "runs.jsonl"
_SETTINGS = "settings.json"
_FILES = (_SETTINGS, RECORDS, MODEL, RESULTS, REPORT)
FITS = "fits"
_FOLDERS = (*PARTS, "checkpoints", FITS)
TABLE, IMAGES = "table", "images"  # what a run may be of
_OURS = (b'"format":', b'"data":', b'"settings":')  # what settings have had before there were checksums
_RUN_AGAIN = "this training is run again"
_ENDINGS = {"models": ".safetensors", "scores": ".npz", "checkpoints": ""}

Key = tuple[int, str]
Record = dict[str, Any]


class RunFolder:
    """The folder of one run.

    Args:
        path: The folder; it need not exist yet.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._held = False

    @property
    def is_run(self) -> bool:
        """Whether a comparison was started here; one damaged file does not change that."""
        if run_lock.is_marked(self.path):
            return True
        found = (path.read_bytes() for name in _FILES if (path := self.path / name).is_file())
        return any(is_intact(content) or all(part in content for part in _OURS) for content in found)

    @property
    def resuming(self) -> str:
        """The command that computes what is missing here."""
        return f"setwise train --out {self.path} --resume"

    @contextlib.contextmanager
    def locked(self, *, create: bool) -> Iterator[None]:
        """Keep others from writing here.

        Args:
            create: Make the folder where there is none; without it only the folder of a run is locked.

        Raises:
            InputError: When another process is at work here.
        """
        if self._held or not (create or self.is_run):
            yield
            return
        self.path.mkdir(parents=True, exist_ok=True)
        with run_lock.locked(self.path):
            self._held = True
            try:
                yield
            finally:
                self._held = False

    def file(self, kind: str, seed: int, method: str) -> Path:
        """Path of the ``models``, ``scores`` or ``checkpoints`` entry of one training."""
        stem = f"seed{seed}-{re.sub(r'[^a-z0-9_]+', '-', method.lower()).strip('-')}"
        return self.path / kind / (stem + _ENDINGS[kind])

    def create(
        self, settings: Mapping[str, Any], fingerprint: str, *, overwrite: bool = False, job: str = IMAGES
    ) -> None:
        """Start anew in an empty folder, or in place of an earlier run when asked to."""
        self.check_free(overwrite=overwrite)
        if self.is_run:
            self._clear()
        stored = {"format": FORMAT, "job": job, "data": fingerprint, "settings": settings}
        write_json(self.path / _SETTINGS, stored)

    def check_free(self, *, overwrite: bool) -> None:
        """Refuse a folder that holds something; ``overwrite`` allows an earlier comparison, and nothing else."""
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"Expected `out` to be a folder, but {self.path} is a file.")
        if not self.path.exists() or all(_is_leftover(entry) for entry in self.path.iterdir()):
            return
        if not self.is_run:
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
        self.remove_partial()

    def remove_partial(self) -> None:
        """Remove files that a kill has kept from being finished."""
        for folder in (self.path, *(self.path / name for name in (*PARTS, FITS))):
            for partial in folder.glob(f".*{PARTIAL}"):
                partial.unlink(missing_ok=True)

    @property
    def job(self) -> str:
        """Whether the run is of a ``"table"`` or of ``"images"``.

        Raises:
            InputError: When this is no run, or its settings are damaged.
        """
        self.settings()
        return str(read_json(self.path / _SETTINGS, "").get("job"))

    def settings(self) -> tuple[Record, str]:
        """The stored settings as plain values, and the fingerprint of the data."""
        path = self.path / _SETTINGS
        if not path.is_file():
            raise InputError(f"Expected {self.path} to be the folder of a run, but it has no {_SETTINGS}.")
        stored = read_json(path, "it cannot be computed again, so start anew with --overwrite or another --out")
        values, fingerprint = stored.get("settings"), stored.get("data")
        if stored.get("format") == FORMAT and stored.get("job") not in (TABLE, IMAGES):
            raise InputError(f"Expected {path} to be of a table or images, but its job is {stored.get('job')!r:.40}.")
        if stored.get("format") != FORMAT or not isinstance(values, dict) or not isinstance(fingerprint, str):
            raise InputError(
                f"Expected {path} to hold settings in format {FORMAT}, but its format is {stored.get('format')!r:.40}; "
                "start anew with --overwrite or another --out."
            )
        return values, fingerprint

    @property
    def identity(self) -> str:
        """What tells this run from others: the checksum of its settings, which name its data too."""
        return digest_of(self.path / _SETTINGS)

    def results(self) -> Record:
        """What ``results.json`` holds."""
        path = self.path / RESULTS
        if not path.is_file():
            raise InputError(
                f"Expected {self.path} to be a finished run, but it has no {RESULTS}; finish it with: {self.resuming}"
            )
        found = read_json(path, self._again)
        if found.get("format") != FORMAT:
            raise damaged(path, f"its format is {found.get('format')!r:.40} and not {FORMAT}", self._again)
        return found

    @property
    def _again(self) -> str:
        return f"write it again with: {self.resuming}"

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
        self.remove_partial()
        path = self.path / RECORDS
        content = path.read_bytes() if path.is_file() else b""
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
        if kept != content:
            write_bytes(path, kept)
        return records, notes

    def _read_lines(
        self, content: bytes, wanted: Sequence[Key], check: Callable[[Record], None]
    ) -> tuple[dict[Key, tuple[Record, bytes]], list[str]]:
        """Whole lines of ``runs.jsonl`` with their records, and what is wrong with the others."""
        path, found, notes = self.path / RECORDS, {}, []
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

    def damaged_outputs(self, names: Sequence[str], *, all_done: bool) -> list[str]:
        """What is wrong with the files that are written at the end, in sentences; they are written again anyway.

        Args:
            names: Those that the run has once it is finished.
            all_done: Whether all trainings were finished, so that the files should be there.

        Raises:
            InputError: When something else is in the place of one.
        """
        paths = [self.path / name for name in names]
        for path in paths:
            check_place(path)
        expected = all_done or any(path.is_file() for path in paths)
        notes = []
        for path in paths:
            if path.is_file() and not is_intact(path.read_bytes()):
                notes.append(f"{path} is damaged ({DIFFERS}): it is written again.")
            elif expected and not path.exists():
                notes.append(f"{path} is missing: it is written again.")
        return notes

    def finish(
        self, record: Mapping[str, Any], weights: Mapping[str, Tensor], scores: Mapping[str, NDArray[Any]]
    ) -> Record:
        """Store one finished training: weights and scores first, then its line, then its checkpoint goes."""
        save = extra("safetensors.torch", "experiments").save
        seed, method = int(record["seed"]), str(record["method"])
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
        digests = {}
        for kind, content in (("models", save(tensors)), ("scores", arrays_to_bytes(scores))):
            write_bytes(self.file(kind, seed, method), content)
            digests[kind] = hashlib.sha256(content).hexdigest()
        stored: Record = plain(record) | {"files": digests}
        append_line(self.path / RECORDS, sealed_json(stored, indent=None))
        shutil.rmtree(self.file("checkpoints", seed, method), ignore_errors=True)
        return stored

    def weights(self, seed: int, method: str) -> dict[str, Tensor]:
        """Best weights of one training."""
        path = self.file("models", seed, method)
        if not path.is_file():
            raise damaged(path, "there is no such file", self._again)
        try:
            loaded: dict[str, Tensor] = extra("safetensors.torch", "experiments").load(path.read_bytes())
        except extra("safetensors", "experiments").SafetensorError as error:
            raise damaged(path, f"it is no safetensors file ({error})", self._again) from error
        for name, tensor in loaded.items():
            if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
                raise damaged(path, f"it holds no finite weights, but NaN or infinity in {name}", self._again)
        return loaded

    def scores(self, seed: int, method: str) -> dict[str, NDArray[Any]]:
        """Scores and labels of the validation and test sets of one training."""
        path = self.file("scores", seed, method)
        if not path.is_file():
            raise damaged(path, "there is no such file", self._again)
        with contents_of(path, self._again):
            arrays = arrays_of_bytes(path.read_bytes())
            check_scores(arrays)
        return arrays


def check_place(path: Path) -> None:
    """Refuse a folder where a file is to be written: it is not ours to remove."""
    if path.is_dir():
        raise InputError(f"Expected {path} to be a file, but it is a folder; move it away.")


def _sentence(error: DamagedFileError) -> str:
    return f"{error.path} is damaged ({error.why}): {_RUN_AGAIN}."


def _is_leftover(entry: Path) -> bool:
    """Whether it is a file that an earlier command may leave in a folder without having started a run."""
    return entry.name == run_lock.FILE or (entry.name.startswith(".") and entry.name.endswith(PARTIAL))
