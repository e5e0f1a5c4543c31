"""Files of tables."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a text or bytes to a file, packed as its name says."""

    def to_file(content: str | bytes, name: str = "data.csv") -> Path:
        path = tmp_path / name
        pack: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}
        path.write_bytes(pack.get(path.suffix, bytes)(content.encode() if isinstance(content, str) else content))
        return path

    return to_file
