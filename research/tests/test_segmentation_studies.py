from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from setwise import data
from setwise._checks import InputError
from setwise_research import loaders, sized_digits
from setwise_research.reproduce import camvid_iou, entry, shape_histograms, shape_study
from setwise_research.reproduce.s_mnist import DigitStudy
from setwise_research.reproduce.shape_study import Part, ShapeStudy
from setwise_research.reproduce.shape_table import groups
from setwise_research.reproduce.study import Study, StudyPlan
from setwise_research.reproduce.summaries import mean_of
from setwise_research.segmentation import Protocol, Scenes
from setwise_research.sized_digits import DigitProtocol

TINY = Protocol("fcn", width=4, epochs=2, batch_size=4, rate=0.01)


class Quiet:
    def start(self, total: int, done: int) -> None: ...

    def training(self, seed: int, method: str, epochs: int) -> None: ...

    def epoch(self, epochs: int, value: float) -> None: ...

    def finished(self) -> None: ...


def scenes(n: int, seed: int) -> Scenes:
    """A sky of varying depth above ground, with a rare third class; two pixels are unlabelled."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(0, 40, (n, 3, 12, 16), generator=generator).to(torch.uint8)
    labels = torch.ones(n, 12, 16, dtype=torch.uint8)
    for k in range(n):
        depth = 2 + int(torch.randint(0, 7, (), generator=generator))
        labels[k, :depth] = 0
        images[k, :, :depth] += 120
        left = int(torch.randint(0, 14, (), generator=generator))
        labels[k, 9:11, left : left + 2] = 2
        images[k, 0, 9:11, left : left + 2] += 200
    labels[:, 0, :2] = 3
    return Scenes(images, labels, 3, 3, ("Sky", "Ground", "Sign"))


@pytest.fixture
def _street(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = {"train": scenes(16, 0), "val": scenes(6, 1), "test": scenes(8, 2)}
    for module in (shape_study, camvid_iou):
        monkeypatch.setattr(module, "load_scenes", lambda *_: parts)
        monkeypatch.setattr(module, "is_present", lambda _: True)


def run(name: str, study: Study, out: Path) -> tuple[StudyPlan, list[Mapping[str, Any]]]:
    plan = StudyPlan(entry(name), "quick", study, {})
    records = plan.run(out, Quiet())
    plan.write(records, out)
    return plan, records


def sky(**changes: Any) -> ShapeStudy:
    parts = (
        Part("constant", ("cross_entropy", "paper", "exact", "direct"), (0.4, 0.6), (0.01,)),
        Part("one_cycle", ("cross_entropy", "label", "shuffled"), (0.6,), (0.1,)),
    )
    settings: dict[str, Any] = {
        "data": ("camvid",),
        "seeds": 2,
        "protocol": TINY,
        "size": (12, 16),
        "parts": parts,
        "thresholds": (0.4, 0.6),
        "unit": "quantile",
        "target": {"camvid": 0},
        "shown": (0, 5),
    }
    return ShapeStudy(**(settings | changes))


class TestPapers:
    def test_sky_is_the_papers(self) -> None:
        study = entry("sky-segmentation").presets["paper"]
        protocol = study.protocol
        assert (protocol.network, protocol.width, protocol.depth) == ("segnet", 64, 5)
        assert (protocol.epochs, protocol.rate, protocol.batch_size) == (40, 0.01, 7)
        assert study.thresholds == (0.55, 0.6, 0.65)
        assert study.unit == "area"
        assert study.parts[0].alphas == (1e-2, 1e-3, 1e-4)

    def test_stuff_is_the_papers(self) -> None:
        study = entry("stuff-segmentation").presets["paper"]
        assert (study.protocol.network, study.protocol.width, study.size) == ("deeplab", 64, (106, 160))
        assert (study.protocol.batch_size, study.batch_size_shaped) == (144, 120)
        assert study.thresholds == (0.01, 0.03, 0.05, 0.07, 0.09)
        assert not study.target

    def test_digits_are_the_papers(self) -> None:
        study = entry("s-mnist").presets["paper"]
        assert study.networks == ("linear",)
        assert (study.protocol.epochs, study.protocol.batch_size, study.protocol.rate) == (40, 100, 0.01)

    def test_rare_classes_and_four_settings_for_each(self) -> None:
        study = entry("camvid-iou").presets["quick"]
        assert study.rare == (2, 6, 7, 9, 10)
        assert {len(settings) for settings in study.methods.values()} == {4}

    @pytest.mark.parametrize(
        "name", ["sky-segmentation", "stuff-segmentation", "s-mnist", "shape-histograms", "camvid-iou"]
    )
    def test_keys_of_all_cells_differ(self, name: str) -> None:
        found = entry(name)
        for preset in ("quick", "paper"):
            plan = StudyPlan(found, preset, found.preset(preset), {})
            keys = [plan.key(cell) for cell in plan.study.cells()]
            assert len(set(keys)) == len(keys) > 1


@pytest.mark.usefixtures("_street")
class TestShapeStudy:
    def test_runs_to_tables_and_figures_and_repeats_its_digits(self, tmp_path: Path) -> None:
        plan, records = run("sky-segmentation", sky(), tmp_path)
        assert len(records) == 2 * (1 + 2 + 2 + 2 + 1 + 1 + 1)
        for record in records:
            found = record["metrics"]
            assert 0 <= found["iou"] <= 1
            assert found["components_truth"] == 1.0  # one sky in each image
            assert 0 < found["at 0.6"]["share_big"] < 1
            assert len(record["history"]) == 2
        text = (tmp_path / "table.md").read_text()
        assert "Ours: equal quality over shapes" in text
        assert "camvid, rate 0.01, one cycle" in text
        assert "Not finished" not in text
        lines = list(csv.DictReader((tmp_path / "table.csv").open()))
        assert {line["measure"] for line in lines} >= {"iou", "small", "big", "components", "boundary"}
        for name in ("table.png", "panels.png"):
            assert (tmp_path / name).stat().st_size > 1000
        assert plan.headline(records).startswith("IoU of the exact term against cross-entropy")
        again = StudyPlan(plan.entry, "quick", plan.study, {"method": ["exact"], "threshold": ["0.6"], "seed": ["1"]})
        (one,) = again.run(tmp_path / "again", Quiet())
        (other,) = (record for record in records if record["key"] == one["key"])
        assert (one["metrics"], one["history"]) == (other["metrics"], other["history"])

    def test_all_classes_at_once(self, tmp_path: Path) -> None:
        part = Part("constant", ("cross_entropy", "exact"), (0.1,), (0.01,))
        study = sky(target={}, unit="area", thresholds=(0.1,), parts=(part,), seeds=1, batch_size_shaped=3)
        shapes = study.shapes("camvid", study.scenes("camvid"), 0.1)["train"]
        assert set(shapes.tolist()) <= {0, 1}
        study = replace(study, thresholds=(0.3,), parts=(replace(part, thresholds=(0.3,)),))
        _, records = run("stuff-segmentation", study, tmp_path)
        assert [record["method"] for record in records] == ["cross_entropy", "exact"]
        assert all(record["metrics"]["components_truth"] >= 3 for record in records)

    def test_more_parts_leave_finished_cells_alone(self) -> None:
        small, large = sky(), sky(parts=(*sky().parts, Part("one_cycle", ("exact",), (0.4,), (1.0,))))
        plans = [StudyPlan(entry("sky-segmentation"), "quick", study, {}) for study in (small, large)]
        few, many = ([plan.key(cell) for cell in plan.study.cells()] for plan in plans)
        assert set(few) < set(many)
        other = StudyPlan(plans[0].entry, "quick", sky(size=(24, 32)), {})
        assert set(few).isdisjoint(other.key(cell) for cell in small.cells())

    def test_refuses(self) -> None:
        with pytest.raises(InputError, match="`methods`"):
            Part("constant", ("dice",), (0.5,), (0.1,))
        with pytest.raises(InputError, match="`schedule`"):
            Part("cosine", ("cross_entropy",))
        with pytest.raises(InputError, match="`thresholds` for methods with shapes"):
            Part("constant", ("exact",))
        with pytest.raises(InputError, match="`thresholds` to hold those of the parts"):
            sky(thresholds=(0.4,))
        with pytest.raises(InputError, match="`unit`"):
            sky(unit="pixels")


def made_up(method: str, seed: int, threshold: float, iou: float, small: float, big: float) -> dict[str, Any]:
    shapes = {"at 0.4": {"small": small, "big": big}, "at 0.6": {"small": small + 0.1, "big": big}}
    return {
        "data": "camvid",
        "schedule": "constant",
        "method": method,
        "alpha": 0.0 if method == "cross_entropy" else 0.01,
        "threshold": threshold,
        "seed": seed,
        "metrics": {"iou": iou, "components": 1.0, "boundary": 1.0, **shapes},
        "history": [0.1, 0.5, 0.6, 0.55],
        "seconds_per_iteration": 1.0,
    }


class TestGroups:
    def test_means_over_thresholds_then_pairs_of_seeds(self) -> None:
        records = [made_up("cross_entropy", seed, 0.0, 0.5 + 0.1 * seed, 0.4, 0.6) for seed in (0, 1)]
        records += [made_up("exact", 0, 0.4, 0.6, 0.5, 0.6), made_up("exact", 0, 0.6, 0.8, 0.5, 0.6)]
        records += [made_up("exact", 1, 0.4, 0.6, 0.5, 0.6), made_up("exact", 2, 0.4, 0.0, 0.5, 0.6)]
        base, exact = groups(records, (0.4, 0.6))
        assert exact.by_seed("iou") == pytest.approx({0: 0.7, 1: 0.6, 2: 0.0})
        assert exact.change("iou").estimate == pytest.approx(((0.7 - 0.5) + (0.6 - 0.6)) / 2)  # seed 2 has no pair
        assert base.by_seed("small")[0] == pytest.approx((0.4 + 0.5) / 2)  # at all thresholds
        assert exact.by_seed("gap")[1] == pytest.approx(0.1)
        assert base.by_seed("jitter")[0] == pytest.approx(0.05)

    def test_a_shape_that_no_image_has_gives_no_number(self) -> None:
        record = made_up("cross_entropy", 0, 0.0, 0.5, 0.4, 0.6)
        record["metrics"]["at 0.4"]["small"] = None
        (base,) = groups([record], (0.4,))
        assert math.isnan(base.value("gap").estimate)
        assert base.text("gap") == "n/a"

    def test_mean_of_leaves_out_what_is_not_finite(self) -> None:
        assert mean_of([1.0, math.nan]).estimate == 1.0
        assert math.isnan(mean_of([]).estimate)


@pytest.mark.usefixtures("_street")
class TestIoUStudy:
    METHODS: Mapping[str, Sequence[Mapping[str, Any]]] = {
        "cross_entropy": [{"rate": 1e-5}, {"rate": 0.03}],
        "weighted": [{"rate": 0.03, "power": 1.0}],
        "focal": [{"rate": 0.03, "gamma": 2.0}],
        "ours": [{"rate": 0.03, "share": 0.5}, {"rate": 0.03, "share": 0.9, "warm_up": 0.5, "counting": "image"}],
    }

    def study(self, **changes: Any) -> camvid_iou.IoUStudy:
        protocol = replace(TINY, epochs=6, judge_every=3)
        settings: dict[str, Any] = {"data": ("camvid",), "seeds": 2, "protocol": protocol, "methods": self.METHODS}
        return camvid_iou.IoUStudy(**(settings | {"rare": (2,), "size": (12, 16), "shown": (1,)} | changes))

    def test_chooses_on_validation_and_reports_the_test(self, tmp_path: Path) -> None:
        plan, records = run("camvid-iou", self.study(), tmp_path)
        tried = {(r["method"], r["setting"]): r for r in records if r["setting"] != "best"}
        best = {(r["method"], r["seed"]): r for r in records if r["setting"] == "best"}
        assert len(tried) == 6
        assert len(best) == 8
        for (method, seed), record in best.items():
            values = {number: r["validation"] for (name, number), r in tried.items() if name == method}
            chosen = max(values, key=lambda number: values[number])
            assert record["chosen"] == int(chosen)
            if seed == 0:  # not trained twice
                assert record["metrics"] == tried[method, chosen]["metrics"]
                assert record["core_seconds"] < 0.1
        assert best["cross_entropy", 0]["chosen"] == 2
        assert best["cross_entropy", 1]["metrics"] != best["cross_entropy", 0]["metrics"]
        text = (tmp_path / "table.md").read_text()
        assert "Difference from cross-entropy, paired by seed" in text
        assert "share 0.5" in text
        assert "What ours has more than others" in text
        assert (tmp_path / "panels.png").is_file()
        assert plan.headline(records).startswith("IoU of rare classes, ours against cross-entropy")

    def test_of_a_cell_leaves_out_other_methods(self) -> None:
        found = entry("camvid-iou")
        plans = [
            StudyPlan(found, "quick", self.study(methods=methods), {})
            for methods in (self.METHODS, {**self.METHODS, "focal": [{"rate": 0.1, "gamma": 1.0}]})
        ]
        keys = [{json.dumps(dict(cell)): plan.key(cell) for cell in plan.study.cells()} for plan in plans]
        changed = {json.loads(cell)["method"] for cell in keys[0] if keys[0][cell] != keys[1][cell]}
        assert changed == {"focal"}

    def test_losses(self) -> None:
        train = scenes(4, 0)
        logits, labels = torch.randn(4, 3, 12, 16), train.labels.long()
        values = {
            name: float(camvid_iou.make_loss(name, settings[0], train)(logits, labels))
            for name, settings in self.METHODS.items()
        }
        assert len(set(values.values())) == 4
        heavy = camvid_iou.make_loss("ours", {"share": 0.9}, train)
        assert 0.0 < float(heavy(logits, labels)) != values["ours"]
        weighted = camvid_iou.make_loss("ours", {"share": 0.5, "power": 1.0}, train)
        assert float(weighted(logits, labels)) != values["ours"]

    def test_shares_of_the_classes(self) -> None:
        found = camvid_iou.class_shares(scenes(4, 0))
        assert float(found.sum()) == pytest.approx(1.0)
        assert int(found.argmin()) == 2

    def test_refuses(self) -> None:
        with pytest.raises(InputError, match="one to four settings of 'focal'"):
            self.study(methods={"focal": [{"rate": 0.1, "gamma": 1.0}] * 5})
        with pytest.raises(InputError, match="`methods`"):
            self.study(methods={"dice": [{"rate": 0.1}]})
        with pytest.raises(InputError, match="`method`"):
            camvid_iou.make_loss("dice", {}, scenes(2, 0))


class TestDigits:
    @pytest.fixture(autouse=True)
    def _fashion(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The built-in images in place of MNIST's files."""

        def load(*, split: str, limit: int, seed: int) -> loaders.SizedDigits:
            images = data.load_fashion(split)
            chosen = np.random.default_rng(seed).permutation(len(images))[:limit]
            return loaders.s_mnist(images.inputs[chosen], images.labels[chosen])

        monkeypatch.setattr(sized_digits, "load_s_mnist", load)
        sized_digits.sized_digits.cache_clear()

    def study(self, **changes: Any) -> DigitStudy:
        protocol = DigitProtocol(train=60, validation=20, test=40, epochs=3, batch_size=40, some=2)
        methods = ("cross_entropy", "partial", "classical", "exact", "direct", "direct_held_out")
        settings: dict[str, Any] = {"data": ("mnist",), "seeds": 2, "protocol": protocol, "methods": methods}
        return DigitStudy(**(settings | {"networks": ("linear",), "alphas": (0.1,)} | changes))

    def test_the_term_leaves_a_linear_network_alone_and_projections_are_counted(self, tmp_path: Path) -> None:
        plan, records = run("s-mnist", self.study(), tmp_path)
        assert len(records) == 12
        by_method = {(r["method"], r["seed"]): r for r in records}
        for seed in (0, 1):  # head and classifier share nothing
            assert by_method["exact", seed]["accuracy"] == by_method["cross_entropy", seed]["accuracy"]
            assert by_method["partial", seed]["projections"] == 3  # once an epoch
            assert by_method["classical", seed]["projections"] >= 3 * 3
            assert by_method["partial", seed]["history"][0]["projections"] == 1
        text = plan.markdown(records)
        assert "Change from cross-entropy, paired by seed" in text
        assert "Epoch to epoch" in text
        assert (tmp_path / "table.png").stat().st_size > 1000
        assert "difference of" in plan.headline(records)
        lines = list(csv.DictReader((tmp_path / "table.csv").open()))
        assert {line["measure"] for line in lines} == {"accuracy", "small", "big", "difference", "jitter"}

    def test_validation_digits_are_others_than_training_digits(self) -> None:
        protocol = DigitProtocol(train=30, validation=10, test=5)
        train, held = (sized_digits.sized_digits(split, 0, protocol)[0] for split in ("train", "validation"))
        assert (len(train), len(held)) == (60, 20)
        assert not {bytes(row) for row in train.numpy()} & {bytes(row) for row in held.numpy()}

    def test_refuses(self) -> None:
        with pytest.raises(InputError, match="`methods`"):
            self.study(methods=("adaboost",))
        with pytest.raises(InputError, match="`networks`"):
            self.study(networks=("deep",))
        with pytest.raises(InputError, match="`epochs`"):
            DigitProtocol(epochs=0)
        with pytest.raises(InputError, match="`method`"):
            sized_digits.train_digits("linear", "svm", 0.0, 0, DigitProtocol())


class TestHistograms:
    def test_spread_by_class_and_pictures(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        street = scenes(10, 0)
        arrays = data.LabelledArrays(
            street.images.numpy(), street.labels.numpy(), street.names, "camvid", ignore_index=street.ignore_index
        )
        images = data.load_fashion("train")
        monkeypatch.setattr(loaders, "load_camvid", lambda: arrays)
        monkeypatch.setattr(
            loaders, "load_s_mnist", lambda *, limit: loaders.s_mnist(images.inputs[:limit], images.labels[:limit])
        )
        study = shape_histograms.HistogramStudy(data=("camvid", "mnist"), digits=50)
        plan, records = run("shape-histograms", study, tmp_path)
        scene, digits = records
        np.testing.assert_allclose(scene["spread"], data.size_spread(street.areas()))
        assert len(digits["wrong"]) == len(digits["names"]) == len(set(images.labels[:50].tolist()))
        for name in ("table.png", "digits.png"):
            assert (tmp_path / name).stat().st_size > 1000
        assert plan.headline(records).startswith("largest spread in CamVid: ")
        assert "wrong side of the mean" in plan.markdown(records)

    def test_refuses(self) -> None:
        with pytest.raises(InputError, match="`data`"):
            shape_histograms.HistogramStudy(data=("cifar10",))
