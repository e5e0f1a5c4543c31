"""The README's code runs, its commands exist and it stays short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.parametrize("code", BLOCKS, ids=[f"block{k}" for k in range(len(BLOCKS))])
def test_python_blocks_run(code: str) -> None:
    exec(compile(code, "README.md", "exec"), {"__name__": "readme"})  # noqa: S102 (the README is ours)


def test_there_is_code_to_run() -> None:
    assert BLOCKS


def test_it_is_at_most_100_lines() -> None:
    assert len(README.splitlines()) <= 100


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z-]+)", README)) <= targets
    assert {"demo", "test"} <= targets


def test_links_and_pictures_are_there() -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        assert link.startswith("https://") or (ROOT / link).exists(), link
