"""The solver figures as studies, on settings that take a second; and the layers that they compare with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from setwise._checks import InputError
from setwise.lp import HiGHS, solve
from setwise_research.lp_layers import black_box, perturbed
from setwise_research.reproduce import Study, StudyPlan, entries, entry
from setwise_research.reproduce.all_positive import AllPositive
from setwise_research.reproduce.gradient_properties import GradientProperties, make_layer
from setwise_research.reproduce.nmf_maps import NMFMaps
from setwise_research.reproduce.sketch_auc import SketchAUC
from setwise_research.reproduce.solver_convergence import SolverConvergence
from setwise_research.reproduce.solver_runtime import SolverRuntime, scorer_programs
from support.runs import Watch

pytest.importorskip("highspy", reason="the comparisons call HiGHS")
TIMES = ("date", "core_seconds", "forward", "backward")
TINY: Mapping[str, Study] = {
    "solver-convergence": SolverConvergence(programs=("AUC",), scales=(1.0,), starts=2),
    "solver-runtime": SolverRuntime(batches=(1, 2), side=2, samples=2, repetitions=2),
    "sketch-auc": SketchAUC(seeds=2, directions=(2, 30), row_counts=(9,), batch=4),
    "gradient-properties": GradientProperties(
        methods=("implicit", "smoothed", "unrolled", "black_box", "perturbed"), side=2, repetitions=1, batches=2
    ),
    "all-positive": AllPositive(methods=("program", "fbeta_loss", "eban", "ours"), steps=60, rate=0.1, batch_size=16),
    "nmf-maps": NMFMaps(images=(20, 320), ranks=(1, 2), epochs=1),
}


def tiny_plan(name: str, **only: list[str]) -> StudyPlan:
    found = replace(entry(name), presets={"quick": TINY[name]})
    return StudyPlan(found, "quick", TINY[name], only)


def timeless(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name not in TIMES}


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, tuple[StudyPlan, list[Any], Path]]:
    """Every study, run and written."""
    found = {}
    for name in TINY:
        plan, out = tiny_plan(name), tmp_path_factory.mktemp(name)
        records = plan.run(out, Watch())
        plan.write(records, out)
        found[name] = plan, records, out
    return found


@pytest.mark.parametrize("name", TINY)
def test_a_study_runs_and_writes_its_table(name: str, done: Mapping[str, tuple[StudyPlan, list[Any], Path]]) -> None:
    plan, records, out = done[name]
    assert len(records) == len(plan.study.cells())
    text = (out / "table.md").read_text()
    assert text.startswith(f"# {name}, quick preset\n")
    assert "| --- |" in text
    assert len((out / "table.csv").read_text().splitlines()) > 2
    assert (out / "table.png").read_bytes().startswith(b"\x89PNG")
    assert plan.headline(records)
    plan.study.draw([], out)  # nothing is finished yet


@pytest.mark.parametrize("name", [name for name in TINY if name != "nmf-maps"])  # which has one cell, a training
def test_a_cell_alone_gives_the_same_digits(
    name: str, done: Mapping[str, tuple[StudyPlan, list[Any], Path]], tmp_path: Path
) -> None:
    _, records, _ = done[name]
    some = {key: [f"{value:g}" if isinstance(value, float) else str(value)] for key, value in _last_cell(name).items()}
    (record,) = tiny_plan(name, **some).run(tmp_path, Watch())
    (same,) = [r for r in records if r["key"] == record["key"]]
    assert timeless(record) == timeless(same)


def _last_cell(name: str) -> Mapping[str, Any]:
    return TINY[name].cells()[-1]


def test_what_the_studies_found(done: Mapping[str, tuple[StudyPlan, list[Any], Path]]) -> None:
    for record in done["solver-convergence"][1]:
        ours = {name: share for name, share in record["solved"].items() if not name.startswith("published")}
        assert set(ours.values()) == {100.0}
        assert all(len(curve["quantiles"]) == 3 for curve in record["curves"])
    by_size = {(r["sketch"], r["size"], r["seed"]): r for r in done["sketch-auc"][1]}
    exact = by_size["exact", 0, 1]
    assert exact["value_error"] == 0
    assert by_size["sufficient", 30, 1]["auroc"] == pytest.approx(exact["auroc"], abs=1e-6)
    assert by_size["rows", 9, 1]["value_error"] > 1e-3
    table = {r["method"]: r for r in done["gradient-properties"][1]}
    assert table["implicit"]["by"] == {"c": True, "A": True, "b": True}
    assert table["black_box"]["by"] == {"c": True, "A": False, "b": False}
    assert (table["implicit"]["solves"], table["black_box"]["solves"], table["perturbed"]["solves"]) == (1, 2, 10)
    assert min(table["one_step"]["cosines"]) > 0.99
    ends = {r["method"]: r for r in done["all-positive"][1]}
    assert (ends["program"]["f1"], ends["program"]["positive"]) == (pytest.approx(2 / 3, abs=1e-6), 1.0)
    for method in ("fbeta_loss", "eban", "ours"):
        assert ends[method]["positive"] < 0.9
        assert ends[method]["f1"] > 0.7
    assert done["all-positive"][0].headline(done["all-positive"][1]).endswith("LP by setwise.lp.solve; ours leaves it")
    (maps,) = done["nmf-maps"][1]
    assert np.shape(maps["maps"]["2"]) == (2, 2, 14, 14)
    assert 0 < maps["on_garment"]["1"] <= 1


def test_the_layers_of_the_table_agree_on_the_solution() -> None:
    batch = scorer_programs(1, 3, seed=0)
    matrix: Any = batch.A
    program = replace(batch, c=batch.c[0], A=matrix[0])
    exact = solve(program, HiGHS()).primal
    for method in ("implicit", "smoothed", "black_box"):
        layer, _ = make_layer(method, program, 2)
        assert torch.allclose(layer(program.c, matrix[0], program.b), exact, atol=1e-6)


def test_what_the_studies_refuse() -> None:
    with pytest.raises(InputError, match="`programs`"):
        SolverConvergence(programs=("knapsack",))
    with pytest.raises(InputError, match="`methods`"):
        SolverRuntime(methods=("magic",))
    with pytest.raises(InputError, match="`methods`"):
        GradientProperties(methods=("magic",))
    with pytest.raises(InputError, match="`row_counts`"):
        SketchAUC(row_counts=(0,))
    with pytest.raises(InputError, match="`methods`"):
        AllPositive(methods=("magic",))
    with pytest.raises(InputError, match="`ranks`"):
        NMFMaps(ranks=(0,))


def test_options_that_mean_nothing_are_refused() -> None:
    with pytest.raises(InputError, match="no `data` for solver-runtime"):
        entry("solver-runtime").preset("quick", data=["cifar10"])
    with pytest.raises(InputError, match="no `seeds`"):
        entry("solver-runtime").preset("quick", seeds=3)
    assert entry("sketch-auc").preset("quick", seeds=3).seeds == 3


def test_every_study_is_an_entry_with_a_quick_preset() -> None:
    studies = {each.name: each for each in entries() if isinstance(each.presets["quick"], Study)}
    assert set(TINY) <= set(studies)
    for each in studies.values():
        assert each.title
        assert each.source
        assert 0 < each.cost <= 30
        assert each.presets["quick"].cells()


# ---------------------------------------------------------------- layers by calls of a solver


def corner(costs: torch.Tensor) -> torch.Tensor:
    """The minimizer over the box [0, 1]^n."""
    return (costs < 0).to(costs.dtype)


def test_the_black_box_gradient_is_the_slope_of_the_interpolation() -> None:
    costs = torch.tensor([[0.5, -0.5, 3.0]], dtype=torch.float64, requires_grad=True)
    weight = torch.tensor([[-1.0, 1.0, -1.0]], dtype=torch.float64)
    z = black_box(corner, costs, strength=2.0)
    assert z.tolist() == [[0.0, 1.0, 0.0]]
    (z * weight).sum().backward()
    # moved to (-1.5, 1.5, 1): the first comes in, the second goes out, the third stays
    assert costs.grad is not None
    assert costs.grad.tolist() == [[0.5, -0.5, 0.0]]


def test_the_perturbed_solver_is_the_smoothed_minimizer_and_its_slope() -> None:
    costs = torch.tensor([[0.3, -0.2]], dtype=torch.float64, requires_grad=True)
    generator = torch.Generator().manual_seed(0)
    z = perturbed(corner, costs, samples=200_000, sigma=0.5, generator=generator)
    normal = torch.distributions.Normal(0.0, 0.5)
    assert torch.allclose(z, normal.cdf(-costs.detach()), atol=5e-3)
    z.sum().backward()
    assert costs.grad is not None
    assert torch.allclose(costs.grad, -normal.log_prob(costs.detach()).exp(), atol=1e-2)


def test_what_the_layers_refuse() -> None:
    with pytest.raises(InputError, match="`strength`"):
        black_box(corner, torch.zeros(1, 2), strength=0.0)
    with pytest.raises(InputError, match="`samples`"):
        perturbed(corner, torch.zeros(1, 2), samples=0)
    with pytest.raises(InputError, match="`sigma`"):
        perturbed(corner, torch.zeros(1, 2), sigma=0.0)
