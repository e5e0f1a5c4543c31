"""Settings of the main job: everything that decides which model ``setwise train`` makes of a table.

How many processes work side by side, and how long they may, is not among them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from setwise._checks import InputError, in_range
from setwise.app.candidates import CANDIDATES
from setwise.app.constrained import CONSTRAINED
from setwise.app.run_folder import TABLE
from setwise.app.run_settings import RunSettings
from setwise.app.setting_checks import check_count, check_points, check_text, read_texts
from setwise.app.table_constraints import check_text as check_constraint
from setwise.data._files import near_match

CONFIDENCE = 0.95  # of constraints, unless told otherwise
MOST_FOLDS, MOST_SEED, MOST_NUMBER = 50, 2**31 - 1, 1e300
_ROLES = {  # settings that name columns which are no inputs
    "weight": "sample weight",
    "split": "says which rows train and test",
    "time_column": "orders the rows in time",
    "group_folds": "keeps rows in one fold",
}


@dataclass(frozen=True)
class TrainSettings(RunSettings):
    """What to train, on what, for which measure and under which constraints.

    Args:
        measure: The measure that chooses among the candidates, and that some of them are trained on.
        data: Path of the table; empty for a frame.
        target: Target column; None for the last.
        positive: Its positive value; None for the usual or the rarer one.
        group: Columns by whose values results are broken down; they stay inputs unless dropped.
        weight: Column of sample weights; no input.
        split: Column that says train or test; rows of the test set are only evaluated.
        drop: Columns that are no inputs.
        use: Columns that are inputs even if they look like identifiers.
        subject_to: Constraints on rates, such as ``"recall>=0.8"`` or ``"recall[group=sex]>=0.8"``.
        confidence: With which they are certified to hold on new data; 0 for on these rows only.
        max_weight: A bound on the sample weights of all rows, seen and unseen; needed to certify with weights.
        time_column: Column that orders the rows: each fold is learned from earlier ones. No input unless in ``use``.
        group_folds: Column of patients, sites and the like, whose rows stay in one fold. No input unless in ``use``.
        models: Candidates by name; empty for all.
        folds: Of the cross-fitting.
        seed: Of folds, fits and draws.
    """

    job: ClassVar[str] = TABLE
    lists: ClassVar[tuple[str, ...]] = ("group", "drop", "use", "subject_to", "models")

    target: str | None = None
    positive: str | int | None = None
    group: tuple[str, ...] = ()
    weight: str | None = None
    split: str | None = None
    drop: tuple[str, ...] = ()
    use: tuple[str, ...] = ()
    subject_to: tuple[str, ...] = ()
    confidence: float = CONFIDENCE
    max_weight: float | None = None
    time_column: str | None = None
    group_folds: str | None = None
    models: tuple[str, ...] = ()
    folds: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("measure", "data", "target", *_ROLES):
            check_text(name, getattr(self, name))
        if not isinstance(self.positive, int) or isinstance(self.positive, bool):
            check_text("positive", self.positive)
        check_points("measure", self.measure)
        for name in self.lists:  # JSON has lists, a frozen value needs tuples
            object.__setattr__(self, name, read_texts(name, getattr(self, name)))
        for text in self.subject_to:
            check_constraint(text)
        in_range("confidence", self.confidence, 0, 1, open_high=True)
        if self.max_weight is not None:
            in_range("max_weight", self.max_weight, 0, MOST_NUMBER, open_low=True)
        known = [*CANDIDATES, CONSTRAINED]
        for name in self.models:
            if name not in known:
                hint = near_match(name[:80], known)
                raise InputError(f"Expected `models` among {', '.join(known)}, but got {name!r:.80}{hint}.")
        check_count("folds", self.folds, MOST_FOLDS, least=2)
        check_count("seed", self.seed, MOST_SEED, least=0)
        if self.time_column is not None and self.group_folds is not None:
            raise InputError(
                "Expected `time_column` or `group_folds`, but got both: order folds by time, or keep groups together."
            )
        self._check_roles()
        if self.parsed_measure().layout != "binary":
            raise InputError(
                "Expected `measure` to be one of two classes, such as 'auc', 'ap' or 'f1' (with several classes its "
                f"macro average is taken), but got {self.measure!r}."
            )

    def _check_roles(self) -> None:
        """A column has one part to play."""
        taken: dict[str, str] = {}
        for role in _ROLES:
            name = getattr(self, role)
            if name is not None and name in taken:
                raise InputError(f"Expected different columns, but {name!r} is `{taken[name]}` and `{role}`.")
            if name is not None:
                taken[name] = role
        for name in self.use:
            if name in self.drop:
                raise InputError(f"Expected a column in `use` or in `drop`, but {name!r} is in both.")

    @property
    def parts(self) -> dict[str, str]:
        """The part of each column that has one, other than that of an input or the target."""
        return {name: part for role, part in _ROLES.items() if (name := getattr(self, role)) is not None}

    @property
    def floors(self) -> tuple[str, ...]:
        """All constraints: those asked for, and that of the measure where it has one."""
        own = self.parsed_measure().subject_to
        return (*self.subject_to, *(() if own is None else (own,)))
