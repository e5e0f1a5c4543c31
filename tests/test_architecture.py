"""The page of the architecture names files that exist, and every module of the package is within its bounds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "architecture.md"
FOLDERS = ("src", "research", "tests", "benchmarks", "examples")
LONGEST = 400  # lines of a module


def test_every_file_that_the_page_names_is_there() -> None:
    files = [str(path.relative_to(ROOT)) for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    named = set(re.findall(r"`([\w/]+\.py)`", PAGE.read_text(encoding="utf-8")))
    assert len(named) > 100
    missing = sorted(name for name in named if not any(f"/{file}".endswith(f"/{name}") for file in files))
    assert not missing


@pytest.mark.parametrize("package", ["src/setwise", "research/src/setwise_research"])
def test_no_module_is_too_long(package: str) -> None:
    lines = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in (ROOT / package).rglob("*.py")}
    assert {name: count for name, count in lines.items() if count > LONGEST} == {}
