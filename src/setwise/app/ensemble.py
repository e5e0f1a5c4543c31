"""Ensembles: the mean of the models of all folds, of one candidate or of several under a stack.

>>> import numpy as np
>>> from setwise.app.scorers import LinearScorer
>>> one, other = LinearScorer.of(np.array([1.0]), 0.0), LinearScorer.of(np.array([3.0]), 0.0)
>>> ensemble = Ensemble({"logistic": (one, other)})
>>> ensemble.score(np.array([[1.0], [2.0]], np.float32))
array([2., 4.])
>>> Ensemble.of(ensemble.parts, ensemble.tensors, columns=1).score(np.ones((1, 1), np.float32))
array([2.])
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from setwise._checks import InputError
from setwise.app.scorers import Floats, Scorer, mean_score, scorer_of
from setwise.app.stack import Stack

STACK = "stack"
MOST_CANDIDATES, MOST_MODELS = 32, 64  # in a file


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Models of several folds and candidates, ready to score.

    Attributes:
        members: The models of each candidate, whose mean is its score.
        stack: How candidates are put together; None where there is only one.
    """

    members: Mapping[str, tuple[Scorer, ...]]
    stack: Stack | None = None

    def score(self, inputs: NDArray[np.float32]) -> Floats:
        """Logits of encoded rows.  # shape: (n,)."""
        logits = {name: mean_score(scorers, inputs) for name, scorers in self.members.items()}
        if self.stack is None:
            return next(iter(logits.values()))
        return self.stack.combine(np.stack([logits[name] for name in self.stack.names]))

    def of_fold(self, fold: int, inputs: NDArray[np.float32]) -> Floats:
        """Logits by the models of one fold, the stack's weights being those of all.  # shape: (n,)."""
        one = {name: (scorers[fold],) for name, scorers in self.members.items()}
        return Ensemble(one, self.stack).score(inputs)

    @property
    def tensors(self) -> dict[str, Tensor]:
        """All that it has learned, by name."""
        found = {
            f"{name}.{k}.{part}": tensor
            for name, scorers in self.members.items()
            for k, scorer in enumerate(scorers)
            for part, tensor in scorer.tensors.items()
        }
        return found | ({} if self.stack is None else {f"{STACK}.{k}": v for k, v in self.stack.tensors.items()})

    @property
    def parts(self) -> dict[str, Any]:
        """What the tensors are of: the kinds of each candidate's models, and the candidates of the stack."""
        kinds = {name: [scorer.kind for scorer in scorers] for name, scorers in self.members.items()}
        return {"members": kinds, STACK: None if self.stack is None else list(self.stack.names)}

    @classmethod
    def of(cls, parts: Mapping[str, Any], tensors: Mapping[str, Tensor], *, columns: int) -> Ensemble:
        """Rebuild it from what was stored, checked.

        Raises:
            InputError: When parts and tensors do not fit together, or are not of a model of so many columns.
        """
        kinds, stacked = parts["members"], parts[STACK]
        _check_parts(kinds, stacked)
        split: dict[str, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            owner, _, part = name.partition(".") if name.startswith(f"{STACK}.") else _owner(name)
            split.setdefault(owner, {})[part] = tensor
        wanted = {f"{name}.{k}" for name, own in kinds.items() for k in range(len(own))} | (
            {STACK} if stacked else set()
        )
        if split.keys() != wanted:
            odd = min(split.keys() ^ wanted)
            raise InputError(
                f"Expected the tensors of {sorted(wanted)!r:.200}, but {odd!r:.80} is missing or too many."
            )
        members = {
            name: tuple(scorer_of(kind, split[f"{name}.{k}"], columns) for k, kind in enumerate(own))
            for name, own in kinds.items()
        }
        return cls(members, Stack.of(stacked, split[STACK]) if stacked else None)


def _owner(name: str) -> tuple[str, str, str]:
    """``network.0.weight.1``: the model and the name of its tensor."""
    candidate, _, rest = name.partition(".")
    fold, sign, part = rest.partition(".")
    return f"{candidate}.{fold}", sign, part


def _check_parts(kinds: Any, stacked: Any) -> None:
    if not isinstance(kinds, dict) or not 1 <= len(kinds) <= MOST_CANDIDATES or STACK in kinds:
        raise InputError(f"Expected `members` to be 1 to {MOST_CANDIDATES} candidates, but got {kinds!r:.80}.")
    for name, own in kinds.items():
        usual = isinstance(name, str) and name.isidentifier() and isinstance(own, list)
        if not usual or not 1 <= len(own) <= MOST_MODELS or not all(isinstance(kind, str) for kind in own):
            raise InputError(f"Expected `members` to name the models of each candidate, but got {own!r:.80}.")
    if stacked is None:
        if len(kinds) > 1:
            raise InputError(f"Expected `{STACK}` to say how {len(kinds)} candidates are put together, but got None.")
    elif not isinstance(stacked, list) or sorted(map(str, stacked)) != sorted(kinds):
        raise InputError(f"Expected `{STACK}` to name the candidates, but got {stacked!r:.80}.")
