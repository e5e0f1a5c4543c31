"""Every page of the documentation: its examples run as they stand, and its links lead somewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.pages import DOCS, blocks, broken_links, run_examples

EXAMPLES = {  # at least so many lines that run
    "certified-thresholds": 35,
    "command-line": 7,
    "constraints": 36,
    "decision-focused": 30,
    "dual-ascent": 16,
    "gradients": 17,
    "how-to-choose": 30,
    "integrations": 26,
    "linear-programs": 40,
    "linear-scorers": 38,
    "lp-solvers": 9,
    "main-job": 15,
    "measures": 20,
    "nmf": 11,
    "recipes": 9,
    "groups": 26,
    "sketches": 14,
    "training": 31,
}
PAGES = sorted(DOCS.glob("*.md"))
RECORD = sorted((DOCS / "research").glob("*.md"))  # their examples are run by the tests of the research package


@pytest.mark.parametrize("page", EXAMPLES)
def test_the_examples_run(page: str) -> None:
    result = run_examples(DOCS / f"{page}.md")
    assert result.attempted >= EXAMPLES[page]
    assert result.failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_of_code_is_an_example(page: Path) -> None:
    assert all(block.startswith(">>> ") for block in blocks(page))
    assert not blocks(page) or page.stem in EXAMPLES


@pytest.mark.parametrize("page", [*PAGES, *RECORD], ids=lambda page: page.stem)
def test_every_link_leads_somewhere(page: Path) -> None:
    assert broken_links(page) == []


def test_the_guides_need_no_research_package() -> None:
    assert not [page.stem for page in PAGES if any("setwise_research" in block for block in blocks(page))]
