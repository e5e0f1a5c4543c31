"""The examples of the page on training run as they stand."""

from __future__ import annotations

import doctest
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "training.md"


def test_the_page_runs() -> None:
    result = doctest.testfile(str(PAGE), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.attempted > 30
    assert result.failed == 0


def test_every_block_of_code_on_the_page_is_an_example() -> None:
    blocks = PAGE.read_text(encoding="utf-8").split("```python\n")[1:]
    assert len(blocks) == 7
    assert all(block.startswith(">>> ") for block in blocks)
