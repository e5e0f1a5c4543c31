"""The examples of the page on the papers' tables run as they stand, and its commands exist."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

from setwise.experiments.reproduce import registry

PAGE = Path(__file__).parents[2] / "docs" / "reproduce.md"


def test_the_page_runs() -> None:
    result = doctest.testfile(str(PAGE), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.attempted >= 7
    assert result.failed == 0


def test_every_table_is_on_the_page_and_every_command_names_one() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for name in registry.NAMES:
        assert f"| `{name}` |" in text
    named = re.findall(r"^setwise reproduce ([a-z][a-z-]*)", text, flags=re.MULTILINE)
    assert named
    assert set(named) <= set(registry.NAMES)
