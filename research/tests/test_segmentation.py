from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from setwise._checks import InputError
from setwise_research import segmentation
from setwise_research.segmentation import (
    Objective,
    PixelFocalLoss,
    Protocol,
    Scenes,
    Shaped,
    ShapeTask,
    class_weights,
    fit,
    image_shapes,
    make_network,
    score_maps,
)
from setwise_research.segmentation.objectives import TASKS
from setwise_research.segmentation.training import device_of

scipy_ndimage = pytest.importorskip("scipy.ndimage")
TINY = Protocol("fcn", width=4, epochs=2, batch_size=4, rate=0.01)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def squares(n: int = 12, seed: int = 0) -> Scenes:
    """Bright squares of two sizes on a dark ground; class 1 is the square, the border is unlabelled."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(0, 60, (n, 3, 16, 20), generator=generator).to(torch.uint8)
    labels = torch.zeros(n, 16, 20, dtype=torch.uint8)
    for k in range(n):
        side = 4 if k % 2 else 9
        images[k, :, 3 : 3 + side, 4 : 4 + side] += 150
        labels[k, 3 : 3 + side, 4 : 4 + side] = 1
    labels[:, 0] = 255
    return Scenes(images, labels, 2, 255, ("ground", "square"))


def judge(scenes: Scenes) -> object:
    def iou(network: nn.Module, mean: Tensor, spread: Tensor) -> float:
        (maps,) = score_maps(network, scenes, mean, spread)
        counts = segmentation.confusion(maps, scenes.labels.numpy(), 2, ignore_index=255)
        return float(segmentation.class_iou(counts)[1])

    return iou


class TestMasks:
    @pytest.mark.parametrize("labels", [2, 3, 7])
    @pytest.mark.parametrize("shape", [(3, 1, 1), (4, 1, 9), (5, 13, 11)])
    def test_components_as_scipy_counts_them(self, labels: int, shape: tuple[int, int, int]) -> None:
        maps = np.random.default_rng(0).integers(0, labels, shape)
        for background in (None, 0):
            wanted = [sum(scipy_ndimage.label(each == c)[1] for c in range(labels) if c != background) for each in maps]
            assert segmentation.component_counts(maps, background=background).tolist() == wanted

    def test_a_spiral_is_one_component(self) -> None:
        spiral = np.zeros((1, 41, 41), dtype=np.int64)
        y, x, dy, dx = 20, 20, 0, 1
        for length in range(1, 20):
            for _ in range(2):
                for _ in range(2 * length):
                    if 0 <= y < 41 and 0 <= x < 41:
                        spiral[0, y, x] = 1
                    y, x = y + dy, x + dx
                dy, dx = dx, -dy
        assert scipy_ndimage.label(spiral[0])[1] == 1
        assert segmentation.component_counts(spiral, background=0).tolist() == [1]

    def test_boundaries_by_hand(self) -> None:
        maps = np.array([[[0, 0, 1], [0, 2, 1], [0, 2, 9]], np.zeros((3, 3), dtype=int)])
        assert segmentation.boundary_lengths(maps).tolist() == [7, 0]
        assert segmentation.boundary_lengths(maps, ignore_index=9).tolist() == [5, 0]

    def test_iou_by_hand_and_its_mean_over_what_is_there(self) -> None:
        truth, found = np.array([0, 0, 1, 1, 7]), np.array([0, 1, 1, 1, 0])
        counts = segmentation.confusion(found, truth, 3, ignore_index=7)
        np.testing.assert_allclose(segmentation.class_iou(counts), [1 / 2, 2 / 3, np.nan])
        assert segmentation.mean_iou(counts) == pytest.approx(7 / 12)
        assert np.isnan(segmentation.mean_iou(np.zeros((2, 2), dtype=np.int64)))

    def test_refuses(self) -> None:
        with pytest.raises(InputError, match="`predicted` to have the shape of `truth`"):
            segmentation.confusion(np.zeros(3, int), np.zeros(4, int), 2)
        with pytest.raises(InputError, match=r"`truth` to hold classes 0\.\.1"):
            segmentation.confusion(np.zeros(3, int), np.full(3, 5), 2)
        with pytest.raises(InputError, match=r"`maps` of shape \(n, h, w\)"):
            segmentation.component_counts(np.zeros((2, 2), int))
        with pytest.raises(InputError, match=r"`maps` of shape \(n, h, w\)"):
            segmentation.boundary_lengths(np.zeros((2, 2), int))


class TestScenes:
    def test_one_class_keeps_the_images_that_show_it(self) -> None:
        scenes = squares(4)
        scenes.labels[0] = 0
        chosen = scenes.one_class(1)
        assert len(chosen) == 3
        assert chosen.names == ("not square", "square")
        assert set(chosen.labels.unique().tolist()) == {0, 1, 255}
        other = squares(4).one_class(0)
        torch.testing.assert_close(other.labels == 255, squares(4).labels == 255)

    def test_scaling_makes_channels_standard(self) -> None:
        scenes = squares()
        mean, spread = scenes.scaling()
        scaled = (scenes.images - mean) / spread
        torch.testing.assert_close(scaled.mean((0, 2, 3)), torch.zeros(3), atol=1e-4, rtol=0)
        torch.testing.assert_close(scaled.std((0, 2, 3)), torch.ones(3), atol=1e-3, rtol=0)

    def test_shapes_by_area_and_by_quantile(self) -> None:
        sizes: dict[str, NDArray[np.float64]] = {"train": np.array([0.1, 0.2, 0.3, 0.4]), "test": np.array([0.05, 0.9])}
        assert image_shapes(sizes, 0.3)["train"].tolist() == [0, 0, 1, 1]
        by_quantile = image_shapes(sizes, 0.9, "quantile")
        assert by_quantile["train"].tolist() == [0, 0, 0, 1]
        assert by_quantile["test"].tolist() == [0, 1]

    def test_refuses(self) -> None:
        with pytest.raises(TypeError, match="`images` and `labels` to be uint8"):
            Scenes(torch.zeros(1, 3, 2, 2), torch.zeros(1, 2, 2, dtype=torch.uint8), 2, 255)
        with pytest.raises(InputError, match=r"`labels` of shape \(n, h, w\)"):
            Scenes(torch.zeros(1, 3, 2, 2, dtype=torch.uint8), torch.zeros(1, 2, 3, dtype=torch.uint8), 2, 255)
        with pytest.raises(InputError, match="`index`"):
            squares().one_class(2)
        with pytest.raises(InputError, match="`unit`"):
            image_shapes({"train": np.ones(2)}, 0.5, "pixels")
        with pytest.raises(InputError, match="`name`"):
            segmentation.load_scenes("cityscapes", (8, 8))


class TestObjectives:
    @pytest.mark.parametrize("kind", TASKS[1:])
    @pytest.mark.parametrize("name", ["fcn", "segnet", "deeplab"])
    def test_every_task_trains_every_network(self, kind: str, name: str) -> None:
        scenes = squares(8)
        protocol = Protocol(name, width=2, depth=2, dilations=(1,), epochs=1, batch_size=4)
        torch.manual_seed(0)
        network, layer, features = make_network(protocol, 2)
        task = ShapeTask(network, layer, features, torch.arange(8) % 2)
        objective = Shaped(nn.CrossEntropyLoss(ignore_index=255), task, kind, alpha=0.1, ignore_index=255)
        before = [p.detach().clone() for p in network.parameters()]
        fitted = fit(network, objective, scenes, protocol, judge=lambda *_: 0.5)
        assert fitted.history == (0.5,)
        assert any(not torch.equal(p, q) for p, q in zip(network.parameters(), before, strict=True))
        facts = objective.facts()
        assert ("weights" in facts) == (kind == "direct")
        assert ("projections" in facts) == (kind in ("paper", "exact", "shuffled"))
        if kind == "paper":
            assert facts["projections"] == 1  # once an epoch

    def test_the_term_moves_the_network_only_with_its_weight(self) -> None:
        def trained(kind: str, alpha: float) -> Tensor:
            torch.manual_seed(0)
            network, layer, features = make_network(TINY, 2)
            pixels = nn.CrossEntropyLoss(ignore_index=255)
            task = ShapeTask(network, layer, features, torch.arange(12) % 2)
            objective = Shaped(pixels, task, kind, alpha=alpha) if kind != "none" else Objective(pixels)
            fit(network, objective, squares(), TINY, judge=lambda *_: 0.0)
            return torch.cat([p.detach().flatten() for p in network.parameters()])

        plain = trained("none", 0.0)
        assert torch.equal(trained("exact", 0.0), plain)
        weighted = [trained(kind, 1.0) for kind in ("exact", "label", "shuffled")]
        assert all(not torch.equal(weights, plain) for weights in weighted)
        assert not torch.equal(weighted[0], weighted[2])

    def test_focal_loss_between_cross_entropy_and_its_definition(self) -> None:
        torch.manual_seed(0)
        logits, labels = torch.randn(2, 3, 4, 4), torch.randint(3, (2, 4, 4))
        labels[0, 0] = 9
        torch.testing.assert_close(
            PixelFocalLoss(0.0, 9)(logits, labels), nn.CrossEntropyLoss(ignore_index=9)(logits, labels)
        )
        known = labels != 9
        q = logits.softmax(1).movedim(1, -1)[known].gather(1, labels[known][:, None])
        torch.testing.assert_close(PixelFocalLoss(2.0, 9)(logits, labels), (-((1 - q) ** 2) * q.log()).mean())
        assert float(PixelFocalLoss(2.0, 9)(logits, torch.full_like(labels, 9))) == 0.0

    def test_class_weights(self) -> None:
        labels = torch.tensor([0] * 8 + [1] * 2 + [255] * 5)
        torch.testing.assert_close(class_weights(labels, 2, 255, 0.0), torch.ones(2))
        full = class_weights(labels, 2, 255, 1.0)
        assert float(full[0]) * 8 == pytest.approx(float(full[1]) * 2)
        assert torch.isfinite(class_weights(labels, 3, 255, 0.5)).all()

    def test_refuses(self) -> None:
        network, layer, features = make_network(TINY, 2)
        with pytest.raises(InputError, match="`shapes` to hold 0 and 1"):
            ShapeTask(network, layer, features, torch.zeros(4))
        task = ShapeTask(network, layer, features, torch.arange(4) % 2)
        with pytest.raises(InputError, match="`kind`"):
            Shaped(nn.CrossEntropyLoss(), task, "none")
        with pytest.raises(InputError, match="`alpha`"):
            Shaped(nn.CrossEntropyLoss(), task, "exact", alpha=-1.0)
        with pytest.raises(InputError, match="`gamma`"):
            PixelFocalLoss(-1.0)


class Stopped(BaseException):
    """Stands for a process that ends at this point."""


class TestTraining:
    def test_learns_squares(self) -> None:
        torch.manual_seed(0)
        network, _, _ = make_network(TINY, 2)
        protocol = Protocol("fcn", width=4, epochs=12, batch_size=4, rate=0.02)
        objective = Objective(nn.CrossEntropyLoss(ignore_index=255))
        fitted = fit(network, objective, squares(24), protocol, judge=judge(squares(8, seed=1)))  # type: ignore[arg-type]
        assert len(fitted.history) == 12
        assert fitted.history[-1] > 0.8 > fitted.history[0]
        assert fitted.seconds_per_iteration > 0

    @pytest.mark.parametrize("kind", ["none", "paper", "direct"])
    def test_goes_on_after_a_stop_to_the_same_weights(self, kind: str, tmp_path: Path) -> None:
        def trained(folder: Path | None, stop: int = -1) -> Tensor:
            torch.manual_seed(3)
            network, layer, features = make_network(TINY, 2)
            pixels = nn.CrossEntropyLoss(ignore_index=255)
            objective: Objective = Objective(pixels)
            if kind != "none":
                task = ShapeTask(network, layer, features, torch.arange(12) % 2)
                objective = Shaped(pixels, task, kind, ignore_index=255)

            def watch(epochs: int, _: float) -> None:
                if epochs == stop:
                    raise Stopped

            protocol = Protocol("fcn", width=4, epochs=4, batch_size=4)
            fit(network, objective, squares(), protocol, judge=lambda *_: 0.0, checkpoints=folder, on_epoch=watch)
            return torch.cat([p.detach().flatten() for p in network.parameters()])

        whole = trained(None)
        with pytest.raises(Stopped):
            trained(tmp_path, stop=3)
        torch.manual_seed(99)
        assert torch.equal(trained(tmp_path), whole)

    def test_judges_every_so_often_and_at_the_end(self) -> None:
        network, _, _ = make_network(TINY, 2)
        protocol = Protocol("fcn", width=4, epochs=5, batch_size=6, schedule="constant", judge_every=2)
        told: list[int] = []
        fit(
            network,
            Objective(nn.CrossEntropyLoss(ignore_index=255)),
            squares(),
            protocol,
            judge=lambda *_: 0.0,
            on_epoch=lambda epochs, _: told.append(epochs),
        )
        assert told == protocol.judged_epochs() == [2, 4, 5]
        assert replace(protocol, epochs=4).judged_epochs() == [2, 4]

    def test_crops_show_image_and_labels_at_the_same_place(self) -> None:
        seen: list[tuple[Tensor, Tensor]] = []

        class Watch(Objective):
            def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
                seen.append((logits, labels))
                return super().forward(logits, labels, index)

        class Brightness(nn.Module):
            """Two logits whose difference is the brightness."""

            def __init__(self) -> None:
                super().__init__()
                self.scale = nn.Parameter(torch.ones(()))

            def forward(self, images: Tensor) -> Tensor:
                bright = self.scale * images.mean(1)
                return torch.stack([torch.zeros_like(bright), bright - 0.5], 1)

        protocol = Protocol("fcn", epochs=3, batch_size=4, rate=1e-6, crop=(8, 10))
        objective = Watch(nn.CrossEntropyLoss(ignore_index=255))
        fit(Brightness(), objective, squares(), protocol, judge=lambda *_: 0.0)
        for logits, labels in seen:
            assert labels.shape[1:] == (8, 10)
            known = labels != 255
            assert ((logits.argmax(1) == labels) | ~known).all()
        assert len({tuple(labels.flatten().tolist()) for _, labels in seen}) > 1

    def test_offsets_move_the_decision(self) -> None:
        torch.manual_seed(0)
        network, _, _ = make_network(TINY, 2)
        mean, spread = squares().scaling()
        offsets = [torch.tensor([0.0, 0.0]), torch.tensor([0.0, 1e6]), torch.tensor([1e6, 0.0])]
        plain, ones, zeros = score_maps(network, squares(), mean, spread, offsets=offsets)
        np.testing.assert_array_equal(plain, score_maps(network, squares(), mean, spread)[0])
        assert (ones == 1).all()
        assert (zeros == 0).all()

    @pytest.mark.parametrize(
        ("settings", "named"),
        [({"network": "unet"}, "network"), ({"schedule": "cosine"}, "schedule"), ({"rate": 0.0}, "rate")],
    )
    def test_refuses_settings(self, settings: dict[str, object], named: str) -> None:
        with pytest.raises(InputError, match=f"`{named}`"):
            Protocol(**settings)  # type: ignore[arg-type]

    def test_refuses_a_crop_larger_than_the_images_and_a_gpu_that_is_not_there(self) -> None:
        network, _, _ = make_network(TINY, 2)
        objective = Objective(nn.CrossEntropyLoss(ignore_index=255))
        with pytest.raises(InputError, match="`crop` to fit"):
            fit(network, objective, squares(), Protocol("fcn", width=4, crop=(17, 20)), judge=lambda *_: 0.0)
        assert device_of("cpu").type == "cpu"
        with pytest.raises(InputError, match="`device`"):
            device_of("tpu")
        if not torch.cuda.is_available():
            with pytest.raises(InputError, match="torch sees none"):
                device_of("gpu")
