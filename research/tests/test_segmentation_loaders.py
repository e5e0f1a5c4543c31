"""CamVid and COCO-Stuff on small folders written here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from torch.utils.data import DataLoader

from setwise import data
from setwise._checks import InputError
from setwise_research.loaders import SegmentationFolder, camvid_folder, load_camvid, load_coco_stuff

RNG = np.random.default_rng(1)


def save(array: NDArray[Any], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(path)


@pytest.fixture
def camvid(tmp_path: Path) -> tuple[Path, NDArray[Any], NDArray[Any]]:
    images = RNG.integers(0, 256, (3, 6, 8, 3), dtype=np.uint8)
    maps = RNG.integers(0, 12, (3, 6, 8), dtype=np.uint8)
    for k in (2, 0, 1):
        save(images[k], tmp_path / "train" / f"f{k}.png")
        save(maps[k], tmp_path / "trainannot" / f"f{k}.png")
    return tmp_path, images, maps


def test_camvid_arrays_and_lazy_items_agree(camvid: tuple[Path, NDArray[Any], NDArray[Any]]) -> None:
    folder, images, maps = camvid
    data = load_camvid(folder)
    np.testing.assert_array_equal(data.inputs, images)
    np.testing.assert_array_equal(data.labels, maps)
    assert (len(data.classes), data.ignore_index) == (11, 11)
    lazy = camvid_folder(folder)
    assert len(lazy) == 3
    image, labels = lazy[1]
    np.testing.assert_allclose(image.numpy(), images[1].transpose(2, 0, 1) / 255, rtol=1e-6)
    assert labels.dtype == torch.int64
    np.testing.assert_array_equal(labels.numpy(), maps[1])


def test_camvid_class_file_says_what_to_ignore(camvid: tuple[Path, NDArray[Any], NDArray[Any]]) -> None:
    folder, _, _ = camvid
    (folder / "classes.txt").write_text("\n".join([f"c{k}" for k in range(11)] + ["Void"]))
    assert load_camvid(folder).classes[-1] == "c10"
    (folder / "classes.txt").write_text("\n".join(f"c{k}" for k in range(12)))
    data = load_camvid(folder)
    assert (len(data.classes), data.ignore_index) == (12, None)


def test_camvid_names_what_is_missing_or_broken(camvid: tuple[Path, NDArray[Any], NDArray[Any]]) -> None:
    folder, images, _ = camvid
    with pytest.raises(FileNotFoundError, match=r"label maps|images \(PNG\)"):
        load_camvid(folder, "val")
    with pytest.raises(InputError, match=r"'train', 'val', 'test'"):
        load_camvid(folder, "dev")
    label = folder / "trainannot" / "f1.png"
    whole = label.read_bytes()
    label.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"f1.png to be a complete image, but its \d+ bytes"):
        load_camvid(folder)
    save(images[1], label)
    with pytest.raises(InputError, match=r"mode is RGB"):
        load_camvid(folder)
    save(np.zeros((5, 8), np.uint8), label)
    with pytest.raises(InputError, match=r"f1.png to have the size of its image, \(6, 8\), but it is \(5, 8\)"):
        load_camvid(folder)
    label.unlink()
    with pytest.raises(FileNotFoundError, match=r"label map in .* for each of f1"):
        load_camvid(folder)
    save(np.zeros((5, 8), np.uint8), label)
    save(np.zeros((5, 8, 3), np.uint8), folder / "train" / "f1.png")
    with pytest.raises(InputError, match=r"one size"):
        load_camvid(folder)


def test_coco_stuff_matches_by_stem_and_resizes(tmp_path: Path) -> None:
    grey = np.full((9, 12), 80, np.uint8)
    save(grey, tmp_path / "images" / "a.jpg")  # COCO has grey images too
    save(np.full((9, 12, 3), 200, np.uint8), tmp_path / "images" / "b.jpg")
    save(np.zeros((4, 4, 3), np.uint8), tmp_path / "images" / "without.jpg")
    half = np.zeros((9, 12), np.uint8)
    half[:, 6:] = 255
    palette = Image.fromarray(half, "L").convert("P")
    palette.putdata(half.reshape(-1).tolist())
    (tmp_path / "maps").mkdir()
    palette.save(tmp_path / "maps" / "a.png")
    save(np.full((9, 12), 181, np.uint8), tmp_path / "maps" / "b.png")

    data = load_coco_stuff(tmp_path / "images", tmp_path / "maps")
    assert len(data) == 2
    assert data.ignore_index == 255
    image, labels = data[0]
    assert image.shape == (3, 9, 12)
    assert image.mean().item() == pytest.approx(80 / 255, abs=0.01)
    np.testing.assert_array_equal(labels.numpy(), half)

    small = load_coco_stuff(tmp_path / "images", tmp_path / "maps", size=(6, 8))
    images, maps = next(iter(DataLoader(small, batch_size=2)))
    assert images.shape == (2, 3, 6, 8)
    assert maps[0].unique().tolist() == [0, 255]  # the nearest pixel, never a mixture of labels
    assert maps[1].unique().tolist() == [181]

    save(np.zeros((9, 12), np.uint8), tmp_path / "maps" / "c.png")
    with pytest.raises(FileNotFoundError, match=r"image in .* for each of c"):
        load_coco_stuff(tmp_path / "images", tmp_path / "maps")
    with pytest.raises(FileNotFoundError, match=r"nowhere"):
        load_coco_stuff(tmp_path / "nowhere", tmp_path / "maps")


def test_segmentation_folder_checks_its_arguments(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"`pairs`"):
        SegmentationFolder([])
    with pytest.raises(InputError, match=r"`size\[1\]` to be at least 1"):
        SegmentationFolder([(tmp_path, tmp_path)], size=(4, 0))
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"there are none"):
        load_coco_stuff(tmp_path / "empty", tmp_path / "empty")
    gone = SegmentationFolder([(tmp_path / "x.png", tmp_path / "x.png")])
    with pytest.raises(FileNotFoundError, match=r"x\.png"):
        gone[0]


@pytest.mark.data
def test_real_camvid(real_set: Callable[[str], Path]) -> None:
    folder = real_set("camvid")
    data = load_camvid(folder, "val")
    assert data.inputs.shape == (101, 120, 160, 3)
    assert set(np.unique(data.labels)) == set(range(12))
    assert len(camvid_folder(folder, "train")) == 367
    assert len(camvid_folder(folder, "test")) == 233


@pytest.mark.data
def test_sizes_in_real_street_scenes(real_set: Callable[[str], Path]) -> None:
    camvid = load_camvid(real_set("camvid"), "val")
    areas = data.class_areas(camvid.labels, len(camvid.classes), ignore_index=camvid.ignore_index)
    lazy = camvid_folder(real_set("camvid"), "val")
    sky = data.class_area((lazy.read(k)[1] for k in range(len(lazy))), 0, ignore_index=lazy.ignore_index)
    np.testing.assert_allclose(areas[:, 0], sky)
    assert 0.05 < sky.mean() < 0.4
    assert set(data.groups_of(sky)[0]) == {0, 1}
    assert set(data.majority_group(areas)) == {0, 1}
