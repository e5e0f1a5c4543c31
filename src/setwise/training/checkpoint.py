"""A training that can be killed at any moment and goes on, bit for bit, from its last checkpoint.

    checkpoint = Checkpoint("run.pt", model=model, optimizer=optimizer, term=term, ascent=ascent, sampler=sampler)
    checkpoint.load()  # False where there is none yet
    while sampler.epoch < epochs:
        for x, y, shape, index in sampler.track(loader):
            ...
            checkpoint.save(every=50)
        ascent.epoch_end()

Everything that has ``state_dict`` and ``load_state_dict`` can be part of it: models, optimizers, schedulers, terms with
their multipliers, samplers. The state of torch's random numbers is always saved, so that dropout goes on as it would
have.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from setwise import _checks


class Checkpoint:
    """The states of several objects in one file, written atomically and read without unpickling code.

    Args:
        path: The file. While it is written, a second one with ``.part`` appended stands beside it.
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
        """Write the file, at every call or at every ``every``-th one. A run killed meanwhile keeps the file before."""
        _checks.is_count("every", every)
        self._calls += 1
        if self._calls % every:
            return
        state = {name: value.state_dict() for name, value in self.objects.items()}
        random = {"cpu": torch.get_rng_state()}
        if torch.cuda.is_available():
            random |= {f"cuda:{k}": value for k, value in enumerate(torch.cuda.get_rng_state_all())}
        part = self.path.with_name(self.path.name + ".part")
        with part.open("wb") as file:
            torch.save({"objects": state, "random": random, "calls": self._calls}, file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(self.path)

    def load(self) -> bool:
        """Take up the saved state; False where there is no file."""
        if not self.path.exists():
            return False
        saved = torch.load(self.path, weights_only=True, map_location="cpu")
        lacking, unknown = self.objects.keys() - saved["objects"].keys(), saved["objects"].keys() - self.objects.keys()
        if lacking or unknown:
            wanted, names = (", ".join(sorted(objects)) for objects in (self.objects, saved["objects"]))
            raise _checks.InputError(
                f"Expected `path` to hold the states of {wanted}, but {self.path} holds those of {names}."
            )
        for name, value in self.objects.items():
            value.load_state_dict(saved["objects"][name])
        for device, state in saved["random"].items():
            if device == "cpu":
                torch.set_rng_state(state)
            elif torch.cuda.is_available():
                torch.cuda.set_rng_state(state, device)
        self._calls = int(saved["calls"])
        return True
