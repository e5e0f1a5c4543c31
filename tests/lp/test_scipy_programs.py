"""Every linear program of SciPy's own tests, by the default solver and by our own without HiGHS."""

from __future__ import annotations

import importlib.util
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from setwise.lp import HiGHS, Interior, LinearProgram, Status, solve
from setwise.lp.solve import Solver

SCRIPT = Path(__file__).parents[1] / "support" / "scipy_programs.py"
STATUS = {0: Status.OPTIMAL, 2: Status.INFEASIBLE, 3: Status.UNBOUNDED}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    if importlib.util.find_spec("scipy.optimize.tests") is None:
        pytest.skip("SciPy was installed without its tests")
    path = tmp_path_factory.mktemp("scipy") / "programs.pickle"
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(path)], cwd=path.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:]
    found: list[Any] = pickle.loads(path.read_bytes())  # noqa: S301 (our own bytes)
    return found


@pytest.mark.parametrize("which", ["default", "interior", "highs", "without highspy"])
def test_all_are_answered_as_highs_answers_them_there(
    which: str, programs: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    solvers: dict[str, Solver] = {"interior": Interior(), "highs": HiGHS()}
    if which == "without highspy":
        monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert len(programs) > 300
    for parts, code, value in programs:
        found = solve(LinearProgram(*map(torch.from_numpy, parts)), solvers.get(which), throw=False)
        assert found.status is STATUS[code]
        if code == 0:
            assert found.value.item() == pytest.approx(value, rel=1e-7, abs=1e-7)
