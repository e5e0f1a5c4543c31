"""Where the real data sets are, and a skip with a reason where they are not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from setwise.data import data_root


@pytest.fixture
def real_set() -> Callable[[str], Path]:
    def find(name: str) -> Path:
        path = data_root() / name
        if not path.exists():
            pytest.skip(f"{path} is not there; `make data` unpacks it")
        return path

    return find
