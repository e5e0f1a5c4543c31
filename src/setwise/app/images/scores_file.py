"""The scores of a training as npz: the same bytes for the same arrays, and read as something that may be hostile."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Mapping
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from setwise._checks import InputError, all_binary, all_finite, all_non_negative

MOST_ARRAYS = 256  # what a file holds beyond is not read
MOST_BYTES = 1 << 31  # of one array
_START = (1980, 1, 1, 0, 0, 0)  # the date of all entries, so that the same arrays give the same file
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    ValueError,
    EOFError,
    NotImplementedError,
    RuntimeError,
    OSError,
    SyntaxError,
    RecursionError,
)

Arrays = Mapping[str, NDArray[Any]]


def arrays_to_bytes(arrays: Arrays) -> bytes:
    """An npz file, packed."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy", _START)
            entry.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(entry, "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asarray(array), version=(1, 0), allow_pickle=False)
    return content.getvalue()


def arrays_of_bytes(content: bytes) -> dict[str, NDArray[Any]]:
    """The arrays of an npz file, each of one dimension; sizes are checked before anything is allocated.

    Raises:
        InputError: When it is no such file.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            # A packed file of kilobytes may hold any number of them.
            entries = archive.infolist()[:MOST_ARRAYS]
            found = {}
            for entry in entries:
                with archive.open(entry) as file:
                    found[entry.filename.removesuffix(".npy")] = _read_array(file, entry.filename)
            return found
    except InputError:
        raise
    except _BROKEN as error:
        raise InputError(f"it cannot be read: {error}") from error


def check_scores(arrays: Arrays) -> None:
    """Refuse arrays that are not the scores, labels, weights and groups of a validation and a test set."""
    for part in ("validation", "test"):
        own = {name: array for name, array in arrays.items() if name.startswith(f"{part}_")}
        scores, labels = own.get(f"{part}_scores"), own.get(f"{part}_labels")
        if scores is None or labels is None or scores.dtype.kind != "f":
            raise InputError(f"it has no scores and labels of the {part} set")
        sizes = {len(array) for array in own.values()}
        if len(sizes) != 1 or 0 in sizes:
            raise InputError(f"its arrays of the {part} set are not equally long")
        all_finite(f"{part}_scores", scores)
        all_binary(f"{part}_labels", labels)
        if (weights := own.get(f"{part}_weights")) is not None:
            all_non_negative(f"{part}_weights", weights)


def _read_array(file: IO[bytes], name: str) -> NDArray[Any]:
    if np.lib.format.read_magic(file) != (1, 0):
        raise InputError(f"{name} is of another version of NumPy's format")
    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    if len(shape) != 1 or dtype.kind not in "biuf" or not 0 <= shape[0] * dtype.itemsize <= MOST_BYTES:
        raise InputError(f"{name} is an array of shape {shape} and type {dtype}")
    size = shape[0] * dtype.itemsize
    # One byte more than the header says, so that a longer array is noticed and never unpacked.
    content = file.read(size + 1)
    if len(content) != size:
        raise InputError(f"{name} is shorter or longer than its header says")
    return np.frombuffer(content, dtype=dtype).copy()
