"""The examples of the page on other libraries run as they stand."""

from __future__ import annotations

import doctest
import warnings
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "integrations.md"


def test_the_page_runs() -> None:
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the hosts deprecate is theirs
        result = doctest.testfile(str(PAGE), module_relative=False, optionflags=flags)
    assert result.attempted > 25
    assert result.failed == 0


def test_every_block_of_code_on_the_page_is_an_example() -> None:
    blocks = PAGE.read_text(encoding="utf-8").split("```python\n")[1:]
    assert len(blocks) == 9
    assert all(block.startswith(">>> ") for block in blocks)


def test_its_links_are_there() -> None:
    for part in PAGE.read_text(encoding="utf-8").split("](")[1:]:
        assert (PAGE.parent / part.split(")")[0]).exists()
