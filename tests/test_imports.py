"""What may import what: extras never by `import setwise`, and the layers only downwards."""

from __future__ import annotations

import ast
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
    "experiments": {
        "app",
        "_checks",
        "_files",
        "lp",
        "nmf",
        "measures",
        "losses",
        "metrics",
        "data",
        "lagrangian",
        "training",
        "integrations",
        "report",
    },
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
    "cli": {
        "app",
        "_checks",
        "_files",
        "measures",
        "losses",
        "metrics",
        "data",
        "integrations",
        "report",
        "experiments",
    },
}


def loaded_by(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(*[m for m in {EXTRAS!r} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


@pytest.mark.parametrize(
    "statement",
    [
        "import setwise",
        "from setwise import lp",
        "from setwise import functional, losses, measures, metrics, data, linear, training",
    ],
)
def test_loads_no_extra(statement: str) -> None:
    assert loaded_by(statement) == set()


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
    assert imported_parts(path) <= LAYERS[part] | {part}


def test_every_public_name_is_there_and_documented() -> None:
    for name in setwise.__all__:
        value = getattr(setwise, name)
        assert name == "__version__" or value.__doc__, name
