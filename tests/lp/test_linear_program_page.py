"""The examples of the pages on linear programs run as they stand."""

from __future__ import annotations

import doctest
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "linear-programs.md"


def test_the_page_runs() -> None:
    result = doctest.testfile(str(PAGE), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.attempted > 30
    assert result.failed == 0


def test_the_page_on_gradients_runs() -> None:
    result = doctest.testfile(
        str(DOCS / "gradients.md"), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE
    )
    assert result.attempted >= 6
    assert result.failed == 0


def test_every_block_of_code_on_the_page_is_an_example() -> None:
    blocks = PAGE.read_text().split("```python\n")[1:]
    assert len(blocks) == 10
    assert all(block.startswith(">>> ") for block in blocks)
