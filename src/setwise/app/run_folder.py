"""Folder of a run, of a table or of images: it can be stopped at any moment and gone on with.

``settings.json``
    The settings, a fingerprint of the data, and whether the run is of a table or of images.
``fits/*.safetensors``
    Of a table: every candidate fitted for every fold, see :mod:`setwise.app.fit_store`.
``runs.jsonl``, ``models/*.safetensors``, ``scores/*.safetensors``, ``checkpoints/``
    Of images: what each training has left, see :mod:`setwise.app.images.training_store`.
``model.safetensors``, ``results.json``, ``report.html``
    Written at the end; the model, of a table, is for ``setwise predict``.
``.lock``
    Held by the process that is at work here.

Every file but ``runs.jsonl`` is written beside its place and moved into it, so it is there as a whole or not at all.
JSON, each line of ``runs.jsonl``, the model and the page carry checksums of their own. What a disk or a hand has
damaged is noticed when it is read; what can be computed again is, on resume.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from setwise._checks import InputError
from setwise._files import PARTIAL, damaged, is_intact
from setwise.app import run_lock
from setwise.app.files import DIFFERS, digest_of, read_json, write_json

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
        """Whether a run was started here; one damaged file does not change that."""
        if run_lock.is_marked(self.path):
            return True
        # One file of ours that is whole is enough: the others may be damaged.
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
        # The lock is on an open file: taken twice in one process, it would refuse ourselves.
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

    def create(self, job: str, settings: Mapping[str, Any], fingerprint: str, *, overwrite: bool = False) -> None:
        """Start a run anew in an empty folder, or in place of an earlier run when asked to.

        Args:
            job: Of a ``"table"`` or of ``"images"``.
            settings: Its settings, as plain values.
            fingerprint: Of its data.
            overwrite: Whether an earlier run may be replaced.
        """
        self.check_free(overwrite=overwrite)
        # What else is in the folder, such as notes, stays.
        if self.is_run:
            self._clear()
        stored = {"format": FORMAT, "job": job, "data": fingerprint, "settings": settings}
        write_json(self.path / _SETTINGS, stored)

    def check_free(self, *, overwrite: bool) -> None:
        """Refuse a folder that holds something; ``overwrite`` allows an earlier run, and nothing else."""
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
        """Remove what a run writes, and nothing else; the settings last, so a kill leaves a known folder."""
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
        # Of another format nothing can be said about its job, which comes next.
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
        found = read_json(path, self.again)
        if found.get("format") != FORMAT:
            raise damaged(path, f"its format is {found.get('format')!r:.40} and not {FORMAT}", self.again)
        return found

    @property
    def again(self) -> str:
        """What to do where a file that follows from others is damaged."""
        return f"write it again with: {self.resuming}"

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
        # A run that was stopped before its end has none of them, which is no damage.
        expected = all_done or any(path.is_file() for path in paths)
        notes = []
        for path in paths:
            if path.is_file() and not is_intact(path.read_bytes()):
                notes.append(f"{path} is damaged ({DIFFERS}): it is written again.")
            elif expected and not path.exists():
                notes.append(f"{path} is missing: it is written again.")
        return notes


def check_place(path: Path) -> None:
    """Refuse a folder where a file is to be written: it is not ours to remove."""
    if path.is_dir():
        raise InputError(f"Expected {path} to be a file, but it is a folder; move it away.")


def _is_leftover(entry: Path) -> bool:
    """Whether it is a file that an earlier command may leave in a folder without having started a run."""
    return entry.name == run_lock.FILE or (entry.name.startswith(".") and entry.name.endswith(PARTIAL))
