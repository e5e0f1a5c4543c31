"""Images as arrays: on disk, built in, as tensors, and by the one entry point."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import setwise.data as sd
from setwise._checks import InputError

RNG = np.random.default_rng(0)


def pixels(*shape: int) -> NDArray[np.uint8]:
    return RNG.integers(0, 256, shape, dtype=np.uint8)


def write_arrays(folder: Path) -> NDArray[np.uint8]:
    images = pixels(4, 5, 6, 3)
    np.save(folder / "train_images.npy", images)
    np.save(folder / "train_labels.npy", np.array([0, 1, 1, 0], np.uint8))
    (folder / "classes.txt").write_text("cat\ndog\n")
    return images


def test_arrays_by_path_and_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "pets"
    folder.mkdir()
    images = write_arrays(folder)
    monkeypatch.setenv("SETWISE_DATA", str(tmp_path))
    for given in (folder, str(folder), "pets"):
        data = sd.load_arrays(given)
        np.testing.assert_array_equal(data.inputs, images)
        assert (data.labels.tolist(), data.classes, data.name) == ([0, 1, 1, 0], ("cat", "dog"), "pets")
    assert isinstance(data.inputs, np.memmap)  # large sets are not read until they are used


def test_arrays_name_what_is_wrong(tmp_path: Path) -> None:
    write_arrays(tmp_path)
    images = tmp_path / "train_images.npy"
    with pytest.raises(FileNotFoundError, match=r"test_images.npy"):
        sd.load_arrays(tmp_path, "test")
    with pytest.raises(FileNotFoundError, match=r"absent"):
        sd.load_arrays(tmp_path / "absent")
    whole = images.read_bytes()
    images.write_bytes(whole[:-10])
    with pytest.raises(InputError, match=r"train_images.npy to be a complete .npy file, but its \d+ bytes"):
        sd.load_arrays(tmp_path)
    images.write_bytes(b"")
    with pytest.raises(InputError, match=r"0 bytes"):
        sd.load_arrays(tmp_path)
    images.write_bytes(whole)
    np.save(tmp_path / "train_labels.npy", np.array([0.5, 1, 1, 0]))
    with pytest.raises(InputError, match=r"whole numbers"):
        sd.load_arrays(tmp_path)
    np.save(tmp_path / "train_labels.npy", np.array([0, 1, 1]))
    with pytest.raises(InputError, match=r"4 and 3"):
        sd.load_arrays(tmp_path)
    np.save(tmp_path / "train_labels.npy", np.array([0, 1, 2, 0]))
    with pytest.raises(InputError, match=r"in \[0, 1\], but they run from 0 to 2"):
        sd.load_arrays(tmp_path)


def test_builtin_fashion_is_balanced_and_whole() -> None:
    for split, per_class in (("train", 300), ("test", 100)):
        data = sd.load_fashion(split)
        assert data.inputs.dtype == np.uint8
        assert data.inputs.shape == (10 * per_class, 28, 28)
        assert np.bincount(data.labels).tolist() == [per_class] * 10
    assert len(data.classes) == 10
    assert data.inputs[data.labels == 8].mean() > data.inputs[data.labels == 5].mean()  # bags fill more than sandals


def test_labelled_arrays_accept_and_refuse() -> None:
    data = sd.LabelledArrays(pixels(3, 2, 2), np.array([0, 2, 1]), ("a", "b", "c"))
    assert len(data) == 3
    assert data.subset(np.array([True, False, True])).labels.tolist() == [0, 1]
    assert data.subset([2, 2]).labels.tolist() == [1, 1]
    assert len(data.subset([])) == 0
    np.testing.assert_array_equal(data.subset([1]).inputs, data.inputs[[1]])
    assert data.subset([1]).classes == data.classes
    with pytest.raises(InputError, match=r"mask `index` of shape \(3,\)"):
        data.subset([True, False])
    with pytest.raises(TypeError, match=r"`index`"):
        data.subset([0.5])
    with pytest.raises(InputError, match=r"\(3, 2\) and \(2,\)"):
        sd.LabelledArrays(np.zeros((3, 2)), np.array([0, 1]))
    with pytest.raises(TypeError, match=r"`labels` to hold whole numbers"):
        sd.LabelledArrays(np.zeros((2, 2)), np.array([0.0, 1.0]))
    with pytest.raises(InputError, match=r"run from -1 to 0"):
        sd.LabelledArrays(np.zeros((2, 2)), np.array([-1, 0]), ("a", "b"))
    assert sd.LabelledArrays(np.zeros((2, 2)), np.array([-1, 0]), ("a", "b"), ignore_index=-1).ignore_index == -1


def test_image_tensor_scales_and_moves_channels() -> None:
    colour = pixels(2, 4, 5, 3)
    tensor = sd.image_tensor(colour)
    assert tensor.dtype == torch.float32
    np.testing.assert_allclose(tensor.numpy(), colour.transpose(0, 3, 1, 2) / 255, rtol=1e-6)
    assert sd.image_tensor(colour[..., 0]).shape == (2, 1, 4, 5)
    with pytest.raises(TypeError, match=r"uint8"):
        sd.image_tensor(colour.astype(np.float32))
    with pytest.raises(InputError, match=r"\(n, h, w\)"):
        sd.image_tensor(colour[0, 0])
    assert sd.label_tensor(np.array([3, 1], np.uint8)).dtype == torch.int64


def test_data_root_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SETWISE_DATA", str(tmp_path))
    assert sd.data_root() == tmp_path
    monkeypatch.delenv("SETWISE_DATA")
    assert sd.data_root() == Path.home() / ".cache" / "setwise"


def test_images_by_name_and_by_folder(tmp_path: Path) -> None:
    images = write_arrays(tmp_path)
    np.testing.assert_array_equal(sd.load(tmp_path).inputs, images)
    assert sd.load(str(tmp_path)).classes == ("cat", "dog")
    assert len(sd.load("fashion", "test")) == 1000
    with pytest.raises(FileNotFoundError, match=r"test_images.npy"):
        sd.load(tmp_path, "test")


def test_what_is_no_such_folder_is_told_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'fashion' or a folder of images as arrays.*did you mean 'fashion'"):
        sd.load("fasion")
    with pytest.raises(InputError, match=r"a folder of images as arrays \(train_images.npy, .*but got 'cifar10'\."):
        sd.load("cifar10")
    with pytest.raises(FileNotFoundError, match=r"found none"):
        sd.load(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"does not exist"):
        sd.load(tmp_path / "nothing")
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match=r"load_table"):
        sd.load(tmp_path / "a.csv")
