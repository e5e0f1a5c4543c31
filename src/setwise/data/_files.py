"""Finding and reading the files of a data set, with errors that name the file and what was expected of it."""

from __future__ import annotations

import difflib
import gzip
import lzma
import os
import zlib
from collections.abc import Iterable
from pathlib import Path

from setwise._checks import InputError

StrPath = str | os.PathLike[str]

_ADVICE = "set SETWISE_DATA to the folder that holds your data sets, or pass `folder=`"


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
        raise FileNotFoundError(f"Expected a folder with {holds} at {path}, but it {what}; {_ADVICE}.")
    return path


def require_file(path: Path, holds: str, *, advice: str = _ADVICE) -> Path:
    """The path itself if it is a file there."""
    if not path.is_file():
        what = "that is a folder" if path.is_dir() else "there is no such file"
        raise FileNotFoundError(f"Expected {holds} at {path}, but {what}; {advice}.")
    return path


def first_file(folder: Path, names: Iterable[str], holds: str) -> Path:
    """The first of several usual names that is there; the error gives all of them."""
    names = tuple(names)
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise FileNotFoundError(f"Expected {holds} in {folder}, named {' or '.join(names)}, but found none; {_ADVICE}.")


def read_bytes(path: Path) -> bytes:
    """All bytes of a file, unpacked where its name ends in .gz or .xz."""
    raw = path.read_bytes()
    try:
        if path.suffix == ".gz":
            return gzip.decompress(raw)
        if path.suffix == ".xz":
            return lzma.decompress(raw)
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        raise InputError(
            f"Expected {path} to be a complete {path.suffix} file, but its {len(raw)} bytes do not unpack: {error}."
        ) from error
    return raw


def check_size(path: Path, expected: int, found: int, why: str) -> None:
    """Refuse a file of another size than its format asks for."""
    if expected != found:
        state = "truncated" if found < expected else "too long"
        raise InputError(f"Expected {path} to hold {expected} bytes ({why}), but found {found}: it is {state}.")


def check_records(path: Path, size: int, found: int, what: str) -> int:
    """The number of records of ``size`` bytes in a file; refuse an empty file or one that ends within a record."""
    if found == 0 or found % size:
        whole = max(1, -(-found // size)) * size
        raise InputError(
            f"Expected {path} to hold a whole number of records of {size} bytes ({what}), "
            f"such as {whole} bytes, but found {found}: it is truncated or of another format."
        )
    return found // size


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
