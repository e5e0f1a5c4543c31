"""Finished fits on disk: one file for each candidate, fold and class, so that a run goes on where it was stopped.

A file holds the tensors of the scorer and its logits of the rows that the fold holds out, with a checksum. One that is
damaged, or of another run, is left out and fitted again.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from setwise._checks import InputError, all_finite, in_range
from setwise._files import DamagedFileError, damaged, write_bytes
from setwise.app.cross_fit import FoldResult
from setwise.app.files import contents_of
from setwise.app.folds import Folds
from setwise.app.run_folder import check_place
from setwise.app.scorers import scorer_of
from setwise.app.tensor_file import read_tensors, sealed_tensors

FORMAT = 2
LOGITS = "logits"
_PART = "scorer."
_ADVICE = "it is fitted again"
_LONGEST = 1e9  # seconds


class FitStore:
    """The fits of one run.

    Args:
        folder: Where their files are.
        folds: The folds.
        columns: Encoded columns.
        notes: Told, a sentence each, which files are damaged.
        number: Of the class that the fits tell from the others, where there are several.
        advice: What to do where a file is missing or damaged, for :meth:`read`.
        run: Identity of the run, which its fits carry; None to take those of any run.
    """

    def __init__(
        self,
        folder: Path,
        folds: Folds,
        columns: int,
        notes: Callable[[str], object] = lambda _: None,
        number: int | None = None,
        *,
        advice: str = _ADVICE,
        run: str | None = None,
    ) -> None:
        self.folder, self.folds, self.columns, self.notes = folder, folds, columns, notes
        self.number, self.advice, self.run = number, advice, run

    def path(self, candidate: str, fold: int) -> Path:
        """The file of one fit."""
        of_class = "" if self.number is None else f"-class{self.number}"
        return self.folder / f"{candidate}{of_class}-{fold}.safetensors"

    def load(self, candidate: str, fold: int) -> FoldResult | None:
        """The fit that is stored, or None.

        Raises:
            InputError: When something else is in its place.
            OSError: When it cannot be read.
        """
        path = self.path(candidate, fold)
        # A folder of that name is somebody's: it is said before hours are spent.
        check_place(path)
        if not path.is_file():
            return None
        try:
            return self.read(candidate, fold)
        except DamagedFileError as error:
            self.notes(f"{path} is damaged ({error.why}): it is fitted again.")
        except InputError as error:  # of another format, or no file of ours
            said = str(error)
            self.notes(said if said.endswith(f"{_ADVICE}.") else f"{said} So {_ADVICE}.")
        return None

    def read(self, candidate: str, fold: int) -> FoldResult:
        """The fit that is stored.

        Raises:
            InputError: When its file is missing or damaged.
        """
        path = self.path(candidate, fold)
        if not path.is_file():
            raise damaged(path, "there is no such file", self.advice)
        state, tensors = read_tensors(path, "a fit", format_=FORMAT, advice=self.advice)
        with contents_of(path, self.advice):
            # A whole file may have been copied to another name.
            if (state["candidate"], state["fold"], state.get("class")) != (candidate, fold, self.number):
                raise InputError("it is of another candidate, fold or class")
            # Of another run it may have learned from the rows that it is to score.
            if self.run is not None and state["run"] != self.run:
                raise InputError("it is of another run")
            logits = tensors.pop(LOGITS).numpy()
            if logits.shape != (int(self.folds.held[fold].sum()),) or logits.dtype != np.float32:
                raise InputError(f"its logits are of shape {logits.shape}")
            all_finite(LOGITS, logits)
            in_range("seconds", state["seconds"], 0, _LONGEST)
            own = {name.removeprefix(_PART): tensor for name, tensor in tensors.items()}
            scorer = scorer_of(state["kind"], own, self.columns)
            return FoldResult(candidate, fold, scorer, logits, float(state["seconds"]))

    def save(self, result: FoldResult) -> None:
        """Store a finished fit, as a whole."""
        state: dict[str, Any] = {
            "format": FORMAT,
            "run": self.run,
            "candidate": result.candidate,
            "fold": result.fold,
            "kind": result.scorer.kind,
            "seconds": result.seconds,
        } | ({} if self.number is None else {"class": self.number})
        tensors = {f"{_PART}{name}": tensor for name, tensor in result.scorer.tensors.items()}
        content = sealed_tensors(tensors | {LOGITS: torch.from_numpy(result.logits)}, state)
        write_bytes(self.path(result.candidate, result.fold), content)
