"""S-MNIST: sizes, places on the canvas, and the files it comes from."""

from __future__ import annotations

import importlib
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from setwise import data
from setwise._checks import InputError
from setwise_research import loaders

RNG = np.random.default_rng(0)
DIGITS = RNG.integers(0, 256, (5, 28, 28), dtype=np.uint8)
LABELS = np.array([3, 1, 4, 1, 9])


def test_the_small_digit_is_centred_and_untouched() -> None:
    images, _, shapes, source = loaders.s_mnist(DIGITS, LABELS)
    assert images.shape == (10, 64, 64)
    assert images.dtype == np.uint8
    small = images[shapes == 0]
    np.testing.assert_array_equal(small[:, 18:46, 18:46], DIGITS[source[shapes == 0]])
    frame = np.ones((64, 64), bool)
    frame[18:46, 18:46] = False
    assert not small[:, frame].any()


def test_the_big_digit_is_pillows_bilinear_resize() -> None:
    pil = pytest.importorskip("PIL.Image")
    images, _, shapes, _ = loaders.s_mnist(DIGITS, LABELS)
    for big, digit in zip(images[shapes == 1], DIGITS, strict=True):
        expected = np.asarray(pil.fromarray(digit).resize((64, 64), pil.Resampling.BILINEAR)).astype(int)
        assert np.abs(big.astype(int) - expected).max() <= 1  # Pillow rounds between its two passes


def test_labels_shapes_and_sources_go_together() -> None:
    found = loaders.s_mnist(DIGITS, LABELS, sizes=(10, 28, 40), canvas=40)
    assert found.images.shape == (15, 40, 40)
    assert found.shapes.tolist() == [0] * 5 + [1] * 5 + [2] * 5
    np.testing.assert_array_equal(found.labels, LABELS[found.source])
    covered = np.array([(found.images[found.shapes == k] > 0).any(axis=(1, 2)).mean() for k in range(3)])
    assert covered.all()
    for k, size in enumerate((10, 28, 40)):
        rows = np.flatnonzero((found.images[found.shapes == k] > 0).any(axis=(0, 2)))
        assert rows.max() - rows.min() + 1 == size


def test_tensors_and_rectangles_are_taken() -> None:
    rectangles = RNG.integers(1, 256, (2, 12, 20), dtype=np.uint8)
    from_array = loaders.s_mnist(rectangles, [0, 1], sizes=(8,), canvas=8)
    from_tensor = loaders.s_mnist(torch.from_numpy(rectangles), torch.tensor([0, 1]), sizes=(8,), canvas=8)
    np.testing.assert_array_equal(from_array.images, from_tensor.images)
    assert from_array.images.shape == (2, 8, 8)


def test_many_images_are_resized_like_few(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = loaders.s_mnist(DIGITS, LABELS).images
    # By name: as an attribute of the package `s_mnist` is the function.
    monkeypatch.setattr(importlib.import_module("setwise_research.loaders.s_mnist"), "_CHUNK", 2)
    np.testing.assert_array_equal(loaders.s_mnist(DIGITS, LABELS).images, whole)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"images": DIGITS.astype(np.float32)}, TypeError, "`images` to be uint8"),
        ({"images": DIGITS[0]}, InputError, r"shape \(n, h, w\)"),
        ({"images": DIGITS[:, :0]}, InputError, "at least one pixel"),
        ({"labels": LABELS[:3]}, InputError, "5 `images` and 3 `labels`"),
        ({"labels": LABELS + 0.5}, InputError, "whole numbers"),
        ({"sizes": ()}, InputError, "`sizes` to hold at least one"),
        ({"sizes": (28, 65)}, InputError, "fit on the canvas of 64 pixels, but got 65"),
        ({"sizes": (0, 64)}, InputError, r"`sizes\[0\]` to be at least 1"),
        ({"sizes": (28.0, 64)}, TypeError, r"`sizes\[0\]` to be an integer"),
        ({"canvas": 0}, InputError, "`canvas` to be at least 1"),
    ],
)
def test_bad_input_is_named(change: dict[str, Any], error: type[Exception], message: str) -> None:
    arguments: dict[str, Any] = {"images": DIGITS, "labels": LABELS} | change
    images, labels = arguments.pop("images"), arguments.pop("labels")
    with pytest.raises(error, match=message):
        loaders.s_mnist(images, labels, **arguments)


def write_mnist(folder: Path) -> None:
    (folder / "t10k-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 2051, *DIGITS.shape) + DIGITS.tobytes())
    labels = LABELS.astype(np.uint8)
    (folder / "t10k-labels-idx1-ubyte").write_bytes(struct.pack(">II", 2049, len(labels)) + labels.tobytes())


def test_loading_is_the_files_digits_in_both_sizes(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    whole = loaders.load_s_mnist(tmp_path, "test")
    for found, expected in zip(whole, loaders.s_mnist(DIGITS, LABELS), strict=True):
        np.testing.assert_array_equal(found, expected)
    few = loaders.load_s_mnist(tmp_path, "test", limit=3, seed=1, sizes=(28, 32), canvas=32)
    assert few.images.shape == (6, 32, 32)
    np.testing.assert_array_equal(few.images[:3, 2:30, 2:30], DIGITS[few.source[:3]])
    np.testing.assert_array_equal(few.labels, LABELS[few.source])
    fewer = loaders.load_s_mnist(tmp_path, "test", limit=2, seed=1)
    assert fewer.source[:2].tolist() == few.source[:2].tolist()
    other = {tuple(loaders.load_s_mnist(tmp_path, "test", limit=3, seed=s).source[:3].tolist()) for s in range(5)}
    assert len(other) > 1
    assert len(loaders.load_s_mnist(tmp_path, "test", limit=99).images) == 10
    with pytest.raises(InputError, match="`limit` to be at least 1"):
        loaders.load_s_mnist(tmp_path, "test", limit=0)
    with pytest.raises(InputError, match="`split` to be one of"):
        loaders.load_s_mnist(tmp_path, "val")


@pytest.mark.data
def test_the_real_digits(real_set: Callable[[str], Path]) -> None:
    digits = loaders.load_s_mnist(real_set("mnist"), "test", limit=500)
    assert digits.images.shape == (1000, 64, 64)
    assert set(digits.labels) == set(range(10))
    ink = (digits.images > 127).mean(axis=(1, 2))
    # A digit covers (64 / 28)^2 = 5.2 times the pixels when it is big.
    assert 4.5 < ink[digits.shapes == 1].mean() / ink[digits.shapes == 0].mean() < 6


@pytest.mark.data
def test_the_mean_ink_tells_the_sizes_of_s_mnist_apart(real_set: Callable[[str], Path]) -> None:
    digits = loaders.load_s_mnist(real_set("mnist"), "test", limit=300)
    shapes, _ = data.groups_of(data.foreground_size(digits.images))
    assert np.mean(shapes == digits.shapes) > 0.95
