"""What may import what: extras never by `import setwise`, the layers only downwards, and research from outside."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import setwise

ROOT = Path(setwise.__file__).parent
EXTRAS = (
    "scipy",
    "sklearn",
    "lightning",
    "matplotlib",
    "yaml",
    "pandas",
    "highspy",
    "typer",
    "rich",
    "PIL",
    "safetensors",
    "cvxpy",
    "pyarrow",
    "polars",
)

# Each part and the parts of the package that it may import.
LAYERS: dict[str, set[str]] = {
    "_checks": set(),
    "_types": set(),
    "_files": {"_checks"},
    "lp": {"_checks"},
    "kernels": {"_checks"},
    "metrics": {"_checks"},
    "distributed": {"_checks"},
    "measures": {"_checks", "lp", "kernels", "metrics", "distributed"},
    "linear": {"_checks", "lp", "kernels", "metrics", "measures"},
    "functional": {"measures"},
    "losses": {"measures"},
    "training": {"_checks", "_files", "measures", "metrics", "linear", "losses", "data"},
    "data": {"_checks", "metrics"},
    "lagrangian": {"_checks", "lp", "metrics", "measures", "distributed"},
    "nmf": {"_checks", "lp"},
    "integrations": {
        "_checks",
        "lp",
        "measures",
        "linear",
        "losses",
        "metrics",
        "data",
        "lagrangian",
        "training",
        "distributed",
    },
    "report": {"_checks", "_files", "measures", "metrics"},
    "app": {
        "_checks",
        "_files",
        "measures",
        "metrics",
        "data",
        "linear",
        "lagrangian",
        "training",
        "integrations",
        "report",
    },
    "cli": {"app", "_checks", "data", "report"},
}


STATEMENTS = (
    "import setwise",
    "from setwise import lp",
    "from setwise import functional, losses, measures, metrics, data, linear, training",
)
IMPORTS = f"""
import importlib, json, pkgutil, sys
sys.modules["setwise_research"] = None
loaded = {{}}
for statement in {STATEMENTS!r}:
    exec(statement)
    loaded[statement] = [name for name in {EXTRAS!r} if name in sys.modules]
names = [found.name for found in pkgutil.walk_packages(setwise.__path__, "setwise.")]
print(json.dumps([loaded, len([importlib.import_module(name) for name in names])]))
"""


@pytest.fixture(scope="module")
def imported() -> tuple[dict[str, list[str]], int]:
    """In a process of its own: the extras that each statement has loaded, then how many modules can be imported."""
    run = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    loaded, modules = json.loads(run.stdout)
    return loaded, modules


@pytest.mark.parametrize("statement", STATEMENTS)
def test_loads_no_extra(imported: tuple[dict[str, list[str]], int], statement: str) -> None:
    assert imported[0][statement] == []


def test_every_module_can_be_imported_without_the_research_package(
    imported: tuple[dict[str, list[str]], int],
) -> None:
    assert imported[1] > 200


def imported_parts(path: Path) -> set[str]:
    parts = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            parts |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("setwise.")}
        elif isinstance(node, ast.ImportFrom) and node.module == "setwise":
            parts |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("setwise."):
            parts.add(str(node.module).split(".")[1])
    return parts - {"__version__"}


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_one_way(path: Path) -> None:
    part = path.relative_to(ROOT).parts[0].removesuffix(".py")
    if part == "__init__":
        return
    assert part in LAYERS, f"{part} is not in the table of layers"
    assert imported_parts(path) <= LAYERS[part] | {part, "_types"}


def imported_modules(path: Path) -> set[str]:
    """All that a file imports or looks up, by the names as they are written."""
    tree = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    found = {alias.name for node in tree if isinstance(node, ast.Import) for alias in node.names}
    found |= {node.module or "" for node in tree if isinstance(node, ast.ImportFrom)}
    return found | {str(node.value) for node in tree if isinstance(node, ast.Constant) and isinstance(node.value, str)}


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_imports_the_research_package(path: Path) -> None:
    assert not {name for name in imported_modules(path) if name.split(".")[0] == "setwise_research"}


def test_every_public_name_is_there_and_documented() -> None:
    for name in setwise.__all__:
        value = getattr(setwise, name)
        assert name == "__version__" or value.__doc__, name
