"""Strict JSON with a checksum, for the files of a run; and reading it as something that may be damaged or hostile.

The first entry of each object is ``"sha256"``, the checksum of the text itself with zeros in its place.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from setwise._checks import InputError
from setwise._files import ZEROS, DamagedFileError, damaged, is_intact, seal, write_bytes

DEPTH = 64  # of nested lists and objects; what is deeper was not written by us
DIFFERS = "its checksum differs"
_MOST = 1e300  # of numbers; integers may be larger than what arithmetic with floats can take
# What content that somebody else has written may raise where something is made of it.
WRONG_CONTENT = (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError, RecursionError)


def plain(value: Any) -> Any:
    """Values for strict JSON: NumPy numbers become Python's, NaN and infinity become null."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def sealed_json(value: Mapping[str, Any], *, indent: int | None = 2) -> bytes:
    """A JSON object with its checksum first, ending with a newline."""
    text = json.dumps({"sha256": ZEROS} | plain(value), indent=indent, allow_nan=False, ensure_ascii=False)
    return seal(f"{text}\n".encode())


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write strict JSON with a checksum, as a whole."""
    write_bytes(path, sealed_json(value))


def read_json(path: Path, advice: str) -> dict[str, Any]:
    """Read a JSON object that :func:`write_json` wrote.

    Args:
        path: The file.
        advice: What to do where it is damaged.

    Raises:
        InputError: When it is damaged.
    """
    return parse_sealed(path.read_bytes(), path, advice)


def parse_sealed(content: bytes, path: Path, advice: str) -> dict[str, Any]:
    """The object of a text with a checksum, without that; ``path`` and ``advice`` are for the message."""
    if not content:
        raise damaged(path, "it is empty", advice)
    if not is_intact(content):
        raise damaged(path, DIFFERS, advice)
    try:
        value = parse_json(content.decode())
    except ValueError as error:
        raise damaged(path, str(error), advice) from error
    if not isinstance(value, dict) or "sha256" not in value:
        raise damaged(path, "it holds no JSON object", advice)
    del value["sha256"]
    return value


def parse_json(text: str) -> Any:
    """Strict JSON: no NaN or infinity, not nested beyond ``DEPTH``, and texts that can be written again.

    Raises:
        InputError: When it is anything else.
    """
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise InputError(f"its JSON is nested more than {DEPTH} deep") from None
    except ValueError as error:
        raise InputError(f"it is no JSON: {error}") from error
    waiting = [(value, 0)]
    while waiting:
        item, depth = waiting.pop()
        if depth > DEPTH:
            raise InputError(f"its JSON is nested more than {DEPTH} deep")
        if isinstance(item, dict):
            waiting += [(part, depth + 1) for pair in item.items() for part in pair]
        elif isinstance(item, list):
            waiting += [(part, depth + 1) for part in item]
        elif isinstance(item, int | float) and not abs(item) <= _MOST:  # also infinity, which is how 1e999 is read
            raise InputError("it holds a number that is too large")
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise InputError("it holds a text that is no Unicode") from error
    return value


def digest_of(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def contents_of(path: Path, advice: str) -> Iterator[None]:
    """Turn what goes wrong with the content of a file, a missing key or a wrong type, into one line that names it."""
    try:
        yield
    except DamagedFileError:
        raise
    except InputError as error:
        raise damaged(path, f"its content cannot be right ({error!s:.1000})", advice) from error
    except WRONG_CONTENT as error:
        what = f"{type(error).__name__}: {error}"[:200]
        raise damaged(path, f"its content cannot be right ({what})", advice) from error


def _no_constant(name: str) -> NoReturn:
    raise InputError(f"{name} is no number of JSON")
