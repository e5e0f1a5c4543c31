"""The tables beside binary AUC: three classes, operating points, and F1 through other people's layers."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from setwise import metrics
from setwise._checks import InputError
from setwise.losses import FBetaLoss
from setwise.lp import LinearProgram, solve
from setwise.measures import parse
from setwise_research.reproduce import Plan, Preset, entry, run, write_table
from setwise_research.reproduce.entry import installed
from setwise_research.reproduce.peers import ProgramLoss, adversarial_f1, by_cvxpylayers, by_qpth
from setwise_research.reproduce.problem import draw_thirds, load_thirds
from setwise_research.reproduce.tasks import judge_several_classes
from support.runs import Watch, bright_images

TINY = {
    "data": ["tinyimagenet100"],
    "seeds": 1,
    "steps": 4,
    "judgements": 2,
    "batch_size": 24,
    "width": 2,
    "image_size": 8,
    "validation": 0.25,
    "algorithm": "adamw",
    "schedule": "one_cycle",
    "rates": {"adamw": [0.01], "recipe": [0.01]},
}


@pytest.fixture(scope="module", autouse=True)
def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Seven classes of 8 pixels a side, told apart by brightness, in the format of tinyimagenet100."""
    folder = tmp_path_factory.mktemp("data")
    with bright_images(folder, "tinyimagenet100", classes=7, size=8, sizes=(420, 210)) as root:
        yield root


def tiny_plan(name: str, methods: Sequence[str], levels: Sequence[float], **changes: Any) -> Plan:
    cells = {"parts": [{"methods": methods, "levels": levels}], "tune_level": levels[0]}
    preset = Preset.from_dict(TINY | cells | changes)
    found = entry(name)
    return Plan(replace(found, presets={**found.presets, "quick": preset}), "quick", preset, {})


# ---------------------------------------------------------------- three classes


def test_thirds_of_the_classes_and_what_is_dropped() -> None:
    pool = load_thirds("tinyimagenet100")
    assert np.bincount(pool.train.labels).tolist() == [120, 120, 180], "two, two and three of seven classes"
    preset = tiny_plan("multiclass-auc", ["cross_entropy"], [90]).preset
    drawn = draw_thirds(pool, preset, 90, 0)
    assert np.add(drawn.record["train"]["classes"], drawn.record["validation"]["classes"]).tolist() == [12, 12, 180]
    assert drawn.record["test"]["classes"] == [60, 60, 90]
    assert drawn.train.tensors[1].dtype == torch.int64
    whole = draw_thirds(pool, preset, 0, 0)
    assert sum(whole.record["train"]["classes"]) + sum(whole.record["validation"]["classes"]) == 420
    with pytest.raises(InputError, match="of each class in the"):
        draw_thirds(pool, preset, 99, 0)


def test_the_multiclass_table_runs_and_draws_roc_curves(tmp_path: Path) -> None:
    methods = ["cross_entropy", "weighted_cross_entropy", "lp_ova", "lp_mu", "ours", "ours_mu"]
    plan = tiny_plan("multiclass-auc", methods, [80])
    records = run(plan, tmp_path, Watch())
    assert [r["method"] for r in records] == methods
    for record in records:
        assert set(record["metrics"]) == {"auc_ova", "auc_mu", "accuracy"}
        assert len(record["roc"]) == 3
    write_table(plan, records, tmp_path)
    text = (tmp_path / "table.md").read_text()
    assert "## tinyimagenet100: AUC-mu" in text
    assert "| Method | 80 % | s / iteration | rate |" in text
    assert "Columns: dropped of the first two classes, in percent." in text
    for name in ("table.png", "roc.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    again = run(replace(plan, only={"method": ["ours"], "level": ["80"]}), tmp_path / "again", Watch())
    assert again[0]["metrics"] == next(r for r in records if r["method"] == "ours" and r["level"] == 80)["metrics"]


def test_roc_curves_have_the_area_that_is_reported() -> None:
    generator = np.random.default_rng(1)
    labels = generator.integers(0, 3, 3000)
    scores = generator.normal(size=(3000, 3)) + np.eye(3)[labels]
    judged = judge_several_classes(parse("auc_ova"), {"test_scores": scores, "test_labels": labels})
    areas = metrics.multiclass_auroc(scores, labels, average="none")
    assert np.trapezoid(judged["roc"], dx=0.01) == pytest.approx(areas, abs=2e-3)
    assert judged["metrics"]["auc_ova"] == pytest.approx(float(np.mean(areas)))


# ---------------------------------------------------------------- operating points


def test_operating_points_are_judged_by_both_and_tuned_by_their_own(tmp_path: Path) -> None:
    methods = ["cross_entropy", "eban", "ours", "eban_precision", "ours_precision"]
    plan = tiny_plan("operating-points", methods, [30])
    records = run(plan, tmp_path, Watch())
    table = plan.table
    assert [r["method"] for r in records] == methods
    for record in records:
        assert set(table.columns) <= set(record["metrics"])
        assert record["metrics"]["precision@recall>=0.9"] >= 0.2
    judged = {key: (method.measure or table.measure).name for key, method in table.methods.items()}
    assert judged["ours"] == "precision@recall>=0.9"
    assert judged["eban_precision"] == judged["ours_precision"] == "recall@precision>=0.5"
    write_table(plan, records, tmp_path)
    assert "Eban, recall 0.9" in (tmp_path / "table.md").read_text()


# ---------------------------------------------------------------- F1 through other layers


def by_setwise(samples: int) -> Any:
    def layer(program: LinearProgram) -> torch.Tensor:
        assert program.c.shape == (samples + 1,)
        return solve(program).primal

    return layer


LAYERS: Mapping[str, tuple[str | None, Any]] = {
    "setwise": (None, by_setwise),
    "cvxpylayers": ("cvxpylayers", by_cvxpylayers),
    "qpth": ("qpth", by_qpth),
}


@pytest.mark.parametrize("name", LAYERS)
def test_the_program_through_a_layer_is_the_loss(name: str) -> None:
    package, layer = LAYERS[name]
    if package is not None and find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    loss, exact = ProgramLoss(layer), FBetaLoss()
    generator = torch.Generator().manual_seed(0)
    for size in (12, 12, 7):
        scores = torch.randn(size, generator=generator)
        scores[:2] = torch.tensor([0.4, -0.6])
        labels = torch.zeros(size)
        labels[0] = labels[3] = 1.0
        mine, theirs = (scores.clone().requires_grad_() for _ in range(2))
        values = loss(mine, labels), exact(theirs, labels)
        assert values[0].item() == pytest.approx(values[1].item(), abs=1e-3)
        for value in values:
            value.backward()
        assert mine.grad is not None
        assert theirs.grad is not None
        open_box = (labels == 1) == (scores > 0)
        assert torch.allclose(mine.grad[open_box], theirs.grad[open_box], atol=5e-3)
    assert set(loss.solvers) == {12, 7}, "one solver per size"
    nothing = torch.randn(5, requires_grad=True)
    assert loss(nothing, torch.zeros(5)).item() == 0.0


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ap_perf") is None, reason="ap_perf is not installed")
def test_ap_perf_gives_a_gradient() -> None:
    scores = torch.randn(8, requires_grad=True)
    adversarial_f1()(scores, torch.tensor([1.0, 0, 0, 1, 0, 0, 0, 1])).backward()
    assert scores.grad is not None
    assert scores.grad.abs().sum() > 0


@pytest.mark.parametrize(
    "absent", [set(), {"qpth"}, {"cvxpylayers", "ap_perf"}], ids=lambda names: "-".join(sorted(names))
)
def test_peers_that_are_not_installed_are_left_out(absent: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules[installed.__module__]
    monkeypatch.setattr(module, "find_spec", lambda name: None if name in absent else object())
    methods = ["cross_entropy", "cvxpylayers", "qpth", "ap_perf", "eban"]
    plan = tiny_plan("f-score", methods, [50])
    assert {method.key for _, method in plan.rows()} == set(methods) - absent
