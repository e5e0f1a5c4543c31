"""The pages of the research record: their examples run as they stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.pages import DOCS, blocks, run_examples

EXAMPLES = {"reproduce": 7}  # at least so many lines that run
PAGES = sorted((DOCS / "research").glob("*.md"))


@pytest.mark.parametrize("page", EXAMPLES)
def test_the_examples_run(page: str) -> None:
    result = run_examples(DOCS / "research" / f"{page}.md")
    assert result.attempted >= EXAMPLES[page]
    assert result.failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_of_code_is_an_example(page: Path) -> None:
    assert all(block.startswith(">>> ") for block in blocks(page))
    assert not blocks(page) or page.stem in EXAMPLES
