from __future__ import annotations

import json
import math
import shutil
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from setwise import metrics
from setwise._checks import InputError
from setwise.app.files import plain, write_json
from setwise.app.images import comparison, models
from setwise.app.images.comparison import ComparisonSettings, compare
from setwise.app.images.evaluation import evaluate, row_of
from setwise.app.images.models import initial_network
from setwise.app.images.problem import load_problem, split
from setwise.app.images.reevaluation import reevaluate
from setwise.app.images.results_table import table
from setwise.app.images.training import NetworkTraining, shuffled
from setwise.app.images.training_store import TrainingStore
from setwise.app.run_folder import RunFolder
from setwise.app.run_settings import read_settings
from setwise.measures import Measure, parse
from setwise.training import Blend, EachMember
from support.resealing import change_json, change_weights, note_digests, seal_text
from support.runs import Stopped, Watch


def write_images(folder: Path, *, classes: int, sizes: tuple[int, int] = (240, 90), seed: int = 0) -> Path:
    """Images of 8 by 8 in which the last class is brighter, one in ``classes``; a small folder of arrays."""
    generator = np.random.default_rng(seed)
    folder.mkdir(exist_ok=True)
    for part, n in zip(("train", "test"), sizes, strict=True):
        labels = np.arange(n) % classes
        pictures = generator.integers(0, 180, size=(n, 8, 8)) + 25 * labels[:, None, None]
        np.save(folder / f"{part}_images.npy", pictures.astype(np.uint8))
        np.save(folder / f"{part}_labels.npy", labels)
    return folder


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_images(tmp_path_factory.mktemp("images"), classes=3)


@pytest.fixture(scope="module")
def settings(images: Path) -> ComparisonSettings:
    return ComparisonSettings(
        data=str(images), positive=2, minority=None, seeds=2, epochs=3, patience=2, batch_size=32, width=4, members=2
    )


def scores_of(out: Path, run: dict[str, Any]) -> dict[str, Any]:
    return TrainingStore(RunFolder(out)).scores(run["seed"], run["method"])


def runs_of(out: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((out / "results.json").read_text())["runs"]
    return found


@pytest.fixture(scope="module")
def finished(settings: ComparisonSettings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run") / "out"
    compare(settings, out)
    return out


@pytest.fixture(autouse=True)
def no_page(monkeypatch: pytest.MonkeyPatch, finished: Path) -> None:
    """Drawing takes longer than the trainings here, and one run has its page already."""
    assert (finished / "report.html").is_file()
    monkeypatch.setattr(comparison, "write_report", lambda *_: None)


def comparable(out: Path) -> dict[str, Any]:
    """Results without the times, which differ between any two runs, and so the checksum."""
    results: dict[str, Any] = json.loads((out / "results.json").read_text())
    del results["sha256"]
    for run in results["runs"]:
        assert run.pop("seconds") > 0
    return results


def perceptron(inputs: torch.Tensor, width: int) -> torch.nn.Module:
    """A network with dropout and without batch norm, whose statistics move even where no weight does."""
    layers = torch.nn.Linear(inputs[0].numel(), width), torch.nn.Dropout(0.5), torch.nn.Linear(width, 1)
    return torch.nn.Sequential(torch.nn.Flatten(), *layers, torch.nn.Flatten(0))


def assert_same_run(out: Path, other: Path) -> None:
    assert comparable(out) == comparable(other)
    for file in sorted((other / "models").iterdir()):
        mine, theirs = load_file(out / "models" / file.name), load_file(file)
        assert all(torch.equal(mine[name], theirs[name]) for name in theirs)
    assert not any((out / "checkpoints").glob("*"))


# ---------------------------------------------------------------- what a comparison leaves behind


def test_the_folder_holds_everything(finished: Path, settings: ComparisonSettings) -> None:
    assert {path.name for path in finished.iterdir()} == {
        "settings.json", "runs.jsonl", "results.json", "report.html",
        "models", "scores", "checkpoints", ".lock",
    }  # fmt: skip
    stems = {f"seed{seed}-{method}" for seed in (0, 1) for method in ("cross_entropy", "auc")}
    assert {path.name for path in (finished / "models").iterdir()} == {f"{stem}.safetensors" for stem in stems}
    assert {path.name for path in (finished / "scores").iterdir()} == {f"{stem}.safetensors" for stem in stems}
    assert read_settings(RunFolder(finished), ComparisonSettings)[0] == settings
    assert len((finished / "runs.jsonl").read_text().splitlines()) == 4


def test_results_hold_settings_versions_draws_and_the_table(finished: Path, settings: ComparisonSettings) -> None:
    results = json.loads((finished / "results.json").read_text())
    assert results["settings"] == settings.to_dict()
    assert set(results["versions"]) == {"setwise", "torch", "numpy", "python"}
    assert results["data"]["positive"] == "class 2"
    assert [d["seed"] for d in results["draws"]] == [0, 1]
    assert [results["draws"][0][part]["size"] for part in ("train", "validation", "test")] == [180, 60, 90]
    assert [row["title"] for row in results["table"]] == ["AUROC", "Average precision", "F1", "Precision at recall 0.9"]
    runs = {(run["seed"], run["method"]): run["metrics"] for run in results["runs"]}
    first = results["table"][0]
    gains = [runs[s, "auc"]["auroc"] - runs[s, "cross_entropy"]["auroc"] for s in (0, 1)]
    expected = metrics.mean_interval(gains)
    assert first["difference"]["mean"] == pytest.approx(expected.estimate)
    assert -1 <= first["difference"]["low"] <= max(expected.low, -1), "wider: the test rows are a sample too"
    assert results["verdict"].count("AUROC") >= 1
    assert "it covers seeds and the sampling of the test set" in results["verdict"]
    for row in results["table"]:
        assert 0 <= row["auc"]["low"] <= row["auc"]["mean"] <= row["auc"]["high"] <= 1


def test_measures_come_from_the_stored_scores_and_the_threshold_from_validation_only(finished: Path) -> None:
    for run in runs_of(finished):
        scores = scores_of(finished, run)
        choice = metrics.choose_threshold(scores["validation_scores"], scores["validation_labels"], maximize="f1")
        assert run["threshold"] == choice.threshold
        test, labels = scores["test_scores"], scores["test_labels"]
        assert run["metrics"]["auroc"] == metrics.auroc(test, labels)
        assert run["metrics"]["f1"] == metrics.fbeta(test, labels, threshold=choice.threshold)
        assert run["metrics"]["precision@recall>=0.9"] == metrics.precision_at_recall(test, labels, recall=0.9)


def test_the_best_epoch_of_the_validation_measure_is_kept(finished: Path) -> None:
    for run in runs_of(finished):
        history = run["history"]["measure"]
        assert run["best_epoch"] == 1 + history.index(max(history))
        assert run["epochs"] == len(history) == len(run["history"]["gap"])
        scores = scores_of(finished, run)
        assert metrics.auroc(scores["validation_scores"], scores["validation_labels"]) == pytest.approx(max(history))
        gap = [s - (1 - m) for s, m in zip(run["history"]["surrogate"], history, strict=True)]
        assert run["history"]["gap"] == pytest.approx(gap)


def test_training_stops_when_patience_is_used_up(
    settings: ComparisonSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "make_network", perceptron)
    stuck = replace(settings, seeds=1, epochs=9, patience=2, learning_rate_cross_entropy=1e-12, schedule="constant")
    run = compare(stuck, tmp_path / "out").runs[0]
    assert (run["epochs"], run["best_epoch"]) == (3, 1)


def test_progress_is_told_everything(settings: ComparisonSettings, tmp_path: Path) -> None:
    progress = Watch(-1)
    compare(replace(settings, seeds=1, epochs=1), tmp_path / "out", progress=progress)
    names = [call[0] for call in progress.calls]
    assert names == ["start", "training", "epoch", "finished", "training", "epoch", "finished"]
    assert progress.calls[0] == ("start", 2, 0)
    assert progress.calls[1] == ("training", 0, "Cross-entropy", 1)


def test_it_is_quiet_and_puts_everything_back(
    settings: ComparisonSettings, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compare(replace(settings, seeds=1, epochs=1, threads=1), tmp_path / "out")
    assert capfd.readouterr() == ("", "")
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)


# ---------------------------------------------------------------- draws


def test_both_methods_have_the_same_sets_and_the_same_start(finished: Path, settings: ComparisonSettings) -> None:
    for seed in (0, 1):
        first, second = (TrainingStore(RunFolder(finished)).scores(seed, method) for method in ("cross_entropy", "auc"))
        assert np.array_equal(first["test_labels"], second["test_labels"])
        assert np.array_equal(first["validation_labels"], second["validation_labels"])
    inputs = split(load_problem(settings), settings, 0).train.tensors[0]
    starts = [initial_network(inputs, settings.width, seed).state_dict() for seed in (0, 0, 1)]
    assert all(torch.equal(starts[0][name], starts[1][name]) for name in starts[0])
    assert not all(torch.equal(starts[0][name], starts[2][name]) for name in starts[0])


def test_the_three_sets_are_disjoint_scaled_by_the_training_set_and_differ_by_seed(
    settings: ComparisonSettings,
) -> None:
    loaded = load_problem(settings)
    sets, other = split(loaded, settings, 0), split(loaded, settings, 1)
    inputs = sets.train.tensors[0]
    assert inputs.mean().abs() < 1e-4
    assert inputs.std(correction=0) == pytest.approx(1, abs=1e-4)
    parts = (sets.train, sets.validation, sets.test)
    rows = [tuple(row) for part in parts for row in part.tensors[0].flatten(1).tolist()]
    assert len(rows) == len(set(rows)) == 330
    assert not torch.equal(inputs, other.train.tensors[0])


def test_imbalance_reaches_all_three_sets_and_is_recorded(images: Path) -> None:
    settings = ComparisonSettings(data=str(images), positive=2, minority=0.2, validation=0.5, seeds=1)
    loaded = load_problem(settings)
    assert loaded.positive == "class 2"
    record = split(loaded, settings, 3).record
    for part in ("train", "validation", "test"):
        assert record[part]["positives"] / record[part]["size"] == pytest.approx(0.2, abs=0.02)
    assert record["imbalance"]["train"]["seed"] == record["imbalance"]["test"]["seed"] == 3
    assert record["imbalance"]["test"]["counts_before"] == {"0": 60, "1": 30}


@pytest.mark.parametrize(
    ("positive", "name"), [("Shirt", "shirt"), ("6", "shirt"), (6, "shirt"), (None, "shirt"), (0, "T-shirt/top")]
)
def test_the_positive_class_by_name_index_or_default(positive: str | int | None, name: str) -> None:
    loaded = load_problem(ComparisonSettings(positive=positive))
    assert loaded.positive == name
    assert int(loaded.labels.sum()) == 300


@pytest.mark.parametrize("positive", ["shirtt", 10, "-1"])
def test_an_unknown_positive_class_is_refused(positive: str | int) -> None:
    with pytest.raises(InputError, match=r"`positive`.*6 \(shirt\)"):
        load_problem(ComparisonSettings(positive=positive))


def test_sets_without_enough_positives_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    few = write_images(tmp_path / "few", classes=20, sizes=(60, 20))
    with pytest.raises(InputError, match=r"positives .* in the (validation|test) set"):
        compare(ComparisonSettings(data=str(few), positive=19, minority=None), tmp_path / "out")
    assert not (tmp_path / "out").exists()


# ---------------------------------------------------------------- stopping and resuming


@pytest.mark.parametrize("epochs", [1, 2, 3, 5, 8])
def test_stopped_anywhere_and_resumed_gives_the_same_results(
    settings: ComparisonSettings, finished: Path, tmp_path: Path, epochs: int
) -> None:
    out = tmp_path / "out"
    with pytest.raises(Stopped):
        compare(settings, out, progress=Watch(epochs))
    assert not (out / "results.json").exists()
    progress = Watch(-1)
    compare(settings, out, resume=True, progress=progress)
    assert_same_run(out, finished)
    repeated = [call for call in progress.calls if call[0] == "training"]
    assert len(repeated) == 4 - progress.calls[0][2]


def test_dropout_resumes_alike(settings: ComparisonSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "make_network", perceptron)
    settings = replace(settings, seeds=1)
    compare(settings, tmp_path / "whole")
    with pytest.raises(Stopped):
        compare(settings, tmp_path / "out", progress=Watch(3))
    torch.rand(3)  # whatever happened in between
    compare(settings, tmp_path / "out", resume=True)
    assert_same_run(tmp_path / "out", tmp_path / "whole")


def test_stopped_several_times(settings: ComparisonSettings, finished: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for attempt in range(20):
        try:
            compare(settings, out, resume=attempt > 0, progress=Watch(4))
        except Stopped:
            continue
        break
    assert attempt > 2
    assert_same_run(out, finished)


def test_going_on_starts_from_the_last_epoch(settings: ComparisonSettings, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(Stopped):
        compare(settings, out, progress=Watch(3))
    progress = Watch(-1)
    compare(settings, out, resume=True, progress=progress)
    assert [call[1] for call in progress.calls if call[0] == "epoch"][:4] == [3, 1, 2, 3]  # no epoch is done again


@pytest.mark.parametrize("patience", [1, 3])
def test_killed_between_the_last_epoch_and_the_record(
    settings: ComparisonSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patience: int
) -> None:
    monkeypatch.setattr(models, "make_network", perceptron)
    # Cross-entropy stands still, so that it stops after 1 + patience epochs, if that comes before the last.
    settings = replace(settings, seeds=1, patience=patience, epochs=4, learning_rate_cross_entropy=1e-12)
    whole = compare(settings, tmp_path / "whole")
    assert whole.runs[0]["epochs"] == 1 + patience

    def die(*_: object) -> None:
        raise Stopped

    with monkeypatch.context() as patch:
        patch.setattr(TrainingStore, "finish", die)
        with pytest.raises(Stopped):
            compare(settings, tmp_path / "out")
    assert any((tmp_path / "out" / "checkpoints").rglob("last.ckpt"))
    compare(settings, tmp_path / "out", resume=True)
    assert_same_run(tmp_path / "out", tmp_path / "whole")


def cut_last_line(out: Path) -> None:
    path = out / "runs.jsonl"
    path.write_bytes(path.read_bytes()[:-40])


def lose_model(out: Path) -> None:
    (out / "models" / "seed1-auc.safetensors").unlink()


def lose_scores(out: Path) -> None:
    (out / "scores" / "seed0-auc.safetensors").unlink()


def leave_checkpoint(out: Path) -> None:
    (out / "checkpoints" / "seed0-auc").mkdir(parents=True)
    (out / "checkpoints" / "seed0-auc" / "last.ckpt").write_text("stale")


def lose_all_records(out: Path) -> None:
    (out / "runs.jsonl").unlink()


@pytest.mark.parametrize(
    ("damage", "done"),
    [(cut_last_line, 3), (lose_model, 3), (lose_scores, 3), (leave_checkpoint, 4), (lose_all_records, 0)],
)
def test_what_a_kill_leaves_behind_is_mended(
    settings: ComparisonSettings, finished: Path, tmp_path: Path, damage: Callable[[Path], None], done: int
) -> None:
    out = tmp_path / "out"
    shutil.copytree(finished, out)
    (out / "results.json").unlink()
    damage(out)
    notes: list[str] = []
    progress = Watch(-1)
    compare(settings, out, resume=True, progress=progress, notes=notes.append)
    assert sum("this training is run again" in note for note in notes) == 4 - done
    assert progress.calls[0] == ("start", 4, done)
    assert_same_run(out, finished)
    assert len((out / "runs.jsonl").read_text().splitlines()) == 4


def test_ctrl_c_comes_back_as_such_and_the_signal_works_again(settings: ComparisonSettings, tmp_path: Path) -> None:
    import signal

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        compare(settings, tmp_path / "out", progress=Watch(2, KeyboardInterrupt))
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(
    ("name", "value"), [("epochs", 4), ("seeds", 3), ("minority", 0.1), ("loss_options", {"margin": 2.0})]
)
def test_another_setting_on_resume_is_named_with_both_values(
    settings: ComparisonSettings, finished: Path, name: str, value: Any
) -> None:
    with pytest.raises(InputError) as caught:
        compare(replace(settings, **{name: value}), finished, resume=True)
    message = str(caught.value)
    assert f"`{name}`" in message
    assert repr(value) in message
    assert repr(getattr(settings, name)) in message


def test_other_data_on_resume_is_refused(settings: ComparisonSettings, images: Path, tmp_path: Path) -> None:
    moved = replace(settings, data=str(shutil.copytree(images, tmp_path / "pictures")), seeds=1, epochs=1)
    compare(moved, tmp_path / "out")
    write_images(tmp_path / "pictures", classes=3, seed=1)
    with pytest.raises(InputError, match=r"`data`.*changed"):
        compare(moved, tmp_path / "out", resume=True)


def test_nothing_to_resume(settings: ComparisonSettings, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no settings\.json"):
        compare(settings, tmp_path / "out", resume=True)


def test_an_existing_run_is_replaced_only_when_asked(settings: ComparisonSettings, tmp_path: Path) -> None:
    out = tmp_path / "out"
    small = replace(settings, seeds=1, epochs=1)
    compare(replace(small, seeds=2), out)
    with pytest.raises(InputError, match=r"--resume.*--overwrite"):
        compare(small, out)
    (out / "note.txt").write_text("mine")
    compare(small, out, overwrite=True)
    assert len(list((out / "models").iterdir())) == 2
    assert (out / "note.txt").read_text() == "mine"


def test_a_folder_that_is_no_run_is_never_overwritten(settings: ComparisonSettings, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    for overwrite in (False, True):
        with pytest.raises(InputError, match="other files"):
            compare(settings, tmp_path, overwrite=overwrite)
    with pytest.raises(InputError, match="is a file"):
        compare(settings, tmp_path / "thesis.tex")
    assert (tmp_path / "thesis.tex").read_text() == "mine"


# ---------------------------------------------------------------- evaluated again


def test_a_stored_run_evaluated_again_agrees(finished: Path) -> None:
    again = reevaluate(finished)
    assert again.differences == []
    assert [row.title for row in again.rows] == ["AUROC", "Average precision", "F1", "Precision at recall 0.9"]


def test_it_evaluates_the_weights_and_not_the_stored_scores(finished: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(finished, out)
    change_weights(
        out / "models" / "seed1-auc.safetensors", lambda weights: [w.neg_() for w in weights.values() if w.ndim == 2]
    )
    note_digests(out)
    found = reevaluate(out).differences
    assert found
    assert all(text.startswith("seed 1, auc: ") for text in found)
    assert reevaluate(out, tolerance=1e6).differences == []


def test_thresholds_chosen_anew(finished: Path) -> None:
    again = reevaluate(finished, maximize="precision", subject_to="recall>=0.9")
    assert again.differences == []  # what does not depend on the threshold still agrees
    assert [row.title for row in again.rows][-2:] == ["Precision", "Recall"]
    for run in again.runs:
        scores = scores_of(finished, run)
        assert (
            metrics.recall(scores["validation_scores"], scores["validation_labels"], threshold=run["threshold"]) >= 0.9
        )


def test_data_that_moved_is_found_and_must_be_the_same(finished: Path, images: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(images, tmp_path / "pictures")
    assert reevaluate(finished, data=str(moved)).differences == []
    write_images(moved, classes=3, seed=1)
    with pytest.raises(InputError, match=r"`data`.*changed"):
        reevaluate(finished, data=str(moved))


def remove(name: str) -> Callable[[Path], None]:
    return lambda out: (out / name).unlink()


def write(name: str, text: str) -> Callable[[Path], None]:
    def damage(out: Path) -> None:
        (out / name).write_text(text)

    return damage


def resealed(text: str) -> Callable[[Path], None]:
    def damage(out: Path) -> None:
        (out / "settings.json").write_bytes(seal_text(text + "\n"))

    return damage


def other_network(out: Path) -> None:
    save_file({"weight": torch.zeros(3)}, out / "models" / "seed0-auc.safetensors")
    note_digests(out)


def no_runs(out: Path) -> None:
    change_json(out / "results.json", lambda results: results.update(runs=3))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (remove("settings.json"), r"no settings\.json"),
        (write("settings.json", "{"), r"settings\.json .*damaged.*--overwrite"),
        (write("settings.json", "[]"), r"settings\.json .*damaged.*--overwrite"),
        (resealed('{"format": 99}'), "format 5"),
        (resealed('{"format": 5, "data": "", "settings": {}}'), "its job is None"),
        (resealed('{"format": 5, "job": "images", "data": "", "settings": {"epochs": 0}}'), "`epochs`"),
        (
            resealed('{"format": 5, "job": "images", "data": "", "settings": {"epoks": 1}}'),
            "`epoks` .*did you mean 'epochs'",
        ),
        (resealed('{"format": 5, "job": "images", "data": "", "settings": {"epochs": "9"}}'), "`epochs`"),
        (remove("results.json"), r"no results\.json.*--resume"),
        (write("results.json", '{"runs": 3}'), r"results\.json .*checksum differs.*--resume"),
        (no_runs, r"results\.json .*content cannot be right"),
        (remove("models/seed1-auc.safetensors"), r"seed1-auc\.safetensors .*no such file.*--resume"),
        (write("models/seed1-auc.safetensors", "no"), r"seed1-auc\.safetensors .*checksum differs.*--resume"),
        (other_network, "of the network"),
    ],
)
def test_a_broken_run_says_what_is_wrong(
    finished: Path, tmp_path: Path, damage: Callable[[Path], None], message: str
) -> None:
    out = tmp_path / "out"
    shutil.copytree(finished, out)
    damage(out)
    with pytest.raises(InputError, match=message):
        reevaluate(out)


# ---------------------------------------------------------------- what is certified


def test_a_floor_is_certified_on_rows_that_choose_nothing_else(settings: ComparisonSettings, tmp_path: Path) -> None:
    one = replace(settings, seeds=1, epochs=1, measure="precision@recall>=0.6", validation=0.5)
    results = compare(one, tmp_path / "out")
    run = results.runs[1]
    scores = scores_of(tmp_path / "out", dict(run))
    rows = scores["validation_calibration"]
    np.testing.assert_array_equal(scores["validation_selection"], ~rows)
    own, labels = scores["validation_scores"][rows], scores["validation_labels"][rows]
    rest, others = scores["validation_scores"][~rows], scores["validation_labels"][~rows]
    assert run["history"]["measure"] == [metrics.precision_at_recall(rest, others, recall=0.6)], "chooses the epoch"
    choice = metrics.choose_threshold(own, labels, maximize="precision", subject_to="recall>=0.6", confidence=0.95)
    assert choice.certified
    assert run["threshold"] == choice.threshold
    positives, bound = int(labels.sum()), choice.bounds[0].bound
    line = f"recall >= 0.6 holds with 95 % confidence (lower bound {bound:.3f}; {positives} calibration positives)."
    assert run["certificate"]["said"] == [line]
    summary = "1 of 1 with cross-entropy, 1 of 1 with precision at recall 0.6 loss."
    assert results.certificate_lines() == [f"Thresholds certified at 95 % on calibration rows: {summary}"]
    assert runs_of(tmp_path / "out")[1]["certificate"]["certified"] is True
    row = results.constraint_rows()[0]
    assert (row.constraint, row.seeds) == ("recall>=0.6", 1)
    assert [value.estimate for value in row.values] == [each["metrics"]["recall"] for each in results.runs]
    assert reevaluate(tmp_path / "out").differences == []
    again = reevaluate(tmp_path / "out", subject_to="recall>=0.99")
    needed = f"{positives} positives cannot certify recall >= 0.99 at 95 %; 299 can"
    assert again.runs[1]["certificate"]["said"] == [f"Not certified: {needed}."]


def test_without_confidence_all_validation_rows_choose_the_epoch_and_the_threshold(
    settings: ComparisonSettings, tmp_path: Path
) -> None:
    one = replace(settings, seeds=1, epochs=1, measure="precision@recall>=0.6", validation=0.5, confidence=0)
    results = compare(one, tmp_path / "plain")
    assert "certificate" not in results.runs[1]
    assert results.certificate_lines() == []
    scores = scores_of(tmp_path / "plain", dict(results.runs[1]))
    assert "validation_calibration" not in scores
    choice = metrics.choose_threshold(
        scores["validation_scores"], scores["validation_labels"], maximize="precision", subject_to="recall>=0.6"
    )
    assert results.runs[1]["threshold"] == choice.threshold
    late = reevaluate(tmp_path / "plain", confidence=0.95).runs[1]["certificate"]["said"]
    assert "validation positives" in late[0]
    assert late[1].startswith("These rows have chosen the epoch too")


def test_rows_are_kept_for_certifying_only_where_they_can(settings: ComparisonSettings) -> None:
    def rows(**changes: Any) -> Any:
        return split(load_problem(settings), replace(settings, **changes), 0).rows

    assert rows() is None
    assert rows(measure="precision@recall>=0.6", confidence=0) is None
    held = rows(measure="precision@recall>=0.6", validation=0.5)
    assert not (held.calibration & held.selection).any()
    assert held.calibration.sum() == pytest.approx(len(held.calibration) / 2, abs=2)
    few = rows(measure="precision@recall>=0.95")
    assert few.selection.all(), "too few positives, so all rows choose the epoch"
    assert few.calibration.sum() == pytest.approx(len(few.calibration) / 2, abs=2)


def test_epochs_are_validated_at_the_threshold_that_would_be_chosen(
    settings: ComparisonSettings, tmp_path: Path
) -> None:
    results = compare(replace(settings, measure="f1", seeds=1), tmp_path / "out")
    for run in results.runs:
        scores = scores_of(tmp_path / "out", dict(run))
        found = metrics.fbeta(scores["validation_scores"], scores["validation_labels"], threshold=run["threshold"])
        assert max(run["history"]["measure"]) == pytest.approx(found)


# ---------------------------------------------------------------- settings, batches, other measures


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("measure", "auk", InputError),
        ("seeds", 0, InputError),
        ("epochs", 1.5, TypeError),
        ("patience", 0, InputError),
        ("batch_size", 1, InputError),
        ("minority", 0.0, InputError),
        ("minority", 0.6, InputError),
        ("minority", math.nan, InputError),
        ("validation", 1.0, InputError),
        ("batch_positives", 1.0, InputError),
        ("blend", 0.0, InputError),
        ("blend", 1.5, InputError),
        ("learning_rate_measure", -1.0, InputError),
        ("weight_decay", -0.1, InputError),
        ("schedule", "steps", InputError),
        ("data", "", InputError),
        ("loss_options", 3, TypeError),
    ],
)
def test_wrong_settings_are_refused(name: str, value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=f"`{name}`"):
        replace(ComparisonSettings(), **{name: value})


def test_settings_go_through_json_unchanged() -> None:
    settings = ComparisonSettings(minority=0.1, positive=3, loss_options={"margin": 0.5})
    assert ComparisonSettings.from_dict(json.loads(json.dumps(settings.to_dict()))) == settings
    assert settings.differences(ComparisonSettings()) == [
        ("positive", 3, None), ("minority", 0.1, 0.05), ("loss_options", {"margin": 0.5}, {})
    ]  # fmt: skip


@pytest.mark.parametrize("options", [{"marginn": 1.0}, {"margin": -1.0}, {"surrogate": "cube"}])
def test_wrong_options_of_the_loss_are_refused_before_anything_is_written(
    settings: ComparisonSettings, tmp_path: Path, options: dict[str, Any]
) -> None:
    with pytest.raises(InputError, match=r"margin|surrogate"):
        compare(replace(settings, loss_options=options), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_options_reach_the_loss(settings: ComparisonSettings, finished: Path, tmp_path: Path) -> None:
    results = compare(replace(settings, seeds=1, loss_options={"margin": 4.0}), tmp_path / "out")
    before = runs_of(finished)
    assert results.runs[1]["history"]["loss"][0] > before[1]["history"]["loss"][0] + 1
    assert results.runs[0]["history"]["loss"] == before[0]["history"]["loss"]


def test_plain_batches_cover_everything_once_in_even_parts() -> None:
    first = [batch.tolist() for batch in shuffled(33, 16, seed=1, epoch=0)]
    assert sorted(index for batch in first for index in batch) == list(range(33))
    assert [len(batch) for batch in first] == [11, 11, 11]
    assert first == [batch.tolist() for batch in shuffled(33, 16, seed=1, epoch=0)]
    assert first != [batch.tolist() for batch in shuffled(33, 16, seed=1, epoch=1)]
    assert first != [batch.tolist() for batch in shuffled(33, 16, seed=2, epoch=0)]


def training(settings: ComparisonSettings, *, baseline: bool) -> NetworkTraining:
    return NetworkTraining(split(load_problem(settings), settings, 0), settings, seed=0, baseline=baseline)


def test_measure_batches_have_the_share_of_positives(settings: ComparisonSettings) -> None:
    labels = split(load_problem(settings), settings, 0).train.tensors[1]
    own = float(labels.mean())
    for least in (0.0, 0.01, 0.5):
        batches = training(replace(settings, batch_positives=least), baseline=False).batches(0)
        shares = [float(labels[batch].mean()) for batch in batches]
        assert shares[0] == pytest.approx(max(least, own), abs=0.05)
        assert min(shares) > 0


def test_the_measure_is_blended_with_cross_entropy(settings: ComparisonSettings) -> None:
    loss = training(replace(settings, blend=0.25, loss_options={"margin": 2.0}), baseline=False).loss
    assert isinstance(loss, EachMember)
    loss = loss.loss
    assert isinstance(loss, Blend)
    assert loss.share == 0.25
    assert loss.second.margin == 2.0
    assert isinstance(training(settings, baseline=True).loss, torch.nn.BCEWithLogitsLoss)


@pytest.mark.parametrize(
    "changes",
    [
        {"warm_up": 0.5},
        {"margin": 1.0, "margin_end": 0.1},
        {"surrogate": "ramp"},
        {"temperature": 3.0},
        {"algorithm": "sgd"},
        {"average": "ema", "average_decay": 0.9},
        {"average": "equal", "average_start": 0.5},
        {"schedule": "cosine"},
    ],
)
def test_every_part_of_the_recipe_changes_the_training_and_resumes(
    settings: ComparisonSettings, finished: Path, tmp_path: Path, changes: dict[str, Any]
) -> None:
    changed = replace(settings, seeds=1, **changes)
    whole = compare(changed, tmp_path / "whole")
    plain_run = runs_of(finished)[1]
    assert whole.runs[1]["history"] != plain_run["history"]
    with pytest.raises(Stopped):
        compare(changed, tmp_path / "out", progress=Watch(5))
    compare(changed, tmp_path / "out", resume=True)
    assert_same_run(tmp_path / "out", tmp_path / "whole")


def test_a_learning_rate_that_is_too_high_says_so(settings: ComparisonSettings, tmp_path: Path) -> None:
    wild = replace(settings, seeds=1, learning_rate_measure=1e30, algorithm="sgd", schedule="constant")
    with pytest.raises(InputError, match=r"`learning_rate`.*1e\+30.*diverged in epoch 1"):
        compare(wild, tmp_path / "out")


def measure(title: str) -> Measure:
    return replace(parse("auc"), name="other", title=title, metric=lambda scores, labels, *, weight=None: 0.25)  # noqa: ARG005


def test_a_measure_the_table_lacks_gets_the_first_row() -> None:
    scores = {
        "validation_scores": np.array([0.0, 1.0]), "validation_labels": np.array([0, 1]),
        "test_scores": np.array([0.0, 1.0, 2.0]), "test_labels": np.array([0, 1, 1]),
    }  # fmt: skip
    other = measure("Other measure")
    runs = [{"seed": 0, "method": method, **evaluate(other, scores)} for method in ("cross_entropy", "other")]
    rows = table(other, runs)
    assert [row.title for row in rows][:2] == ["Other measure", "AUROC"]
    assert rows[0].measure.estimate == 0.25
    assert row_of(other) == "other"
    assert row_of(measure("F1")) == "f1"


def test_files_are_named_safely() -> None:
    path = TrainingStore(RunFolder("run")).file("models", 3, "Precision@Recall>=0.9")
    assert path == Path("run/models/seed3-precision-recall-0-9.safetensors")


def test_json_is_strict(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"x": [np.float32(1.5), math.nan, -math.inf], "3": np.arange(2)})
    found = json.loads((tmp_path / "a.json").read_text())
    assert len(found.pop("sha256")) == 64
    assert found == {"x": [1.5, None, None], "3": [0, 1]}
    assert plain(np.bool_(True)) is True
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
