"""Reading the binary files of the papers' data sets, with errors that name the file and what was expected of it."""

from __future__ import annotations

import gzip
import lzma
import zlib
from collections.abc import Iterable
from pathlib import Path

from setwise._checks import InputError
from setwise.data._files import ADVICE


def first_file(folder: Path, names: Iterable[str], holds: str) -> Path:
    """The first of several usual names that is there; the error gives all of them."""
    names = tuple(names)
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise FileNotFoundError(f"Expected {holds} in {folder}, named {' or '.join(names)}, but found none; {ADVICE}.")


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
