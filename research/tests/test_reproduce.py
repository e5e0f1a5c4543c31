from __future__ import annotations

import json
import sys
import types
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from setwise import metrics
from setwise._checks import InputError
from setwise.training import Recipe
from setwise_research.networks import ResNet18
from setwise_research.reproduce import Entry, Plan, Preset, Study, entries, entry, run, write_table
from setwise_research.reproduce import learners as learning
from setwise_research.reproduce.entry import installed
from setwise_research.reproduce.lightning_loop import EpochBatches
from setwise_research.reproduce.problem import draw, is_present, load_pool
from setwise_research.reproduce.runner import Cell
from setwise_research.reproduce.store import RunLog, commit
from setwise_research.reproduce.table import csv_text, headline, lines, markdown
from setwise_research.reproduce.training import step_batches
from support.runs import Stopped, Watch, bright_images

TINY = {
    "data": ["catdog"],
    "parts": [
        {"methods": ["cross_entropy", "focal", "ppd_sg", "ppd_adagrad", "aucm_pesg", "lp", "ours"], "levels": [80]},
        {"methods": ["cross_entropy", "ours"], "levels": [50]},
    ],
    "seeds": 2,
    "steps": 6,
    "judgements": 3,
    "batch_size": 16,
    "width": 2,
    "image_size": 8,
    "validation": 0.25,
    "algorithm": "adamw",
    "schedule": "one_cycle",
    "tune_level": 80,
    "milestones": [0.5],
    "rates": {"adamw": [0.01, 0.03], "recipe": [0.01, 0.03], "ppd_sg": [0.1], "ppd_adagrad": [0.01], "pesg": [0.1]},
}
TIMES = ("date", "seconds_per_iteration", "core_seconds")


@pytest.fixture(scope="module", autouse=True)
def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Cats and dogs of 16 pixels a side, told apart by brightness."""
    with bright_images(tmp_path_factory.mktemp("data"), "catdog64", classes=2, size=16, sizes=(200, 100)) as root:
        yield root


def tiny_plan(name: str = "binary-auc", only: Mapping[str, list[str]] | None = None, **changes: Any) -> Plan:
    preset = Preset.from_dict(TINY | changes)
    found = entry(name)
    return Plan(replace(found, presets={**found.presets, "quick": preset}), "quick", preset, only or {})


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Plan, Path, list[Mapping[str, Any]]]:
    """A table run in one go."""
    plan, out = tiny_plan(), tmp_path_factory.mktemp("out")
    return plan, out, run(plan, out, Watch())


def timeless(records: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    return {key: {n: v for n, v in record.items() if n not in TIMES} for key, record in records.items()}


# ---------------------------------------------------------------- the registry


def test_every_entry_can_be_read_and_names_its_parts() -> None:
    found = entries()
    assert {"binary-auc", "f-score"} <= {each.name for each in found}
    for each in (each for each in found if not isinstance(each.presets["quick"], Study)):
        assert isinstance(each, Entry)
        assert each.title
        assert "Meng et al." in each.source
        assert 0 < each.cost <= 20
        table = each.table()
        assert table.baseline in table.methods
        assert {"quick", "paper"} == set(each.presets)
        for preset in each.presets.values():
            assert set(preset.data) <= set(each.data)
            assert table.baseline in preset.parts[0].methods
            assert preset.tune_level in preset.parts[0].levels
        for data, methods in each.published.items():
            assert data in each.data
            levels = {level for part in each.presets["paper"].parts for level in part.levels}
            for key, numbers in methods.items():
                assert key in table.methods
                assert len(numbers) == len(levels)


@pytest.mark.parametrize("name", ["binary-auc", "f-score"])
def test_the_paper_preset_is_the_papers_protocol(name: str) -> None:
    preset = entry(name).presets["paper"]
    assert (preset.batch_size, preset.steps, preset.seeds) == (64, 40_000, 1)
    assert preset.milestone_steps() == [2_000, 10_000, 25_000]
    assert preset.factor == pytest.approx(1 / 3)
    assert preset.rates["sgd"] == (0.1, 0.01, 0.001)
    assert preset.data == ("catdog", "cifar10", "cifar100", "stl10")
    held = {"catdog": (20_000, 1_000), "cifar10": (50_000, 5_000), "cifar100": (50_000, 5_000), "stl10": (5_000, 1_000)}
    assert {data: round(n * preset.validation_share(data)) for data, (n, _) in held.items()} == {
        data: count for data, (_, count) in held.items()
    }
    assert preset.train_size is None
    assert preset.test_size is None
    network = preset.make_network(3)
    assert isinstance(network, ResNet18)
    assert network.conv1.kernel_size == (7, 7)
    assert network.width == 64
    cross_entropy = learning.Learner(preset, 0.1, nn.BCEWithLogitsLoss())
    optimizer = cross_entropy.optimizer(network)
    assert isinstance(optimizer, torch.optim.SGD)
    assert cross_entropy.scheduler(optimizer).state_dict()["gamma"] == preset.factor


def test_the_paper_levels() -> None:
    assert entry("binary-auc").presets["paper"].parts[0].levels == (91, 83, 71, 50)
    assert entry("f-score").presets["paper"].parts[0].levels == (50,)
    assert entry("multiclass-auc").presets["paper"].parts[0].levels == (90, 80, 60, 0)
    margins = {
        key: m.settings["margin"] for key, m in entry("binary-auc").table().methods.items() if "margin" in m.settings
    }
    assert {key: margins[key] for key in ("lp", "lp_margin_0.1", "lp_margin_0.001")} == {
        "lp": 0.01, "lp_margin_0.1": 0.1, "lp_margin_0.001": 0.001
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stepz": 3}, "but got `stepz`"),
        ({"data": []}, "`data` of a preset"),
        ({"steps": 7}, "`judgements` to divide 7"),
        ({"tune_level": 100}, "`levels`"),
        ({"rates": {"adamw": [0.0]}}, "`rates`"),
        ({"network": "vgg"}, "`network`"),
        ({"algorithm": "adam"}, "`algorithm`"),
        ({"schedule": "cosine"}, "`schedule`"),
        ({"validation": {"catdog": 1.0}}, "`validation`"),
        ({"milestones": [1.0]}, "`milestones`"),
        ({"batch_size": 1}, "`batch_size`"),
        ({"test_size": 0}, "`test_size`"),
        ({"factor": 0.0}, "`factor`"),
    ],
)
def test_presets_are_checked(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Preset.from_dict(TINY | changes)


def test_what_an_entry_refuses() -> None:
    with pytest.raises(InputError, match=r"one of binary-auc, .*, but got 'fscore'. Did you mean 'f-score'"):
        entry("fscore")
    with pytest.raises(InputError, match="`preset` to be one of 'quick', 'paper'"):
        entry("f-score").preset("full")
    with pytest.raises(InputError, match="`data` to be one of 'cifar10'"):
        entry("f-score").preset("quick", data=["mnist"])
    assert entry("f-score").preset("quick", data=["catdog"], seeds=7).seeds == 7
    with pytest.raises(InputError, match="have those of pesg"):
        entry("binary-auc").table().methods["aucm_pesg"].rates(Preset.from_dict(TINY | {"rates": {"adamw": [1.0]}}))


# ---------------------------------------------------------------- the sets


def test_levels_thin_the_training_set_and_the_test_set_where_asked() -> None:
    pool = load_pool("catdog")
    preset = Preset.from_dict(TINY)
    drawn = draw(pool, preset, 80, seed=0)
    sizes = drawn.record
    assert sizes["train"]["size"] + sizes["validation"]["size"] == 125
    assert sizes["train"]["positives"] + sizes["validation"]["positives"] == 100, (
        "negatives are dropped, positives stay"
    )
    assert sizes["test"] == {"size": 100, "positives": 50}
    assert drawn.train.tensors[0].shape[1:] == (3, 8, 8)
    assert drawn.train.tensors[0].mean(dim=(0, 2, 3)).abs().max() < 1e-5
    rare = draw(pool, replace(preset, thin_test=True), 20, seed=0)
    assert rare.record["test"] == {"size": 62, "positives": 12}
    some = draw(pool, replace(preset, train_size=100, test_size=40, image_size=None), 50, seed=0)
    assert some.record["train"]["size"] + some.record["validation"]["size"] == 100
    assert some.record["test"]["size"] == 40
    assert some.train.tensors[0].shape[1:] == (3, 16, 16)
    again = draw(pool, preset, 80, seed=0)
    other = draw(pool, preset, 80, seed=1)
    assert torch.equal(drawn.train.tensors[0], again.train.tensors[0])
    assert not torch.equal(drawn.train.tensors[0], other.train.tensors[0])
    with pytest.raises(InputError, match=r"of each class in the train set, but level 98 of catdog leaves [01], \d+"):
        draw(pool, preset, 98, seed=0)


def test_presence_of_data() -> None:
    assert is_present("catdog")
    assert is_present("fashion")
    assert not is_present("stl10")


def test_batches_go_on_over_passes_and_chunks() -> None:
    batches = step_batches(lambda k: [[k, 0], [k, 1], [k, 2]], steps=8, chunks=2)
    assert len(batches) == 4
    seen = []
    for chunk in (0, 1):
        batches.set_epoch(chunk)
        seen += list(batches)
    assert seen == [[k // 3, k % 3] for k in range(8)]


def test_plain_batches_are_permutations_of_whole_batches() -> None:
    learner = learning.Learner(Preset.from_dict(TINY), 0.1, nn.BCEWithLogitsLoss())
    passes = learner.passes(np.zeros(50, dtype=np.int64), seed=3)
    first, second = passes(0), passes(1)
    assert [len(batch) for batch in first] == [16, 16, 16]
    assert len({i for batch in first for i in batch}) == 48
    assert first != second
    assert passes(0) == first


# ---------------------------------------------------------------- running


def test_a_run_leaves_a_line_per_cell(whole: tuple[Plan, Path, list[Mapping[str, Any]]]) -> None:
    plan, out, records = whole
    stored = RunLog(out / "runs.jsonl").records()
    # tuned methods (cross_entropy, focal, lp, ours) have one more training each, for the rate that lost
    assert len(records) == 6 * 2 + 2 * 2
    assert len(stored) == len(records) + 4
    assert plan.counts(stored) == (len(stored), len(stored))
    assert not list((out / "checkpoints").glob("*"))
    for record in stored.values():
        assert record["entry"] == "binary-auc"
        assert record["validation"] == max(record["history"])
        assert len(record["history"]) == 3
        assert record["best_step"] in (2, 4, 6)
        assert 0 <= record["metrics"]["auroc"] <= 1
        assert 0 < record["seconds_per_iteration"] < record["core_seconds"]
        assert {"date", "commit", "versions", "threads", "command", "sizes"} <= set(record)
    command = next(record["command"] for record in records if record["method"] == "ours" and record["level"] == 50)
    assert command.startswith(
        "setwise-research reproduce binary-auc --preset quick --only data=catdog --only method=ours "
    )
    assert "--only level=50 --only seed=0" in command


def test_the_rate_is_the_one_with_the_best_validation_measure(
    whole: tuple[Plan, Path, list[Mapping[str, Any]]],
) -> None:
    plan, out, records = whole
    stored = RunLog(out / "runs.jsonl").records()
    for data, method in plan.rows():
        tried = [stored[plan.key(cell)] for cell in plan.tuning(data, method)]
        used = {record["rate"] for record in records if record["method"] == method.key}
        assert len(used) == 1
        if tried:
            best = max(tried, key=lambda record: record["validation"])
            assert used == {best["rate"]}


def test_a_finished_table_is_not_run_again(whole: tuple[Plan, Path, list[Mapping[str, Any]]]) -> None:
    plan, out, records = whole
    before = (out / "runs.jsonl").read_text()
    watch = Watch()
    assert run(plan, out, watch) == records
    assert watch.calls == [("start", 20, 20)]
    assert (out / "runs.jsonl").read_text() == before


def test_stopped_at_any_moment_it_ends_the_same(
    whole: tuple[Plan, Path, list[Mapping[str, Any]]], tmp_path: Path
) -> None:
    plan, out, _ = whole
    sittings = 0
    while True:
        sittings += 1
        try:
            run(plan, tmp_path, Watch(5))  # in the middle of a training, mostly
        except Stopped:
            with (tmp_path / "runs.jsonl").open("a") as file:
                file.write('{"key": "cut sho')  # a line that a kill cut short
            continue
        break
    assert sittings > 8
    assert timeless(RunLog(tmp_path / "runs.jsonl").records()) == timeless(RunLog(out / "runs.jsonl").records())


def test_one_cell_alone_gives_the_same_digits(
    whole: tuple[Plan, Path, list[Mapping[str, Any]]], tmp_path: Path
) -> None:
    _, out, _ = whole
    some = tiny_plan(only={"method": ["ppd_sg"], "level": ["80"], "seed": ["1"]})
    (record,) = run(some, tmp_path, Watch())
    assert timeless({"it": record})["it"] == timeless(RunLog(out / "runs.jsonl").records())[str(record["key"])]


def test_a_changed_recipe_is_run_again_and_nothing_else(
    whole: tuple[Plan, Path, list[Mapping[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, out, _ = whole
    stored = RunLog(out / "runs.jsonl").records()
    changed = dict(plan.table.methods["ours"].settings) | {"blend": 0.9}
    monkeypatch.setitem(plan.table.methods, "ours", replace(plan.table.methods["ours"], settings=changed))
    done, total = plan.counts(stored)
    assert total - done == 5
    more = tiny_plan(steps=9)
    assert more.counts(stored)[0] == 0


def test_a_rate_that_diverges_is_recorded_and_not_chosen(tmp_path: Path) -> None:
    plan = tiny_plan(
        only={"method": ["cross_entropy"], "level": ["80"], "seed": ["0"]},
        rates=TINY["rates"] | {"adamw": [1e25, 0.01]},  # type: ignore[operator]
        weight_decay=0.1,
    )
    (record,) = run(plan, tmp_path, Watch())
    assert record["rate"] == 0.01
    lost = next(r for r in RunLog(tmp_path / "runs.jsonl").records().values() if r["rate"] == 1e25)
    assert "finite" in lost["failed"]
    assert lost["metrics"] == {}
    bad = [dict(record) | {"metrics": {}, "failed": "diverged", "seconds_per_iteration": None}]
    assert "Cross-entropy diverged at 80 %, seed 0." in markdown(plan, bad)
    assert "n/a" in markdown(plan, bad)


def test_averaged_weights_are_the_ones_judged_and_survive_a_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def averaging(self: learning.RecipeLearner, preset: Preset, rate: float, measure: str) -> None:
        self.recipe = replace(
            Recipe.for_measure(measure, batch_size=preset.batch_size, learning_rate=rate),
            average="ema",
            average_decay=0.5,
        )
        learning.Learner.__init__(self, preset, rate, self.recipe.loss())

    only = {"method": ["ours"], "level": ["80"], "seed": ["0"]}
    plan = tiny_plan(only=only, rates=TINY["rates"] | {"recipe": [0.03]})  # type: ignore[operator]
    (plain,) = run(plan, tmp_path / "plain", Watch())
    monkeypatch.setattr(learning.RecipeLearner, "__init__", averaging)
    (averaged,) = run(plan, tmp_path / "averaged", Watch())
    with pytest.raises(Stopped):
        run(plan, tmp_path / "stopped", Watch(2))
    (resumed,) = run(plan, tmp_path / "stopped", Watch())
    assert averaged["metrics"] != plain["metrics"]
    assert resumed["metrics"] == averaged["metrics"]
    assert resumed["history"] == averaged["history"]


def test_what_a_plan_refuses() -> None:
    with pytest.raises(InputError, match="Expected --only with data, method, level, seed, but got 'colour'"):
        tiny_plan(only={"colour": ["red"]})
    with pytest.raises(InputError, match="--only level= one of 50, 80, but got '91'"):
        tiny_plan(only={"level": ["91"]})
    with pytest.raises(FileNotFoundError):
        run(tiny_plan(data=["stl10"]), Path("nowhere"), Watch())


# ---------------------------------------------------------------- LibAUC, where it is installed


def test_a_method_whose_package_is_missing_is_left_out(
    whole: tuple[Plan, Path, list[Mapping[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, _, records = whole
    method = plan.table.methods["aucm_pesg"]
    monkeypatch.setitem(plan.table.methods, "aucm_pesg", replace(method, needs="no_such_package"))
    assert not installed(plan.table.methods["aucm_pesg"])
    assert "aucm_pesg" not in {m.key for _, m in plan.rows()}
    assert "aucm_pesg" in {m.key for _, m in plan.rows([record_of("aucm_pesg", 80.0, 0, 0.5)])}, "run elsewhere"
    assert "LibAUC AUCM + PESG was left out: `no_such_package` is not installed." in markdown(plan, records)


def test_libauc_gets_balanced_batches_probabilities_and_its_stages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[float, float, float]] = []
    stages: list[int] = []

    class AUCMLoss(nn.Module):
        def __init__(self, version: str) -> None:
            super().__init__()
            assert version == "v2"

        def forward(self, probability: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            seen.append((probability.min().item(), probability.max().item(), target.mean().item()))
            return (probability[target == 0].mean() - probability[target == 1].mean()).reshape(1)

    class PESG(torch.optim.SGD):
        def __init__(
            self, parameters: Any, *, loss_fn: nn.Module, lr: float, weight_decay: float, verbose: bool
        ) -> None:
            assert isinstance(loss_fn, AUCMLoss)
            assert not verbose
            super().__init__(parameters, lr=lr, weight_decay=weight_decay)

        def update_regularizer(self) -> None:
            stages.append(len(seen))

    for name, content in (
        ("libauc", {}),
        ("libauc.losses", {"AUCMLoss": AUCMLoss}),
        ("libauc.optimizers", {"PESG": PESG}),
    ):
        module = types.ModuleType(name)
        module.__spec__ = ModuleSpec(name, None)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    (record,) = run(tiny_plan(only={"method": ["aucm_pesg"], "seed": ["0"]}), tmp_path, Watch())
    assert record["metrics"]
    assert len(seen) == 6
    assert stages == [4], "after the gradient of step 3, where half of the training is done"
    for low, high, share in seen:
        assert 0 <= low <= high <= 1
        assert share == 0.5


# ---------------------------------------------------------------- the table


def record_of(method: str, level: float, seed: int, auroc: float | None, **more: Any) -> dict[str, Any]:
    values = {} if auroc is None else {"auroc": auroc, "average_precision": auroc / 2}
    plain = {"data": "catdog", "method": method, "level": level, "seed": seed, "rate": 0.01, "metrics": values}
    tail = {"seconds_per_iteration": 0.02, "date": "2026-01-02T03:04:05+00:00", "commit": "abc", "threads": 1}
    return plain | tail | {"device": "cpu"} | more


def stored_records() -> list[dict[str, Any]]:
    base = {0: 0.70, 1: 0.74, 2: 0.72}
    ours = {0: 0.80, 1: 0.85, 2: 0.81}
    return [
        *(record_of("cross_entropy", 80.0, seed, value) for seed, value in base.items()),
        *(record_of("ours", 80.0, seed, value) for seed, value in ours.items()),
        record_of("lp", 80.0, 1, 0.5),
    ]


def test_means_and_paired_differences_from_stored_lines(tmp_path: Path) -> None:
    log = RunLog(tmp_path / "runs.jsonl")
    for k, record in enumerate(stored_records()):
        log.append({"key": str(k)} | record)
    plan, records = tiny_plan(), list(log.records().values())
    found = {(line.method, line.column): line for line in lines(plan, records)}
    ours = found["ours", "auroc"]
    assert ours.runs == 3
    assert ours.value == metrics.mean_interval([0.80, 0.85, 0.81])
    assert ours.difference == metrics.paired_mean_interval([0.80, 0.85, 0.81], [0.70, 0.74, 0.72])
    assert found["cross_entropy", "auroc"].difference is None
    lp = found["lp", "auroc"].difference
    assert lp is not None
    assert lp.estimate == pytest.approx(0.5 - 0.74), "only the seed that both have"
    text = markdown(plan, records)
    assert "| Ours (Recipe) | 0.820 [0.754, 0.886] | 0.0200 | 0.01 |" in text
    assert "| Ours (Recipe) | **+0.100 [+0.075, +0.125]** |" in text
    assert "| LP of the papers, margin 0.01 | -0.240 |" in text
    assert "Not finished: 7 of 16 runs" in text
    assert "| catdog | PPD-SG | 79.1 | 81.5 | 85.5 | 87.1 |" in text
    assert "Commit: abc. Dates: 2026-01-02T03:04:05+00:00 to" in text
    assert headline(plan, records) == "AUROC of ours against cross_entropy on catdog at 80 %: +0.100 [+0.075, +0.125]"
    rows = [row.split(",") for row in csv_text(plan, records).splitlines()]
    assert rows[0][:6] == ["data", "level", "method", "measure", "runs", "mean"]
    row = next(row for row in rows if row[2:4] == ["ours", "auroc"])
    assert row[:5] == ["catdog", "80", "ours", "auroc", "3"]
    assert float(row[8]) == pytest.approx(0.1)


def test_the_files_of_a_table(whole: tuple[Plan, Path, list[Mapping[str, Any]]], tmp_path: Path) -> None:
    plan, _, records = whole
    write_table(plan, records, tmp_path)
    assert (tmp_path / "table.md").read_text().startswith("# binary-auc, quick preset\n")
    assert "| Method | 80 % | 50 % | s / iteration | rate |" in (tmp_path / "table.md").read_text()
    assert len((tmp_path / "table.csv").read_text().splitlines()) == 1 + 2 * (6 + 2)
    assert (tmp_path / "table.png").read_bytes().startswith(b"\x89PNG")
    write_table(plan, [], tmp_path / "empty")
    assert "No run is finished." in (tmp_path / "empty" / "table.md").read_text()


def test_the_f_score_table_says_who_calls_everything_positive(tmp_path: Path) -> None:
    parts = [{"methods": ["cross_entropy", "soft_f1", "lp", "ours"], "levels": [50]}]
    plan = tiny_plan("f-score", parts=parts, tune_level=50, seeds=1, thin_test=True)
    records = run(plan, tmp_path, Watch())
    assert {record["method"] for record in records} == {"cross_entropy", "soft_f1", "lp", "ours"}
    for record in records:
        values = record["metrics"]
        assert 0 <= values["positive_at_half"] <= 1
        assert {"f1", "f1_at_half", "accuracy_at_half"} <= set(values)
    note = plan.table.note
    assert note is not None
    plain = [dict(r) | {"metrics": dict(r["metrics"]) | {"positive_at_half": 0.6}} for r in records]
    assert note(plain) == "No run ended where everything is predicted positive."
    stuck = [dict(r) | {"metrics": dict(r["metrics"]) | {"positive_at_half": 1.0}} for r in records[1:2]]
    assert note([*plain, *stuck]) == "Runs that call at least 95 % positive at 0.5: Soft F1 at 50 % (1 of 2)."
    assert note(plain) in markdown(plan, plain)


# ---------------------------------------------------------------- the lines


def test_lines_are_strict_json_and_the_last_of_equals_counts(tmp_path: Path) -> None:
    log = RunLog(tmp_path / "deep" / "runs.jsonl")
    assert log.records() == {}
    log.append({"key": "a", "value": float("nan"), "array": np.array([1, 2])})
    log.append({"key": "a", "value": 2.0})
    log.append({"key": "b"})
    with log.path.open("a") as file:
        file.write("[1]\n{}\nnot json\n")
    assert log.records() == {"a": {"key": "a", "value": 2.0}, "b": {"key": "b"}}
    assert json.loads(log.path.read_text().splitlines()[0])["value"] is None


def test_the_commit_is_that_of_the_source_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    found = commit()
    assert found is None or len(found.removesuffix("-dirty")) == 40
    monkeypatch.setenv("PATH", "")
    assert commit() is None


def test_cells_are_told_apart_by_everything_that_decides_them() -> None:
    plan = tiny_plan()
    cell = Cell("catdog", "lp", 80.0, 0, 0.1)
    others = [replace(cell, method="ours"), replace(cell, level=50.0), replace(cell, seed=1), replace(cell, rate=0.2)]
    keys = {plan.key(each) for each in (cell, *others)} | {tiny_plan(width=3).key(cell)}
    assert len(keys) == 6
    assert tiny_plan(seeds=9).key(cell) == plan.key(cell), "more seeds leave what is done"


def test_batches_are_those_of_the_epoch_set_after_the_iterator_was_made() -> None:
    batches = EpochBatches(2, lambda epoch: [[epoch], [epoch + 1]])
    early = iter(batches)
    batches.set_epoch(5)
    assert list(early) == [[5], [6]]
    assert len(batches) == 2
