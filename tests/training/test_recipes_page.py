"""The example of the page on recipes runs as it stands, and its settings are the recipe's."""

from __future__ import annotations

import doctest
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "recipes.md"


def test_the_page_runs() -> None:
    result = doctest.testfile(str(PAGE), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.attempted > 8
    assert result.failed == 0


def test_links_are_there() -> None:
    assert (PAGE.parent / "results" / "outcome.md").is_file()
