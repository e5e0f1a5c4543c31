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
from setwise.app.constraints import Constraints
from setwise.app.files import plain, write_json
from setwise.app.networks import MLP
from setwise.app.run_folder import RunFolder
from setwise.experiments import comparison, fitting, learners, learning, problem
from setwise.experiments.comparison import ComparisonSettings, compare
from setwise.experiments.judging import judge, row_of
from setwise.experiments.problem import draw, initial_network, load_problem
from setwise.experiments.rejudging import rejudge
from setwise.experiments.scoring import shuffled
from setwise.experiments.settings import read_settings
from setwise.experiments.tables import table
from setwise.measures import Measure, parse
from setwise.training import Blend, EachMember
from support.resealing import change_json, change_weights, note_digests, seal_text
from support.runs import Stopped, Watch


@pytest.fixture(scope="module")
def csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "loans.csv"
    generator = np.random.default_rng(0)
    values = generator.normal(size=(240, 3)) * [1, 100, 0.01]
    labels = values[:, 0] + values[:, 1] / 100 + generator.normal(size=240) > 1.6
    rows = [",".join(map(str, row)) + f",{'yes' if label else 'no'}" for row, label in zip(values, labels, strict=True)]
    path.write_text("age,income,rate,default\n" + "\n".join(rows) + "\n")
    return path


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("images")
    generator = np.random.default_rng(0)
    for split, n in (("train", 120), ("test", 60)):
        labels = np.arange(n) % 3
        pictures = generator.integers(0, 120, size=(n, 8, 8)) + 40 * labels[:, None, None]
        np.save(folder / f"{split}_images.npy", pictures.astype(np.uint8))
        np.save(folder / f"{split}_labels.npy", labels)
    return folder


@pytest.fixture(scope="module")
def settings(csv: Path) -> ComparisonSettings:
    return ComparisonSettings(
        data=str(csv), target="default", minority=None, seeds=2, epochs=3, patience=2, batch_size=32, width=4, threads=1
    )


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
    assert {path.name for path in (finished / "scores").iterdir()} == {f"{stem}.npz" for stem in stems}
    assert read_settings(RunFolder(finished))[0] == settings
    assert len((finished / "runs.jsonl").read_text().splitlines()) == 4


def test_results_hold_settings_versions_draws_and_the_table(finished: Path, settings: ComparisonSettings) -> None:
    results = json.loads((finished / "results.json").read_text())
    assert results["settings"] == settings.to_dict()
    assert {"setwise", "torch", "numpy", "lightning", "python"} <= set(results["versions"])
    assert results["data"]["positive"] == "yes"
    assert [d["seed"] for d in results["draws"]] == [0, 1]
    assert sum(results["draws"][0][part]["size"] for part in ("train", "validation", "test")) == 240
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
    for run in json.loads((finished / "results.json").read_text())["runs"]:
        scores = RunFolder(finished).scores(run["seed"], run["method"])
        choice = metrics.choose_threshold(scores["validation_scores"], scores["validation_labels"], maximize="f1")
        assert run["threshold"] == choice.threshold
        test, labels = scores["test_scores"], scores["test_labels"]
        assert run["metrics"]["auroc"] == metrics.auroc(test, labels)
        assert run["metrics"]["f1"] == metrics.fbeta(test, labels, threshold=choice.threshold)
        assert run["metrics"]["precision@recall>=0.9"] == metrics.precision_at_recall(test, labels, recall=0.9)


def test_the_best_epoch_of_the_validation_measure_is_kept(finished: Path) -> None:
    for run in json.loads((finished / "results.json").read_text())["runs"]:
        history = run["history"]["measure"]
        assert run["best_epoch"] == 1 + history.index(max(history))
        assert run["epochs"] == len(history) == len(run["history"]["gap"])
        scores = RunFolder(finished).scores(run["seed"], run["method"])
        assert metrics.auroc(scores["validation_scores"], scores["validation_labels"]) == pytest.approx(max(history))
        gap = [s - (1 - m) for s, m in zip(run["history"]["surrogate"], history, strict=True)]
        assert run["history"]["gap"] == pytest.approx(gap)


def test_training_stops_when_patience_is_used_up(settings: ComparisonSettings, tmp_path: Path) -> None:
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
        first, second = (RunFolder(finished).scores(seed, method) for method in ("cross_entropy", "auc"))
        assert np.array_equal(first["test_labels"], second["test_labels"])
        assert np.array_equal(first["validation_labels"], second["validation_labels"])
    drawn = draw(load_problem(settings), settings, 0)
    starts = [initial_network(drawn, settings, seed).state_dict() for seed in (0, 0, 1)]
    assert all(torch.equal(starts[0][name], starts[1][name]) for name in starts[0])
    assert not all(torch.equal(starts[0][name], starts[2][name]) for name in starts[0])


def test_the_three_sets_are_disjoint_scaled_by_the_training_set_and_differ_by_seed(
    settings: ComparisonSettings,
) -> None:
    loaded = load_problem(settings)
    drawn, other = draw(loaded, settings, 0), draw(loaded, settings, 1)
    inputs = drawn.train.tensors[0]
    assert torch.allclose(inputs.mean(dim=0), torch.zeros(3), atol=1e-4)
    assert torch.allclose(inputs.std(dim=0, correction=0), torch.ones(3), atol=1e-4)
    rows = [tuple(row) for part in (drawn.train, drawn.validation, drawn.test) for row in part.tensors[0].tolist()]
    assert len(rows) == len(set(rows)) == 240
    assert not torch.equal(inputs, other.train.tensors[0])


def test_imbalance_reaches_all_three_sets_and_is_recorded(images: Path) -> None:
    settings = ComparisonSettings(data=str(images), positive=2, minority=0.2, validation=0.5, seeds=1)
    loaded = load_problem(settings)
    assert loaded.positive == "class 2"
    record = draw(loaded, settings, 3).record
    for part in ("train", "validation", "test"):
        assert record[part]["positives"] / record[part]["size"] == pytest.approx(0.2, abs=0.02)
    assert record["imbalance"]["train"]["seed"] == record["imbalance"]["test"]["seed"] == 3
    assert record["imbalance"]["test"]["counts_before"] == {"0": 40, "1": 20}


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


def test_a_target_without_a_table_is_refused() -> None:
    with pytest.raises(InputError, match="`target`"):
        load_problem(ComparisonSettings(target="label"))


def test_sets_without_enough_positives_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    path = tmp_path / "few.csv"
    path.write_text("x,y\n" + "".join(f"{k},{int(k < 4)}\n" for k in range(40)))
    with pytest.raises(InputError, match=r"positives .* in the (validation|test) set"):
        compare(ComparisonSettings(data=str(path), minority=None), tmp_path / "out")
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


def test_images_with_batch_norm_resume_alike(images: Path, tmp_path: Path) -> None:
    settings = ComparisonSettings(
        data=str(images), minority=0.2, seeds=1, epochs=3, patience=3, batch_size=16, width=4, threads=1
    )
    compare(settings, tmp_path / "whole")
    for stop in (2, 5):
        out = tmp_path / f"stopped{stop}"
        with pytest.raises(Stopped):
            compare(settings, out, progress=Watch(stop))
        compare(settings, out, resume=True)
        assert_same_run(out, tmp_path / "whole")


def test_dropout_resumes_alike(settings: ComparisonSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (problem, learners):
        monkeypatch.setattr(module, "make_network", lambda x, width: MLP(x.shape[1], (width,), dropout=0.5))
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
    # Cross-entropy stands still, so that it stops after 1 + patience epochs, if that comes before the last.
    settings = replace(settings, seeds=1, patience=patience, epochs=4, learning_rate_cross_entropy=1e-12)
    whole = compare(settings, tmp_path / "whole")
    assert whole.runs[0]["epochs"] == 1 + patience

    def die(*_: object) -> None:
        raise Stopped

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "finish", die)
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
    (out / "scores" / "seed0-auc.npz").unlink()


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


def test_other_data_on_resume_is_refused(settings: ComparisonSettings, tmp_path: Path) -> None:
    path = tmp_path / "loans.csv"
    shutil.copy(settings.data, path)
    moved = replace(settings, data=str(path), seeds=1, epochs=1)
    compare(moved, tmp_path / "out")
    path.write_text(path.read_text().replace("\n0.", "\n1.", 1))
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


# ---------------------------------------------------------------- judging again


def test_a_stored_run_judged_again_agrees(finished: Path) -> None:
    judged = rejudge(finished)
    assert judged.disagreements == []
    assert [row.title for row in judged.rows] == ["AUROC", "Average precision", "F1", "Precision at recall 0.9"]


def test_it_judges_the_weights_and_not_the_stored_scores(finished: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(finished, out)
    change_weights(
        out / "models" / "seed1-auc.safetensors", lambda weights: [w.neg_() for w in weights.values() if w.ndim == 2]
    )
    note_digests(out)
    found = rejudge(out).disagreements
    assert found
    assert all(text.startswith("seed 1, auc: ") for text in found)
    assert rejudge(out, tolerance=1e6).disagreements == []


def test_thresholds_chosen_anew(finished: Path) -> None:
    judged = rejudge(finished, maximize="precision", subject_to="recall>=0.9")
    assert judged.disagreements == []  # what does not depend on the threshold still agrees
    assert [row.title for row in judged.rows][-2:] == ["Precision", "Recall"]
    for run in judged.runs:
        scores = RunFolder(finished).scores(run["seed"], run["method"])
        assert (
            metrics.recall(scores["validation_scores"], scores["validation_labels"], threshold=run["threshold"]) >= 0.9
        )


def test_data_that_moved_is_found_and_must_be_the_same(
    finished: Path, settings: ComparisonSettings, tmp_path: Path
) -> None:
    path = tmp_path / "moved.csv"
    shutil.copy(settings.data, path)
    assert rejudge(finished, data=str(path)).disagreements == []
    path.write_text(path.read_text().replace("yes", "no", 1))
    with pytest.raises(InputError, match=r"`data`.*changed"):
        rejudge(finished, data=str(path))


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
        (other_network, "names or shapes differ"),
    ],
)
def test_a_broken_run_says_what_is_wrong(
    finished: Path, tmp_path: Path, damage: Callable[[Path], None], message: str
) -> None:
    out = tmp_path / "out"
    shutil.copytree(finished, out)
    damage(out)
    with pytest.raises(InputError, match=message):
        rejudge(out)


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
    before = json.loads((finished / "results.json").read_text())["runs"]
    assert results.runs[1]["history"]["loss"][0] > before[1]["history"]["loss"][0] + 1
    assert results.runs[0]["history"]["loss"] == before[0]["history"]["loss"]


def test_plain_batches_cover_everything_once_in_even_parts() -> None:
    first = [batch.tolist() for batch in shuffled(33, 16, seed=1, epoch=0)]
    assert sorted(index for batch in first for index in batch) == list(range(33))
    assert [len(batch) for batch in first] == [11, 11, 11]
    assert first == [batch.tolist() for batch in shuffled(33, 16, seed=1, epoch=0)]
    assert first != [batch.tolist() for batch in shuffled(33, 16, seed=1, epoch=1)]
    assert first != [batch.tolist() for batch in shuffled(33, 16, seed=2, epoch=0)]


def test_batches_are_those_of_the_epoch_set_after_the_iterator_was_made() -> None:
    batches = fitting.EpochBatches(2, lambda epoch: [[epoch], [epoch + 1]])
    early = iter(batches)
    batches.set_epoch(5)
    assert list(early) == [[5], [6]]
    assert len(batches) == 2


def trainer(settings: ComparisonSettings, *, baseline: bool) -> learning._Trainer:
    drawn = draw(load_problem(settings), settings, 0)
    none = Constraints((), {})
    course = learning.Course(settings.recipe(baseline=baseline), baseline, none, 0, settings.epochs, settings.patience)
    return learning._Trainer(initial_network(drawn, settings, 0), drawn, course)


def test_measure_batches_have_the_share_of_positives(settings: ComparisonSettings) -> None:
    labels = draw(load_problem(settings), settings, 0).train.tensors[1]
    own = float(labels.mean())
    for least in (0.0, 0.01, 0.5):
        batches = trainer(replace(settings, batch_positives=least), baseline=False)._batches(0)
        shares = [float(labels[batch].mean()) for batch in batches]
        assert shares[0] == pytest.approx(max(least, own), abs=0.05)
        assert min(shares) > 0


def test_the_measure_is_blended_with_cross_entropy(settings: ComparisonSettings) -> None:
    loss = trainer(replace(settings, blend=0.25, loss_options={"margin": 2.0}), baseline=False).loss
    assert isinstance(loss, EachMember)
    loss = loss.loss
    assert isinstance(loss, Blend)
    assert loss.share == 0.25
    assert loss.second.margin == 2.0
    assert isinstance(trainer(settings, baseline=True).loss, torch.nn.BCEWithLogitsLoss)


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
    plain_run = json.loads((finished / "results.json").read_text())["runs"][1]
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
    runs = [{"seed": 0, "method": method, **judge(other, scores)} for method in ("cross_entropy", "other")]
    rows = table(other, runs)
    assert [row.title for row in rows][:2] == ["Other measure", "AUROC"]
    assert rows[0].measure.estimate == 0.25
    assert row_of(other) == "other"
    assert row_of(measure("F1")) == "f1"


def test_files_are_named_safely() -> None:
    path = RunFolder("run").file("models", 3, "Precision@Recall>=0.9")
    assert path == Path("run/models/seed3-precision-recall-0-9.safetensors")


def test_json_is_strict(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"x": [np.float32(1.5), math.nan, -math.inf], "3": np.arange(2)})
    found = json.loads((tmp_path / "a.json").read_text())
    assert len(found.pop("sha256")) == 64
    assert found == {"x": [1.5, None, None], "3": [0, 1]}
    assert plain(np.bool_(True)) is True
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
