"""The list of what the package takes from private modules of ``setwise`` is the one in its README."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import setwise
import setwise_research
from support.pages import broken_links

PUBLIC = {
    "setwise",
    *(f"setwise.{name}" for name in ("data", "integrations.lightning", "lagrangian", "losses", "lp", "measures")),
    *(f"setwise.{name}" for name in ("metrics", "nmf", "report", "training")),
}
SOURCE = Path(setwise_research.__file__).parent
README = Path(__file__).parents[1] / "README.md"


def modules_of(statement: ast.ImportFrom) -> set[str]:
    """The modules that a statement imports from: the one it names, or those among the names that it takes from it."""
    name = statement.module or ""
    if not name.startswith("setwise.") or name in PUBLIC:
        return {name}
    folder = Path(setwise.__file__).parent.joinpath(*name.split(".")[1:])
    return {f"{name}.{alias.name}" for alias in statement.names if (folder / f"{alias.name}.py").is_file()} or {name}


def test_the_readme_lists_every_private_module() -> None:
    found: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                found |= modules_of(node)
            elif isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
    private = {name for name in found if name.split(".")[0] == "setwise"} - PUBLIC
    listed = re.findall(r"^\| `(setwise\.[\w.]+)` \|", README.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert listed == sorted(private)


def test_links_lead_somewhere() -> None:
    assert broken_links(README) == []
