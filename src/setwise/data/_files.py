"""Finding and reading the files of a data set, with errors that name the file and what was expected of it."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable
from pathlib import Path

StrPath = str | os.PathLike[str]

ADVICE = "set SETWISE_DATA to the folder that holds your data sets, or pass `folder=`"


def data_root() -> Path:
    """The folder that holds the data sets: ``$SETWISE_DATA`` where it is set, else ``~/.cache/setwise``."""
    value = os.environ.get("SETWISE_DATA")
    return Path(value).expanduser() if value else Path.home() / ".cache" / "setwise"


def require_folder(folder: StrPath | None, usual: str, holds: str) -> Path:
    """The folder of a data set: the given one, one called ``usual`` inside it, or ``usual`` under :func:`data_root`."""
    path = data_root() / usual if folder is None else Path(folder).expanduser()
    if (path / usual).is_dir():  # an archive unpacks into a folder of this name, and users pass either
        path = path / usual
    if not path.is_dir():
        what = "is a file" if path.exists() else "does not exist"
        raise FileNotFoundError(f"Expected a folder with {holds} at {path}, but it {what}; {ADVICE}.")
    return path


def require_file(path: Path, holds: str, *, advice: str = ADVICE) -> Path:
    """The path itself if it is a file there."""
    if not path.is_file():
        what = "that is a folder" if path.is_dir() else "there is no such file"
        raise FileNotFoundError(f"Expected {holds} at {path}, but {what}; {advice}.")
    return path


def class_names(path: Path) -> tuple[str, ...]:
    """Class names, one per line; none where there is no such file."""
    if not path.is_file():
        return ()
    return tuple(line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip())


def near_match(name: str, known: Iterable[str]) -> str:
    """A hint such as " (did you mean 'income'?)", empty where no known name is near."""
    options = {option.casefold(): option for option in known}
    near = difflib.get_close_matches(name.casefold(), options, n=3, cutoff=0.6)
    return f" (did you mean {' or '.join(repr(options[key]) for key in near)}?)" if near else ""
