"""Settings of a run, of a table or of images: as plain values, read from its folder, compared on resume."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self, TypeVar

from setwise._checks import InputError
from setwise.app.files import WRONG_CONTENT
from setwise.app.run_folder import IMAGES, TABLE, RunFolder
from setwise.measures import Measure, parse
from setwise.training.recipe import check_settings

_SHOWN = {TABLE: "a table", IMAGES: "images"}


@dataclass(frozen=True)
class RunSettings:
    """Base of the settings of a run; subclasses are frozen dataclasses that add their own.

    Args:
        measure: Name of the measure to train for.
        data: Where the data is.
    """

    job: ClassVar[str]
    lists: ClassVar[tuple[str, ...]] = ()  # settings that are tuples here and lists in JSON

    measure: str = "auc"
    data: str = ""

    def parsed_measure(self) -> Measure:
        """The measure itself."""
        return parse(self.measure)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        # JSON gives lists back, and settings are compared with what was read.
        return asdict(self) | {name: list(getattr(self, name)) for name in self.lists}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Settings from plain values; a missing one gets its default, an unknown one is refused.

        Raises:
            InputError: When a setting is unknown, or its value is not allowed.
        """
        cls.check_names(values)
        return cls(**values)

    @classmethod
    def check_names(cls, values: Mapping[str, Any]) -> None:
        """Refuse a setting that does not exist, name the nearest that do, and list all."""
        check_settings(cls, values)

    def differences(self, other: RunSettings) -> list[tuple[str, Any, Any]]:
        """Names of the settings that differ, with both values."""
        mine, theirs = self.to_dict(), other.to_dict()
        return [(name, mine[name], theirs[name]) for name in mine if mine[name] != theirs[name]]


S = TypeVar("S", bound=RunSettings)


def read_settings(folder: RunFolder, kind: type[S]) -> tuple[S, str]:
    """The settings that a run was started with, and the fingerprint of its data.

    Args:
        folder: The run.
        kind: The class of its settings.

    Raises:
        InputError: When there is no run of that kind, its settings are damaged, or not allowed.
    """
    values, fingerprint = folder.settings()
    # Before the values, whose names would be refused one by one.
    if folder.job != kind.job:
        raise InputError(
            f"Expected {folder.path} to be the run of {_SHOWN[kind.job]}, but it is one of {_SHOWN[folder.job]}."
        )
    try:
        return kind.from_dict(values), fingerprint
    except WRONG_CONTENT as error:
        raise InputError(
            f"Expected {folder.path / 'settings.json'} to hold valid settings, but it does not: {error}"[:1000]
        ) from error


def check_same(folder: RunFolder, settings: RunSettings, fingerprint: str) -> None:
    """Refuse to go on with other settings or other data than the run was started with."""
    stored, data = read_settings(folder, type(settings))
    # Before the data: another path is the likeliest reason for other data.
    for name, new, old in settings.differences(stored):
        raise InputError(
            f"Expected `{name}` to be {old!r}, as when the run in {folder.path} was started, but got {new!r}; "
            "leave it out to resume, or start anew with --overwrite or another --out."
        )
    check_data(folder, settings.data, fingerprint, data)


def check_data(folder: RunFolder, source: str, found: str, stored: str, remedy: str = "") -> None:
    """Refuse data that has another fingerprint than when the run was started.

    Args:
        folder: The run.
        source: Where the data is.
        found: Fingerprint of the data.
        stored: That of the run.
        remedy: What to do about it, for the end of the message.
    """
    if found != stored:
        raise InputError(f"Expected `data` {source} to be as when {folder.path} was made, but it has changed{remedy}.")
