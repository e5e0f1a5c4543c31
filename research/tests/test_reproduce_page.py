"""The examples of the page on the papers' tables run as they stand, and its commands exist."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from setwise_research.reproduce import registry

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "research" / "results"
PAGES = ROOT / "docs" / "research"
PAGE = PAGES / "reproduce.md"


def test_every_table_is_on_the_page_and_every_command_names_one() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for name in registry.NAMES:
        assert f"| `{name}` |" in text
    named = re.findall(r"^setwise-research reproduce ([a-z][a-z-]*)", text, flags=re.MULTILINE)
    assert named
    assert set(named) <= set(registry.NAMES)


STORED = [name for name in registry.NAMES if (RESULTS / name / "runs.jsonl").is_file()]


@pytest.mark.parametrize("name", STORED)
def test_stored_results_say_where_they_are_from(name: str) -> None:
    folder = RESULTS / name
    found = [json.loads(line) for line in (folder / "runs.jsonl").read_text(encoding="utf-8").splitlines()]
    assert found
    for record in found:
        assert re.match(r"[0-9a-f]{40}", record["commit"])
        # Runs from before the command had its present name say what was typed then.
        assert re.match(rf"setwise(-research)? reproduce {name} --preset quick", record["command"])
        assert {"key", "date", "threads", "versions", "core_seconds"} <= set(record)
    page = (folder / "table.md").read_text(encoding="utf-8")
    assert page.startswith(f"# {name}, quick preset\n")
    assert max(record["date"] for record in found)[:10] in page
    assert any(f"results/{name}/" in path.read_text(encoding="utf-8") for path in PAGES.glob("*.md"))
