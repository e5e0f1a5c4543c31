from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from setwise import InputError, metrics
from setwise_research.benchmark_suite import Cell, Protocol, Results, jobs, problems, run, runner, write_page
from setwise_research.benchmark_suite.fitting import MEASURES, Fitted, Training, fit, scores_of
from setwise_research.benchmark_suite.methods import METHODS, of_recipe
from setwise_research.benchmark_suite.problems import Problem, draw
from setwise_research.benchmark_suite.stacked import make_stack
from setwise_research.benchmark_suite.statistics import holm, paired, pooled

SMALL = Protocol(table_seeds=3, table_steps=6, judgements=2, table_batch=32)


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> Problem:
    """One small table in place of all data."""
    rng = np.random.default_rng(0)
    labels = (np.arange(300) % 6 == 0).astype(np.int64)
    inputs = torch.from_numpy(rng.normal(size=(300, 4)) + 0.8 * labels[:, None]).float()
    problem = Problem(inputs, labels)
    monkeypatch.setattr(problems, "load", lambda name: problem)  # noqa: ARG005 (one problem)
    monkeypatch.setattr(problems, "all_cells", lambda: [Cell("made up")])
    monkeypatch.setattr("setwise_research.benchmark_suite.page.all_cells", lambda: [Cell("made up")])
    return problem


@pytest.mark.parametrize("degrees", [1, 2, 5, 9, 100])
@pytest.mark.parametrize("statistic", [0.0, 0.7, -2.3, 8.0])
def test_p_values_are_those_of_scipy(statistic: float, degrees: int) -> None:
    expected = 2 * stats.t.sf(abs(statistic), degrees)
    assert metrics.student_p_value(statistic, degrees) == pytest.approx(expected, abs=1e-12)


def test_holm_steps_down() -> None:
    assert holm([0.01, 0.012, 0.04, 0.2]) == [True, True, False, False]  # 0.04 > 0.05 / 2
    assert holm([0.04, 0.04]) == [False, False]
    assert holm([]) == []


def test_paired_differences() -> None:
    found = paired(Cell("a"), "auc", {0: 0.9, 1: 0.8, 2: 0.85, 7: 0.1}, {0: 0.8, 1: 0.75, 2: 0.78})
    assert found is not None
    assert found.seeds == 3
    test = stats.ttest_rel([0.9, 0.8, 0.85], [0.8, 0.75, 0.78])
    assert found.p_value == pytest.approx(test.pvalue)
    assert found.sign == 1
    assert paired(Cell("a"), "auc", {0: 0.9}, {0: 0.8}) is None
    same = paired(Cell("a"), "auc", {0: 0.9, 1: 0.8}, {0: 0.9, 1: 0.8})
    assert same is not None
    assert (same.p_value, same.sign) == (1.0, 0)
    assert pooled([found]) is None


def test_a_network_learns_in_a_stack_as_it_does_alone(made_up: Problem) -> None:
    method = of_recipe("auc", "ours", "Ours", average="ema", average_decay=0.9)
    assert method.make is not None
    make = method.make
    together, alone = (
        fit(
            made_up,
            draw(made_up, seeds),
            seeds,
            lambda share, count: make({"learning_rate": 0.01, "weight_decay": 0.01}, 32, share, count),
            steps=12,
            judgements=2,
        )
        for seeds in ([3, 4], [4])
    )
    np.testing.assert_allclose(together.validation["auc"][:, 1], alone.validation["auc"][:, 0], atol=1e-6)
    np.testing.assert_allclose(together.test["auc"]["ap"][1], alone.test["auc"]["ap"][0], atol=1e-6)


def test_members_are_judged_by_their_mean_and_learn_as_they_do_alone(made_up: Problem) -> None:
    draws = draw(made_up, [3, 4])
    train = torch.from_numpy(draws.train)
    stack = make_stack(made_up.inputs, train, [3, 4], members=2)
    alone = [make_stack(made_up.inputs, train, [3 + more, 4 + more]) for more in (0, 10_000)]
    each = [scores_of(one, made_up, draws.test) for one in alone]
    np.testing.assert_allclose(scores_of(stack, made_up, draws.test), (each[0] + each[1]) / 2, atol=1e-6)
    method = of_recipe("auc", "ours", "Ours")
    assert method.make is not None
    make, setting = method.make, {"learning_rate": 0.01, "weight_decay": 0.01}

    def trained(members: int, seeds: list[int]) -> Fitted:
        def training(share: float, count: int) -> Training:
            return replace(make(setting, 32, share, count), members=members)

        return fit(made_up, draw(made_up, seeds), seeds, training, steps=12, judgements=2)

    together, one = trained(2, [3, 4]), trained(2, [4])
    np.testing.assert_allclose(together.validation["auc"][:, 1], one.validation["auc"][:, 0], atol=1e-6)
    assert not np.allclose(one.validation["ap"], trained(1, [4]).validation["ap"])


@pytest.mark.usefixtures("made_up")
def test_settings_are_tuned_with_one_network() -> None:
    results = Results(Path("none"))
    tuned = list(jobs(SMALL, results, methods=["cross_entropy", "four_networks", "ours"]))
    assert {job.members for job in tuned} == {1}
    assert {job.method.key for job in tuned} == {"cross_entropy", "ours"}
    results.rows = [row for job in tuned for row in text_rows(run(job, SMALL))]
    reported = list(jobs(SMALL, results, methods=["four_networks", "ours"]))
    assert {job.members for job in reported} == {4}
    assert {job.method.key for job in reported} == {"four_networks", "ours"}


def text_rows(rows: list[dict[str, Any]]) -> list[dict[str, str]]:
    return [{name: str(value) for name, value in row.items()} for row in rows]


@pytest.mark.usefixtures("made_up")
def test_runs_go_on_where_they_stopped_and_give_the_same_digits(tmp_path: Path) -> None:
    keys = ["cross_entropy", "ours"]
    whole, parts = Results.read(tmp_path / "whole.csv"), Results.read(tmp_path / "parts.csv")
    for job in jobs(SMALL, whole, methods=keys):
        whole.append(run(job, SMALL))
    for job in jobs(SMALL, parts, methods=keys):
        parts.append(run(job, SMALL))
        if len(parts.rows) > 10:
            break
    again = Results.read(tmp_path / "parts.csv")
    assert again.rows == parts.rows
    for job in jobs(SMALL, again, methods=keys):
        again.append(run(job, SMALL))
    assert list(jobs(SMALL, again, methods=keys)) == []
    timeless = [{k: v for k, v in row.items() if k not in ("date", "seconds")} for row in whole.rows]
    assert timeless == [{k: v for k, v in row.items() if k not in ("date", "seconds")} for row in again.rows]
    reported = [row for row in whole.rows if row["stage"] == "reported"]
    assert {(row["method"], row["measure"], row["seed"]) for row in reported} == {
        (key, measure, str(seed)) for key in keys for measure in MEASURES for seed in range(3)
    }
    page = tmp_path / "page.md"
    write_page(again, SMALL, page)
    text = page.read_text()
    assert "| made up |" in text
    assert "wins, ties, losses" in text
    assert (tmp_path / "page.png").stat().st_size > 1000


@pytest.mark.usefixtures("made_up")
def test_lightgbm_gets_its_row() -> None:
    job = next(job for job in jobs(SMALL, Results(Path("none")), methods=["lightgbm"]))
    rows = run(job, SMALL)
    assert {row["measure"] for row in rows} == set(MEASURES)
    assert all(0.5 < float(row["auc"]) <= 1 for row in rows)


@pytest.mark.usefixtures("made_up")
def test_a_changed_recipe_is_run_again() -> None:
    ours = [m for m in METHODS if m.key == "ours"]
    marks = {SMALL.fingerprint(m, images=False) for m in ours}
    assert len(marks) == len(ours)
    assert SMALL.fingerprint(ours[0], images=False) != Protocol().fingerprint(ours[0], images=False)


@pytest.mark.usefixtures("made_up")
def test_unknown_names_are_refused() -> None:
    with pytest.raises(InputError, match="`data`"):
        next(jobs(SMALL, Results(Path("none")), data=["cifar11"]))
    with pytest.raises(InputError, match="`method`"):
        next(jobs(SMALL, Results(Path("none")), methods=["our"]))


def test_a_file_of_other_columns_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerow(["a", "b"])
    with pytest.raises(InputError, match=r"other\.csv"):
        Results.read(path)


def test_a_line_that_was_cut_short_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "cut.csv"
    row = dict.fromkeys(runner.COLUMNS, "1")
    Results.read(path).append([row, row])
    text = path.read_text()
    path.write_text(text[:-12])
    assert len(Results.read(path).rows) == 1


@pytest.mark.data
def test_images_are_thinned_and_the_test_set_weighted() -> None:
    try:
        problem = problems.load("mnist")
    except (OSError, InputError):
        pytest.skip("mnist is not there; make data")
    draws = draw(problem, [0, 1], 0.05)
    for part in (draws.train, draws.validation):
        assert problem.labels[part].mean(axis=1) == pytest.approx([0.05, 0.05], abs=0.002)
    share = problem.labels[draws.test[0]].mean()
    weighted = share * draws.test_weight / (share * draws.test_weight + 1 - share)
    assert weighted == pytest.approx(0.05)
    assert set(draws.train[0]).isdisjoint(draws.validation[0])
