"""Allocator settings under which freed memory goes back to the system at once."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Callable, Iterator

# Names and bounds of glibc's mallopt. Pieces of the threshold's size on are mapped one by one and leave when freed.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_LOW, _HIGH = 2**20, 2**25
_CHOSEN = ("MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


@contextlib.contextmanager
def given_back() -> Iterator[None]:
    """A context in which freed pieces of a megabyte on go back to the system; nothing happens but on Linux with glibc.

    glibc begins with a threshold of 128 kB and raises it to the size of each larger piece that is freed, up to 32 MB;
    trimming follows at twice that. Once set, it stays where it is put, so on leaving it is put where its own way leads
    in a process with large tensors. A threshold that the environment chooses is left alone.
    """
    option = _mallopt()
    if option is None or any(name in os.environ for name in _CHOSEN):
        yield
        return
    option(_MMAP_THRESHOLD, _LOW)
    try:
        yield
    finally:
        option(_MMAP_THRESHOLD, _HIGH)
        option(_TRIM_THRESHOLD, 2 * _HIGH)


def _mallopt() -> Callable[[int, int], int] | None:
    """Glibc's function, where there is one."""
    if not sys.platform.startswith("linux"):
        return None
    found: Callable[[int, int], int] | None = getattr(ctypes.CDLL(None), "mallopt", None)
    return found
