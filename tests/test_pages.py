"""Every page of the documentation: its examples run as they stand, and its links lead somewhere."""

from __future__ import annotations

import doctest
import re
import warnings
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
EXAMPLES = {  # at least so many lines that run
    "certified-thresholds": 35,
    "command-line": 7,
    "constraints": 36,
    "dual-ascent": 16,
    "gradients": 6,
    "how-to-choose": 30,
    "integrations": 26,
    "linear-programs": 31,
    "linear-scorers": 38,
    "main-job": 15,
    "measures": 20,
    "nmf": 11,
    "recipes": 9,
    "reproduce": 7,
    "shapes": 26,
    "sketches": 14,
    "training": 31,
}
PAGES = sorted(path.stem for path in DOCS.glob("*.md"))


@pytest.mark.parametrize("page", EXAMPLES)
def test_the_examples_run(page: str) -> None:
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the hosts of integrations deprecate is theirs
        result = doctest.testfile(str(DOCS / f"{page}.md"), module_relative=False, optionflags=flags)
    assert result.attempted >= EXAMPLES[page]
    assert result.failed == 0


@pytest.mark.parametrize("page", PAGES)
def test_every_block_of_code_is_an_example(page: str) -> None:
    blocks = (DOCS / f"{page}.md").read_text(encoding="utf-8").split("```python\n")[1:]
    assert all(block.startswith(">>> ") for block in blocks)
    assert not blocks or page in EXAMPLES


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    for link, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", text):
        if link.startswith("http"):
            continue
        target = DOCS / (link or f"{page}.md")
        assert target.exists(), link
        if anchor:
            headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}
