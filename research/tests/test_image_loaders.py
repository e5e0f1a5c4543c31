"""The image loaders on small files written in each standard format, whole and broken."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import setwise.data as sd
from setwise._checks import InputError
from setwise_research import loaders

RNG = np.random.default_rng(0)


def pixels(*shape: int) -> NDArray[np.uint8]:
    return RNG.integers(0, 256, shape, dtype=np.uint8)


def write_idx(folder: Path, split: str, images: NDArray[Any], labels: NDArray[Any], *, mark: str = "-") -> None:
    folder.mkdir(exist_ok=True)
    name = "train" if split == "train" else "t10k"
    head = struct.pack(">IIII", 2051, *images.shape)
    (folder / f"{name}-images{mark}idx3-ubyte").write_bytes(head + images.tobytes())
    (folder / f"{name}-labels{mark}idx1-ubyte").write_bytes(struct.pack(">II", 2049, len(labels)) + labels.tobytes())


@pytest.mark.parametrize("mark", ["-", "."])
@pytest.mark.parametrize("split", ["train", "test"])
def test_idx_gives_back_what_was_written(tmp_path: Path, split: str, mark: str) -> None:
    images, labels = pixels(5, 4, 6), np.array([3, 1, 4, 1, 9], np.uint8)
    write_idx(tmp_path, split, images, labels, mark=mark)
    data = loaders.load_idx(tmp_path, split)
    np.testing.assert_array_equal(data.inputs, images)
    assert data.labels.tolist() == [3, 1, 4, 1, 9]
    assert data.labels.dtype == np.int64
    assert data.classes == tuple("0123456789")


def test_idx_reads_gzip_and_class_names(tmp_path: Path) -> None:
    images, labels = pixels(2, 3, 3), np.array([0, 1], np.uint8)
    write_idx(tmp_path, "train", images, labels)
    for path in list(tmp_path.iterdir()):
        (tmp_path / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    (tmp_path / "classes.txt").write_text("coat\nshoe\n")
    data = loaders.load_idx(tmp_path)
    np.testing.assert_array_equal(data.inputs, images)
    assert data.classes == ("coat", "shoe")
    broken = tmp_path / "train-images-idx3-ubyte.gz"
    broken.write_bytes(broken.read_bytes()[:-9])
    with pytest.raises(InputError, match=r"train-images-idx3-ubyte.gz.*do not unpack"):
        loaders.load_idx(tmp_path)


def test_idx_names_what_is_wrong_with_a_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere.*SETWISE_DATA.*folder="):
        loaders.load_idx(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match=r"train-images-idx3-ubyte or train-images.idx3-ubyte"):
        loaders.load_idx(tmp_path)
    write_idx(tmp_path, "train", pixels(3, 4, 4), np.zeros(3, np.uint8))
    images, labels = tmp_path / "train-images-idx3-ubyte", tmp_path / "train-labels-idx1-ubyte"
    whole = images.read_bytes()
    images.write_bytes(whole[:-5])
    with pytest.raises(InputError, match=r"images-idx3-ubyte to hold 64 bytes.*found 59: it is truncated"):
        loaders.load_idx(tmp_path)
    images.write_bytes(whole + b"x")
    with pytest.raises(InputError, match=r"too long"):
        loaders.load_idx(tmp_path)
    images.write_bytes(b"\0\0\x08\x01" + whole[4:])
    with pytest.raises(InputError, match=r"magic number 2051.*found 2049"):
        loaders.load_idx(tmp_path)
    images.write_bytes(b"\0\0")
    with pytest.raises(InputError, match=r"header of 16 bytes, but found 2"):
        loaders.load_idx(tmp_path)
    images.write_bytes(whole)
    labels.write_bytes(struct.pack(">II", 2049, 2) + b"\0\0")
    with pytest.raises(InputError, match=r"one label per image.*3 and 2"):
        loaders.load_idx(tmp_path)
    with pytest.raises(InputError, match=r"`split` to be one of 'train', 'test'"):
        loaders.load_idx(tmp_path, "val")


def test_cifar10_in_order_of_files_and_planes(tmp_path: Path) -> None:
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    images, labels = pixels(10, 32, 32, 3), np.arange(10, dtype=np.uint8)
    planes = images.transpose(0, 3, 1, 2).reshape(10, -1)
    records = np.concatenate([labels[:, None], planes], axis=1)
    for k in range(5):
        (folder / f"data_batch_{k + 1}.bin").write_bytes(records[2 * k : 2 * k + 2].tobytes())
    (folder / "test_batch.bin").write_bytes(records[3:4].tobytes())
    for given in (folder, tmp_path):  # the archive's own folder, or the one it was unpacked in
        data = loaders.load_cifar10(given)
        np.testing.assert_array_equal(data.inputs, images)
        assert data.labels.tolist() == list(range(10))
    assert data.classes[3] == "cat"
    np.testing.assert_array_equal(loaders.load_cifar10(folder, "test").inputs, images[3:4])

    (folder / "data_batch_4.bin").write_bytes(records[6:8].tobytes()[:-1])
    with pytest.raises(InputError, match=r"data_batch_4.bin .* records of 3073 bytes .* 6146 bytes, but found 6145"):
        loaders.load_cifar10(folder)
    (folder / "data_batch_4.bin").write_bytes(b"")
    with pytest.raises(InputError, match=r"found 0"):
        loaders.load_cifar10(folder)
    (folder / "data_batch_4.bin").unlink()
    with pytest.raises(FileNotFoundError, match=r"data_batch_4.bin"):
        loaders.load_cifar10(folder)
    (folder / "test_batch.bin").write_bytes(b"\x0a" + bytes(3072))
    with pytest.raises(InputError, match=r"labels up to 9 in byte 0, but found 10"):
        loaders.load_cifar10(folder, "test")


def test_cifar100_fine_and_coarse(tmp_path: Path) -> None:
    images = pixels(2, 32, 32, 3)
    head = np.array([[4, 99], [19, 0]], np.uint8)
    records = np.concatenate([head, images.transpose(0, 3, 1, 2).reshape(2, -1)], axis=1)
    (tmp_path / "train.bin").write_bytes(records.tobytes())
    (tmp_path / "coarse_label_names.txt").write_text("\n".join(f"c{k}" for k in range(20)))
    data = loaders.load_cifar100(tmp_path)
    np.testing.assert_array_equal(data.inputs, images)
    assert data.labels.tolist() == [99, 0]
    coarse = loaders.load_cifar100(tmp_path, labels="coarse")
    assert coarse.labels.tolist() == [4, 19]
    assert coarse.classes[19] == "c19"
    with pytest.raises(InputError, match=r"`labels` to be one of 'fine', 'coarse'"):
        loaders.load_cifar100(tmp_path, labels="both")
    with pytest.raises(FileNotFoundError, match=r"test.bin"):
        loaders.load_cifar100(tmp_path, "test")
    (tmp_path / "train.bin").write_bytes(records.tobytes()[:-100])
    with pytest.raises(InputError, match=r"3074"):
        loaders.load_cifar100(tmp_path)


def test_stl10_is_column_major_and_counts_from_one(tmp_path: Path) -> None:
    images = pixels(3, 96, 96, 3)
    stored = np.ascontiguousarray(images.transpose(0, 3, 2, 1)).tobytes()  # channel, column, row
    for split in ("train", "unlabeled"):
        (tmp_path / f"{split}_X.bin").write_bytes(stored)
    (tmp_path / "train_y.bin").write_bytes(bytes([1, 10, 5]))
    data = loaders.load_stl10(tmp_path)
    np.testing.assert_array_equal(data.inputs, images)
    assert data.labels.tolist() == [0, 9, 4]
    assert sd.image_tensor(data.inputs)[1, 2, 7, 11].item() == pytest.approx(images[1, 7, 11, 2] / 255)
    free = loaders.load_stl10(tmp_path, "unlabeled")
    assert free.labels.tolist() == [-1, -1, -1]
    assert free.ignore_index == -1

    (tmp_path / "train_y.bin").write_bytes(bytes([1, 10]))
    with pytest.raises(InputError, match=r"train_y.bin to hold 3 bytes .* found 2: it is truncated"):
        loaders.load_stl10(tmp_path)
    (tmp_path / "train_y.bin").write_bytes(bytes([0, 1, 2]))
    with pytest.raises(InputError, match=r"from 1 to 10, but found 0 to 2"):
        loaders.load_stl10(tmp_path)
    (tmp_path / "train_X.bin").write_bytes(stored[:-1])
    with pytest.raises(InputError, match=r"train_X.bin.*27648 bytes"):
        loaders.load_stl10(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"test_X.bin"):
        loaders.load_stl10(tmp_path, "test")


def write_arrays(folder: Path) -> NDArray[np.uint8]:
    images = pixels(4, 5, 6, 3)
    np.save(folder / "train_images.npy", images)
    np.save(folder / "train_labels.npy", np.array([0, 1, 1, 0], np.uint8))
    (folder / "classes.txt").write_text("cat\ndog\n")
    return images


def test_catalog_by_name_and_by_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SETWISE_DATA", str(tmp_path))
    write_idx(tmp_path / "mnist", "train", pixels(2, 3, 3), np.array([7, 7], np.uint8))
    (tmp_path / "catdog64").mkdir()
    write_arrays(tmp_path / "catdog64")
    assert loaders.load("mnist").labels.tolist() == [7, 7]
    assert loaders.load("catdog").classes == ("cat", "dog")
    assert loaders.load(tmp_path / "mnist").labels.tolist() == [7, 7]
    assert len(loaders.load(tmp_path / "catdog64")) == 4
    assert len(loaders.load("fashion", "test")) == 1000
    for name in set(loaders.dataset_names()) - {"fashion", "mnist", "catdog"}:
        with pytest.raises(FileNotFoundError, match=str(tmp_path)):
            loaders.load(name)
    cifar = tmp_path / "other"
    cifar.mkdir()
    (cifar / "test_batch.bin").write_bytes(bytes(3073))
    assert loaders.load(cifar, "test").inputs.shape == (1, 32, 32, 3)


def test_catalog_names_what_it_knows(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"fashion, mnist, cifar10.*did you mean 'fashion'"):
        loaders.load("fasion")
    with pytest.raises(FileNotFoundError, match=r"known format"):
        loaders.load(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"does not exist"):
        loaders.load(tmp_path / "nothing")
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match=r"load_table"):
        loaders.load(tmp_path / "a.csv")


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "folder", "train", "test", "image", "classes"),
    [
        ("mnist", "mnist", 60_000, 10_000, (28, 28), 10),
        ("cifar10", "cifar-10-batches-bin", 50_000, 10_000, (32, 32, 3), 10),
        ("catdog", "catdog64", 20_000, 4_996, (64, 64, 3), 2),
        ("tinyimagenet100", "tinyimagenet100", 30_000, 5_000, (32, 32, 3), 100),
    ],
)
def test_real_sets_have_their_counts(
    real_set: Callable[[str], Path],
    name: str,
    folder: str,
    train: int,
    test: int,
    image: tuple[int, ...],
    classes: int,
) -> None:
    real_set(folder)
    for split, count in (("train", train), ("test", test)):
        data = loaders.load(name, split)
        assert data.inputs.shape == (count, *image)
        assert len(data.classes) == classes
        assert set(np.unique(data.labels)) == set(range(classes))
