"""Pages of the documentation: their examples, and where their links lead."""

from __future__ import annotations

import doctest
import re
import warnings
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def run_examples(page: Path) -> doctest.TestResults:
    """Run the examples of a page as they stand."""
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the hosts of integrations deprecate is theirs
        return doctest.testfile(str(page), module_relative=False, optionflags=flags)


def blocks(page: Path) -> list[str]:
    """The blocks of Python code of a page."""
    return [part.split("```")[0] for part in page.read_text(encoding="utf-8").split("```python\n")[1:]]


def broken_links(page: Path) -> list[str]:
    """Links of a page to files or headings that are not there."""
    broken = []
    for link, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", page.read_text(encoding="utf-8")):
        if link.startswith("http"):
            continue
        target = page.parent / link if link else page
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            broken.append(f"{link}#{anchor}" if anchor else link)
    return broken


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}
