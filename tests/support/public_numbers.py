"""Regression check of the public numbers: every loss, 240 linear programs and the commands, to the last bit.

A change that only moves or renames must not change a number. Write the numbers before it and compare after it, on the
same machine and with the same packages:

    PYTHONPATH=tests python -m support.public_numbers before.json
    PYTHONPATH=tests python -m support.public_numbers after.json --compare before.json

Ends with exit code 1 and names what differs.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from setwise import lp
from support.families import FAMILIES, draw, vary
from support.table import CASES

SETS = 3  # random sets a loss is evaluated on, each with and without ties and weights
PROGRAMS = 4  # seeds of each family
VARIANTS = ("plain", "scaled_4", "unbounded")


def digest(*parts: Tensor | NDArray[Any] | float) -> str:
    """Short hash of numbers, bit by bit; minus zero is zero."""
    found = hashlib.sha256()
    for part in parts:
        array = part.detach().numpy() if isinstance(part, Tensor) else np.asarray(part)
        found.update(str(array.shape).encode())
        found.update(np.ascontiguousarray(array + 0 if array.dtype != bool else array).tobytes())
    return found.hexdigest()[:16]


def losses() -> Iterator[tuple[str, str]]:
    """Value and gradient of every loss of the table."""
    for case in CASES:
        for seed in range(SETS):
            for ties, weighted in ((False, False), (True, True)):
                one = case.draw(seed, ties=ties, weighted=weighted)
                scores = one.scores.clone().requires_grad_(True)
                value = case.value(scores, one.labels, one.weight)
                value.backward()
                assert scores.grad is not None
                name = f"loss/{case.name}/{seed}{'/ties, weights' if ties else ''}"
                yield name, f"{float(value):.17g} {digest(scores.grad)}"


def programs() -> Iterator[tuple[str, str]]:
    """Status, value, point and gradients of linear programs."""
    for family in FAMILIES:
        for seed in range(PROGRAMS):
            data = draw(family, seed)
            for variant in VARIANTS:
                program = vary(data, variant, 0.0, seed).program()
                c, b = (each.clone().requires_grad_(True) for each in (program.c, program.b))
                solved = lp.solve(dataclasses.replace(program, c=c, b=b), throw=False)
                name = f"program/{family}/{seed}/{variant}"
                told = f"{solved} {digest(solved.primal, solved.value)}"
                if bool(solved.optimal):
                    solved.value.backward()
                    told += f" {digest(*(each.grad for each in (c, b) if each.grad is not None))}"
                yield name, told


def commands() -> Iterator[tuple[str, str]]:
    """Results of training, prediction and evaluation on a table."""
    from setwise.cli.app import run

    random = np.random.default_rng(0)
    x = random.normal(size=(400, 3))
    kind = random.choice(["a", "b", "c"], size=400)
    y = (x[:, 0] + x[:, 1] * (kind == "b") + random.normal(size=400) > 1).astype(int)
    lines = [f"{a:.6f},{b:.6f},{c:.6f},{k},{label}" for (a, b, c), k, label in zip(x, kind, y, strict=True)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table, scores, out = folder / "table.csv", folder / "predicted.csv", folder / "run"
        table.write_text("\n".join(["u,v,w,kind,y", *lines]) + "\n", encoding="utf-8")
        goal = ["--measure", "precision@recall>=0.8", "--subject-to", "recall[group=kind]>=0.6"]
        models = ["--models", "logistic,linear_measure,lightgbm,lightgbm_measure,extra_trees,network,network_measure"]
        assert run(["train", str(table), *goal, *models, "--out", str(out)]) == 0
        results = json.loads((out / "results.json").read_text(encoding="utf-8"))
        yield "train", _digest_of(_plain(results["report"]))
        assert run(["predict", str(out), str(table), "--keep", "all", "--out", str(scores)]) == 0
        yield "predict", hashlib.sha256(scores.read_bytes()).hexdigest()[:16]
        told = folder / "told.json"
        asked = ["--score", "probability", "--target", "y", "--subject-to", "recall>=0.9", "--json", str(told)]
        assert run(["evaluate", str(scores), *asked]) == 0
        yield "evaluate", _digest_of(json.loads(told.read_text(encoding="utf-8")))


def _plain(report: Any) -> Any:
    """A report without the seconds, which differ from run to run."""
    if isinstance(report, dict):
        return {name: _plain(value) for name, value in report.items() if name != "seconds"}
    return [_plain(each) for each in report] if isinstance(report, list) else report


def _digest_of(values: Any) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def main() -> int:
    """Write the numbers, and compare them with others."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--compare", type=Path, help="numbers that were written before")
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = {**dict(losses()), **dict(programs()), **dict(commands())}
    options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if options.compare is None:
        return 0
    before = json.loads(options.compare.read_text(encoding="utf-8"))
    differing = [name for name in sorted(before.keys() | found.keys()) if before.get(name) != found.get(name)]
    for name in differing:
        sys.stdout.write(f"{name}: {before.get(name)} -> {found.get(name)}\n")
    sys.stdout.write(f"{len(differing)} of {len(found)} differ\n")
    return int(bool(differing))


if __name__ == "__main__":
    sys.exit(main())
