"""CPU model and vector extensions: what digits and speed depend on beside versions, as text for stored records."""

from __future__ import annotations

import functools
import platform
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

NOT_RECORDED = "CPU not recorded"
_UNKNOWN = "unknown"
_CPUINFO = Path("/proc/cpuinfo")  # Linux


@functools.cache
def cpu() -> str:
    """The CPU's model, and the vector extensions that NumPy and torch use on it.

    NumPy calls AVX2 ``X86_V3`` and AVX-512 ``X86_V4`` from version 2.4 on. What the environment has turned off is left
    out.
    """
    return f"{cpu_model()} (NumPy {' '.join(numpy_extensions()) or _UNKNOWN}; torch {_torch_extension()})"


@functools.cache
def cpu_model() -> str:
    """The model as the system calls it, or at least the architecture, or "unknown"."""
    return _linux_model() or _mac_model() or platform.processor() or platform.machine() or _UNKNOWN


def numpy_extensions() -> list[str]:
    """The vector extensions that NumPy was built for and finds here, lowest first."""
    found: Mapping[str, Any] = dict(np.show_config(mode="dicts").get("SIMD Extensions", {}))
    return [*found.get("baseline", ()), *found.get("found", ())]


def cpus_of(records: Iterable[Mapping[str, Any]]) -> str:
    """The CPUs of stored records by their entry ``cpu``, which records from before there was one do not have.

    >>> cpus_of([{"cpu": "A"}, {"cpu": "B"}, {"cpu": "A"}, {}])
    'CPU: A, B; not recorded for 1 of 4 cells'
    >>> cpus_of([{}, {"cpu": ""}])
    'CPU not recorded'
    """
    named = [str(record.get("cpu") or "") for record in records]
    known = sorted(set(named) - {""})
    if not known:
        return NOT_RECORDED
    missing = named.count("")
    return f"CPU: {', '.join(known)}" + (f"; not recorded for {missing} of {len(named)} cells" if missing else "")


def _linux_model() -> str:
    try:
        text = _CPUINFO.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    found = re.search(r"^(?:model name|cpu model|Hardware)\s*:\s*(\S.*)$", text, re.MULTILINE)
    return found.group(1).strip() if found else ""


def _mac_model() -> str:
    sysctl = shutil.which("sysctl")
    if sysctl is None or platform.system() != "Darwin":
        return ""
    command = [sysctl, "-n", "machdep.cpu.brand_string"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 (the system's own path)
    return done.stdout.strip()


def _torch_extension() -> str:
    return torch.backends.cpu.get_cpu_capability() if hasattr(torch.backends, "cpu") else _UNKNOWN
