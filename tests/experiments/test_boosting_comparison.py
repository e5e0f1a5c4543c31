"""Comparisons with trees: LightGBM on the measure beside its own binary objective."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("lightgbm", reason="LightGBM is not installed")

from setwise._checks import InputError
from setwise.app.model_file import TableModel
from setwise.app.run_folder import RunFolder
from setwise.data import read_frame
from setwise.experiments.comparison import ComparisonSettings, compare
from setwise.experiments.problem import draw_rows, load_problem
from setwise.experiments.rejudging import rejudge


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> ComparisonSettings:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(500, 2))
    labels = x[:, 0] ** 2 + 0.5 * generator.normal(size=500) > 1.5
    lines = ["a,b,sex,w,y"]
    lines += [
        f"{a:.4f},{'' if k % 9 == 0 else f'{b:.4f}'},{'FM'[k % 2]},{1 + k % 2},{int(y)}"
        for k, ((a, b), y) in enumerate(zip(x, labels, strict=True))
    ]
    path = tmp_path_factory.mktemp("data") / "rings.csv"
    path.write_text("\n".join(lines) + "\n")
    return ComparisonSettings.for_measure(
        "auc",
        model="boosting",
        data=str(path),
        weight="w",
        group=("sex",),
        subject_to=("recall[group=sex]>=0.5",),
        minority=None,
        seeds=2,
        epochs=30,
    )


@pytest.fixture(scope="module")
def run(settings: ComparisonSettings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "out"
    compare(settings, out)
    return out


def test_both_objectives_learn_and_differ(run: Path) -> None:
    results = json.loads((run / "results.json").read_text())
    assert "lightgbm" in results["versions"]
    for seed in (0, 1):
        own, ours = (
            next(r for r in results["runs"] if (r["seed"], r["method"]) == (seed, method))
            for method in ("cross_entropy", "auc")
        )
        assert min(own["metrics"]["auroc"], ours["metrics"]["auroc"]) > 0.75
        assert own["history"]["measure"] != ours["history"]["measure"]
        assert ours["best_epoch"] == 1 + int(np.argmax(ours["history"]["measure"]))
        assert ours["feasible"]
    assert '"surrogate"' not in (run / "report.html").read_text().split('id="data"')[1].split("</script>")[0]


def test_it_is_judged_again_from_the_stored_trees(run: Path) -> None:
    assert rejudge(run).disagreements == []


def test_the_stored_model_predicts_as_it_did(run: Path, settings: ComparisonSettings) -> None:
    model = TableModel.load(run)
    assert model.kind == "boosting"
    seed = model.about["seed"]
    rows, _ = draw_rows(load_problem(settings), settings, seed)
    found = model.predict(read_frame(settings.data, texts=model.encoding.texts)[0]).scores[rows["test"]]
    np.testing.assert_array_equal(found, RunFolder(run).scores(seed, "auc")["test_scores"])


def test_the_recipe_reaches_the_objective(settings: ComparisonSettings, run: Path, tmp_path: Path) -> None:
    one = replace(settings, seeds=1, blend=1.0)
    first = compare(one, tmp_path / "a").runs[1]["history"]["measure"]
    before = json.loads((run / "results.json").read_text())["runs"][1]["history"]["measure"]
    assert first != before
    with pytest.raises(InputError, match="`warm_up` only with the model 'network'"):
        compare(replace(one, warm_up=0.5), tmp_path / "b")


def test_defaults_are_rounds(settings: ComparisonSettings) -> None:
    assert (settings.epochs, settings.patience) == (30, 40)
    assert ComparisonSettings.for_measure("auc", model="boosting").epochs == 400
