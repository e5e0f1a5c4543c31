"""Atomic writing of files, and checksums inside them: a file is there whole and unchanged, or that is noticed.

A sealed file holds the SHA-256 of its own bytes, taken with zeros in the checksum's place. So whatever byte is changed,
cut off or added, the checksum differs.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Callable
from pathlib import Path

from setwise._checks import InputError

ZEROS = "0" * 64  # what stands for the checksum while it is taken
PARTIAL = ".partial"
_JSON_MARK = re.compile(rb'"sha256": ?"([0-9a-f]{64})"')
_PAGE_MARK = re.compile(rb"<!-- sha256: ([0-9a-f]{64}) -->\n\Z")
_MARK_AT = 1 << 27  # the header of a safetensors file has at most 100 MB, and JSON begins with its checksum


class DamagedFileError(InputError):
    """A file that is not as it was written.

    Args:
        path: The file.
        why: What is wrong with it.
        advice: What to do.
    """

    def __init__(self, path: Path, why: str, advice: str) -> None:
        super().__init__(f"Expected {path} to be as it was written, but it is damaged: {why}; {advice}.")
        self.path, self.why = path, why


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a file beside ``path``, then move it there in one step.

    Raises:
        OSError: With the name of ``path``, when the disk is full or the folder cannot be written to; the file that was
            there before stays, and nothing is left beside it.
    """
    partial = path.with_name(f".{path.name}{PARTIAL}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(partial)
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        if isinstance(error, OSError) and error.filename in (None, str(partial)):
            raise named(error, path) from error
        raise


def write_bytes(path: Path, content: bytes) -> None:
    """Write all of a file, or nothing."""
    write_whole(path, lambda partial: partial.write_bytes(content))


def append_line(path: Path, line: bytes) -> None:
    """Append to a file; where that fails, the file is as it was before.

    Raises:
        OSError: With the name of ``path``.
    """
    try:
        with path.open("ab", buffering=0) as file:
            size = file.tell()
            try:
                left = memoryview(line)
                while left:  # a disk that is nearly full takes a part, and refuses the rest
                    left = left[file.write(left) :]
                os.fsync(file.fileno())
            except BaseException:
                file.truncate(size)
                raise
    except OSError as error:
        raise named(error, path) from error


def named(error: OSError, path: Path) -> OSError:
    """The same error with the name of the file that was to be written, which errors of writing do not have."""
    if error.errno is None:
        return OSError(f"{error}: {path}")
    return OSError(error.errno, error.strerror or os.strerror(error.errno), str(path))


def seal(content: bytes) -> bytes:
    """The content with its checksum in place of :data:`ZEROS`."""
    place = _place(content)
    if place is None:
        raise InputError("Expected `content` to have a place for its checksum, but it has none.")
    digest = hashlib.sha256(_blank(content, place)).hexdigest()
    return content[: place[0]] + digest.encode() + content[place[1] :]


def seal_page(page: str) -> str:
    """A page of HTML with its checksum in a comment at its end."""
    return seal(f"{page.rstrip()}\n<!-- sha256: {ZEROS} -->\n".encode()).decode()


def is_sealed(content: bytes) -> bool:
    """Whether the content has a checksum at all."""
    return _place(content) is not None


def is_intact(content: bytes) -> bool:
    """Whether the content has a checksum, and it is right."""
    place = _place(content)
    if place is None:
        return False
    return hashlib.sha256(_blank(content, place)).hexdigest().encode() == content[place[0] : place[1]]


def damaged(path: Path, why: str, advice: str) -> DamagedFileError:
    """The error of a damaged file: its name, what is wrong, and what to do."""
    return DamagedFileError(path, why, advice)


def _place(content: bytes) -> tuple[int, int] | None:
    found = _PAGE_MARK.search(content) or _JSON_MARK.search(content, 0, _MARK_AT)
    return None if found is None else found.span(1)


def _blank(content: bytes, place: tuple[int, int]) -> bytes:
    return content[: place[0]] + ZEROS.encode() + content[place[1] :]
