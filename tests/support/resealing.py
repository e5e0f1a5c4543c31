"""Files of a run changed by hand, with checksums that are right again: what a hostile run would hold."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import load, save
from torch import Tensor

from setwise._files import ZEROS, is_intact, seal
from setwise.app.tensor_file import KEY

Change = Callable[[dict[str, Any]], object]


def seal_text(text: str) -> bytes:
    """A JSON object, as text, with its checksum in front; whatever else is wrong with it."""
    return seal(f'{{"sha256": "{ZEROS}", {text.lstrip()[1:]}'.encode())


def change_json(path: Path, change: Change) -> None:
    """Change ``settings.json`` or ``results.json``."""
    value = json.loads(path.read_bytes())
    del value["sha256"]
    change(value)
    path.write_bytes(seal_text(json.dumps(value, indent=1) + "\n"))
    assert is_intact(path.read_bytes())


def change_records(run: Path, change: Change) -> None:
    """Change every record, in ``runs.jsonl`` and in ``results.json`` where there is one."""
    lines = []
    for line in (run / "runs.jsonl").read_text().splitlines():
        record = json.loads(line)
        del record["sha256"]
        change(record)
        lines.append(seal_text(json.dumps(record) + "\n"))
    (run / "runs.jsonl").write_bytes(b"".join(lines))
    if (run / "results.json").exists():
        change_json(run / "results.json", lambda results: [change(record) for record in results["runs"]])


def note_digests(run: Path) -> None:
    """Write the checksums of the weights and scores, as they are now, into the records."""

    def note(record: dict[str, Any]) -> None:
        stem = f"seed{record['seed']}-{record['method']}"
        for kind in ("models", "scores"):
            record["files"][kind] = hashlib.sha256((run / kind / f"{stem}.safetensors").read_bytes()).hexdigest()

    change_records(run, note)


def change_weights(path: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    """Change the weights of a training; the records do not know it."""
    tensors = load(path.read_bytes())
    change(tensors)
    path.write_bytes(save(tensors))


def model_parts(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The JSON of a model file, or of a stored fit, and its tensors."""
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    return json.loads(json.loads(content[8 : 8 + size])["__metadata__"][KEY]), load(content)


def write_model(path: Path, state: Mapping[str, Any] | str, tensors: Mapping[str, Tensor]) -> None:
    """A model file of this JSON, or any other text, and these tensors, with the right checksum."""
    text = state if isinstance(state, str) else json.dumps(state)
    content = save({name: tensor.contiguous() for name, tensor in tensors.items()})
    size = int.from_bytes(content[:8], "little")
    header = {"__metadata__": {"sha256": ZEROS, KEY: text}, **json.loads(content[8 : 8 + size])}
    encoded = json.dumps(header, separators=(",", ":")).encode()
    path.write_bytes(seal(len(encoded).to_bytes(8, "little") + encoded + content[8 + size :]))


def change_model(path: Path, change: Callable[[dict[str, Any], dict[str, Tensor]], object]) -> None:
    """Change a model file, or a stored fit."""
    state, tensors = model_parts(path)
    change(state, tensors)
    write_model(path, state, tensors)
