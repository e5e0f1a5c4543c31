"""Stored records name the CPU and its vector extensions, or say that it was not recorded."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from setwise_research import machine
from setwise_research.machine import NOT_RECORDED, cpu, cpu_model, cpus_of, numpy_extensions

RESULTS = Path(__file__).parents[1] / "results"


@pytest.fixture
def fresh() -> Iterator[None]:
    for function in (cpu, cpu_model):
        function.cache_clear()
    yield
    for function in (cpu, cpu_model):
        function.cache_clear()


def test_the_cpu_is_named_with_its_extensions() -> None:
    text = cpu()
    assert text.startswith(f"{cpu_model()} (NumPy ")
    assert cpu_model() != ""
    assert all(name in text for name in numpy_extensions())


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize(
    ("cpuinfo", "expected"),
    [
        ("processor\t: 0\nmodel name\t: AMD EPYC 9R14\nmodel name\t: other\n", "AMD EPYC 9R14"),
        ("Processor : 0\nHardware\t: BCM2835\n", "BCM2835"),
        ("processor\t: 0\nmodel name\t:\n", "from platform"),
        (None, "from platform"),
    ],
)
def test_the_model_is_what_the_system_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cpuinfo: str | None, expected: str
) -> None:
    file = tmp_path / "cpuinfo"
    if cpuinfo is not None:
        file.write_text(cpuinfo)
    monkeypatch.setattr(machine, "_CPUINFO", file)
    monkeypatch.setattr(platform, "processor", lambda: "from platform")
    assert cpu_model() == expected


@pytest.mark.usefixtures("fresh")
def test_a_system_that_says_nothing_has_an_unknown_cpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine, "_CPUINFO", tmp_path / "none")
    for name in ("processor", "machine"):
        monkeypatch.setattr(platform, name, str)
    assert cpu_model() == "unknown"
    assert cpu().startswith("unknown (NumPy ")


def test_extensions_that_numpy_may_not_use_are_left_out() -> None:
    code = "from setwise_research.machine import numpy_extensions; print(*numpy_extensions())"
    off = [name for name in numpy_extensions() if name in {"AVX512_ICL", "AVX512_SPR", "ASIMDHP"}]
    if not off:
        pytest.skip("NumPy finds no extension here that may be turned off")
    environment = os.environ | {"NPY_DISABLE_CPU_FEATURES": " ".join(off)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [name for name in numpy_extensions() if name not in off]


def test_pages_tell_the_cpus_of_their_records() -> None:
    assert cpus_of([{"cpu": "A (x)"}]) == "CPU: A (x)"
    assert cpus_of([]) == NOT_RECORDED


@pytest.mark.parametrize("folder", sorted(path.parent.name for path in RESULTS.glob("*/runs.jsonl")))
def test_stored_tables_say_where_their_cells_ran(folder: str) -> None:
    lines = (RESULTS / folder / "runs.jsonl").read_text(encoding="utf-8").splitlines()
    assert cpus_of(map(json.loads, lines)) in (RESULTS / folder / "table.md").read_text(encoding="utf-8")
