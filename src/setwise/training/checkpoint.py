"""Checkpoint of a training, which can be killed at any moment and goes on from it bit for bit.

    checkpoint = Checkpoint("run.pt", model=model, optimizer=optimizer, term=term, ascent=ascent, sampler=sampler)
    checkpoint.load()  # False where there is none yet
    while sampler.epoch < epochs:
        for x, y, shape, index in sampler.track(loader):
            ...
            checkpoint.save(every=50)
        ascent.epoch_end()

Everything that has ``state_dict`` and ``load_state_dict`` can be part of it: models, optimizers, schedulers, terms with
their multipliers, samplers. The state of torch's random numbers is always saved, so that dropout goes on as it would
have. The file is torch's own with a checksum at its end: ``torch.load`` reads it too, and a damaged one is noticed.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from pathlib import Path
from typing import IO, Any

import torch

from setwise import _checks
from setwise._files import damaged, write_whole

_MAGIC = b"setwise checkpoint sha256:"
_TRAILER = len(_MAGIC) + hashlib.sha256().digest_size
_ADVICE = "delete it to train from the beginning"
_UNREADABLE = (RuntimeError, ValueError, TypeError, LookupError, AttributeError, EOFError, pickle.UnpicklingError)


class Checkpoint:
    """The states of several objects in one file, written atomically and read without unpickling code.

    Args:
        path: The file. While it is written, a hidden one with ``.partial`` appended stands beside it.
        objects: What is saved, by name; each with ``state_dict`` and ``load_state_dict``.

    >>> import tempfile
    >>> model = torch.nn.Linear(1, 1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checkpoint = Checkpoint(Path(folder) / "run.pt", model=model)
    ...     found = checkpoint.load()
    ...     checkpoint.save()
    ...     found, checkpoint.load()
    (False, True)
    """

    def __init__(self, path: str | os.PathLike[str], **objects: Any) -> None:
        self.path = Path(path)
        for name, value in objects.items():
            if not (hasattr(value, "state_dict") and hasattr(value, "load_state_dict")):
                raise TypeError(f"Expected `{name}` to have a state_dict, but got {type(value).__name__}.")
        self.objects = objects
        self._calls = 0

    def save(self, *, every: int = 1) -> None:
        """Write the file, at every call or at every ``every``-th one. A run killed meanwhile keeps the file before.

        Raises:
            OSError: With the file's name, when the disk is full; the file before stays.
        """
        _checks.is_count("every", every)
        self._calls += 1
        if self._calls % every:
            return
        state = {name: value.state_dict() for name, value in self.objects.items()}
        random = {"cpu": torch.get_rng_state()}
        if torch.cuda.is_available():
            random |= {f"cuda:{k}": value for k, value in enumerate(torch.cuda.get_rng_state_all())}
        saved = {"objects": state, "random": random, "calls": self._calls}
        write_whole(self.path, lambda partial: _write(saved, partial))

    def load(self) -> bool:
        """Take up the saved state; False where there is no file.

        Raises:
            InputError: When the file is damaged, or holds other states; the objects may then be half loaded.
        """
        if not self.path.exists():
            return False
        _verify(self.path)
        try:
            saved = torch.load(self.path, weights_only=True, map_location="cpu")
            names, calls = set(saved["objects"]), int(saved["calls"])
        except _UNREADABLE as error:
            raise damaged(self.path, f"it cannot be read: {error}"[:200], _ADVICE) from error
        if names != self.objects.keys():
            wanted, found = (", ".join(sorted(objects)) for objects in (self.objects, names))
            raise _checks.InputError(
                f"Expected `path` to hold the states of {wanted}, but {self.path} holds those of {found}."
            )
        try:
            self._take_up(saved)
        except _UNREADABLE as error:
            raise damaged(self.path, f"its states do not fit: {error}"[:200], _ADVICE) from error
        self._calls = calls
        return True

    def _take_up(self, saved: dict[str, Any]) -> None:
        for name, value in self.objects.items():
            value.load_state_dict(saved["objects"][name])
        for device, state in saved["random"].items():
            if device == "cpu":
                torch.set_rng_state(state)
            elif torch.cuda.is_available():
                torch.cuda.set_rng_state(state, device)


class _Hashing:
    """A file to write to that takes the checksum on the way, and remembers why a write failed: torch does not say."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.digest = hashlib.sha256()
        self.error: OSError | None = None

    def write(self, content: Any) -> int:
        try:
            self.file.write(content)
        except OSError as error:
            self.error = error
            raise
        self.digest.update(content)
        return memoryview(content).nbytes

    def flush(self) -> None:
        self.file.flush()


def _write(saved: dict[str, Any], path: Path) -> None:
    with path.open("wb") as file:
        hashing = _Hashing(file)
        try:
            torch.save(saved, hashing)  # type: ignore[arg-type]  # it needs no more than `write` and `flush`
        except RuntimeError as error:
            if hashing.error is None:
                raise
            raise hashing.error from error
        file.write(_MAGIC + hashing.digest.digest())


def _verify(path: Path) -> None:
    """Refuse a file whose checksum is missing or wrong."""
    left, digest = path.stat().st_size - _TRAILER, hashlib.sha256()
    if left <= 0:
        raise damaged(path, "it is empty or cut off", _ADVICE)
    with path.open("rb") as file:
        while left > 0 and (part := file.read(min(left, 1 << 20))):
            digest.update(part)
            left -= len(part)
        trailer = file.read()
    if trailer != _MAGIC + digest.digest():
        raise damaged(path, "its checksum differs", _ADVICE)
