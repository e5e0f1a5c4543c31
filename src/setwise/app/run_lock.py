"""An advisory lock on the folder of a run, so that two trainings never write to it at once.

The lock is the operating system's own on ``.lock``, which the kernel releases when the process ends, however it ends.
The file stays; it says that the folder is one of a run, and which process was the last at work in it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from setwise._checks import InputError
from setwise._files import named

FILE = ".lock"
MARK = "setwise run"  # the file's first line
_BUSY = (errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK)
_AT = 1 << 30  # the byte that Windows locks, behind the text, so that others can read that
_READ = 200  # of the text


def is_marked(folder: Path) -> bool:
    """Whether the folder has the lock file of a run."""
    try:
        return _read(folder / FILE).startswith(MARK)
    except OSError:
        return False


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, which must exist.

    Raises:
        InputError: When another process holds it.
        OSError: When the lock file cannot be written.
    """
    path = folder / FILE
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
    try:
        # The file is never removed: a process that waits to open it would lock one that nobody sees.
        if not _lock(descriptor):
            raise InputError(f"Expected {folder} to be free, but {_holder(path)}")
        known = _read(path)
        if known.startswith(MARK) or MARK.startswith(known):  # nobody else's file of the same name is written to
            _note(descriptor, path)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Whether the lock could be had; a file system without locks is taken for one on which nobody else works."""
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(descriptor, _AT, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in _BUSY
    return True


def _note(descriptor: int, path: Path) -> None:
    try:
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.ftruncate(descriptor, 0)
        text = f"{MARK}\nprocess {os.getpid()}\n".encode()
        while text:  # a disk that is nearly full takes a part, and refuses the rest
            text = text[os.write(descriptor, text) :]
    except OSError as error:
        raise named(error, path) from error


def _holder(path: Path) -> str:
    words = _read(path).split()
    number = words[-1] if len(words) > 1 and words[-2] == "process" and words[-1].isdecimal() else "unknown"
    return f"another setwise (process {number}) is at work in it; wait for it, or choose another --out."


def _read(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_READ).decode(errors="replace")
