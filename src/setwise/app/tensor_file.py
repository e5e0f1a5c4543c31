"""Files of tensors with a state as JSON in their header and a checksum: safetensors, the same bytes every time.

The header's entry ``setwise`` is the state, which says its ``format``; the entry ``sha256`` is the checksum of the
whole file. Nothing is unpickled, and nothing is read before the checksum is right.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from setwise._checks import InputError, all_finite, extra
from setwise._files import ZEROS, damaged, is_intact, is_sealed, seal
from setwise.app.files import DIFFERS, parse_json, plain

KEY = "setwise"


def sealed_tensors(tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> bytes:
    """The bytes of a file, the same every time.

    Args:
        tensors: By name.
        state: Plain values for the header, with a ``format``.
    """
    metadata = {KEY: json.dumps(plain(state), allow_nan=False)}
    bare = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    content: bytes = extra("safetensors.torch", "cli").save(bare)
    size = int.from_bytes(content[:8], "little")
    # The library writes entries of the metadata in any order, so the header is put together here.
    header = {"__metadata__": {"sha256": ZEROS, **metadata}, **json.loads(content[8 : 8 + size])}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return seal(len(text).to_bytes(8, "little") + text + content[8 + size :])


def read_tensors(path: Path, what: str, *, format_: int, advice: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The state in a file's header and its tensors, all from the bytes whose checksum is right.

    Args:
        path: The file.
        what: What it is to be, for messages: "a model file".
        format_: Which format it is to have.
        advice: What to do where it is damaged.

    Raises:
        InputError: When the file is damaged or of another format.
    """
    safetensors, torch_files = extra("safetensors", "cli"), extra("safetensors.torch", "cli")
    content = path.read_bytes()
    state = _state(content, path, what, advice)
    intact = is_intact(content)
    if state.get("format") != format_ and (intact or not is_sealed(content)):  # early files have no checksum
        version = state.get("format")
        newer = isinstance(version, int) and version > format_
        advice = "update this setwise, an older one than wrote it" if newer else advice
        raise InputError(f"Expected {path} to be of format {format_}, but its format is {version!r:.40}: {advice}.")
    if not intact:
        raise damaged(path, DIFFERS, advice)
    try:
        return state, torch_files.load(content)
    except (safetensors.SafetensorError, ValueError, KeyError, RuntimeError, TypeError, AttributeError) as error:
        raise damaged(path, f"its tensors cannot be read: {error}"[:300], advice) from error


def check_tensors(
    what: str, tensors: Mapping[str, Tensor], wanted: Mapping[str, tuple[Sequence[int], torch.dtype]]
) -> None:
    """Refuse tensors that are not those of something, or not finite.

    Args:
        what: It, for messages: "a stack".
        tensors: By name.
        wanted: Shape and type by name.
    """
    for name in sorted(tensors.keys() ^ wanted.keys()):
        raise InputError(
            f"Expected the tensors of {what} to be {', '.join(wanted)}, but {name!r:.80} is missing or too many; train "
            "the model again."
        )
    for name, (shape, dtype) in wanted.items():
        tensor = tensors[name]
        if tensor.shape != torch.Size(shape) or tensor.dtype != dtype:
            raise InputError(
                f"Expected `{name}` of {what} to be {dtype} of shape {shape}, but got {tensor.dtype} of shape "
                f"{tuple(tensor.shape)}; train the model again."
            )
        if dtype.is_floating_point:
            all_finite(name, tensor)
    if "scale" in wanted and not bool((tensors["scale"] > 0).all()):
        raise InputError(f"Expected `scale` of {what} to be positive, but it is not; train the model again.")


def _state(content: bytes, path: Path, what: str, advice: str) -> dict[str, Any]:
    """The JSON in the header of a model file."""
    size = int.from_bytes(content[:8], "little")
    try:
        if not 8 < size + 8 <= len(content):
            raise InputError("it is no whole safetensors file")
        header = parse_json(content[8 : 8 + size].decode())
        metadata = header.get("__metadata__", {}) if isinstance(header, dict) else {}
        if isinstance(metadata, dict) and KEY not in metadata:
            raise InputError("it holds other tensors than those of `setwise train`")
        state = parse_json(metadata[KEY])
    except (ValueError, TypeError, AttributeError) as error:
        why = str(error)[:300]
        raise InputError(f"Expected {path} to be {what}, but it cannot be read: {why}; {advice}.") from error
    if not isinstance(state, dict):
        raise damaged(path, "its header holds no JSON object", advice)
    return state
