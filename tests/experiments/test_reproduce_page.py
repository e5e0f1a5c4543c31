"""The examples of the page on the papers' tables run as they stand, and its commands exist."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from setwise.experiments.reproduce import registry

PAGE = Path(__file__).parents[2] / "docs" / "reproduce.md"


def test_every_table_is_on_the_page_and_every_command_names_one() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for name in registry.NAMES:
        assert f"| `{name}` |" in text
    named = re.findall(r"^setwise reproduce ([a-z][a-z-]*)", text, flags=re.MULTILINE)
    assert named
    assert set(named) <= set(registry.NAMES)


STORED = [name for name in registry.NAMES if (PAGE.parent / "results" / name / "runs.jsonl").is_file()]


@pytest.mark.parametrize("name", STORED)
def test_stored_results_say_where_they_are_from(name: str) -> None:
    folder = PAGE.parent / "results" / name
    found = [json.loads(line) for line in (folder / "runs.jsonl").read_text(encoding="utf-8").splitlines()]
    assert found
    for record in found:
        assert re.match(r"[0-9a-f]{40}", record["commit"])
        assert record["command"].startswith(f"setwise reproduce {name} --preset quick")
        assert {"key", "date", "threads", "versions", "core_seconds"} <= set(record)
    page = (folder / "table.md").read_text(encoding="utf-8")
    assert page.startswith(f"# {name}, quick preset\n")
    assert max(record["date"] for record in found)[:10] in page
    assert any(f"results/{name}/" in path.read_text(encoding="utf-8") for path in PAGE.parent.glob("*.md"))
