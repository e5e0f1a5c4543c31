"""What every benchmark measures by: time, memory, error, growth; and running a measurement in a fresh process.

- Time: CPU time on one thread, the methods in turns on fresh data, medians. Data are made outside the clock.
- Memory: growth of the peak resident size over one action, from Linux's account, best in a process of its own
  (:func:`apart`), since an allocator keeps what an earlier action has freed.
- Error: the largest difference over the largest exact entry.
- Growth: the exponent p of time ~ n^p, by least squares on the logarithms.

    python benchmarks/harness.py FILE FUNCTION ARGUMENTS   # what `apart` runs
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np
import torch
from torch import Tensor

from setwise_research.machine import numpy_extensions

HERE = Path(__file__).parent
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"), "1")
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")

Action = Callable[[], object]
Case = Callable[[], Action]  # makes fresh data, which is not timed, and gives what is
P = ParamSpec("P")
T = TypeVar("T")


def one_thread() -> None:
    """One thread in this process; it starts again where the libraries were told otherwise when they were loaded."""
    if any(os.environ.get(name) != value for name, value in ONE_THREAD.items()):
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], os.environ | ONE_THREAD)  # noqa: S606 (itself)
    torch.set_num_threads(1)


@dataclass
class Timing:
    """Seconds of each repetition of one method, and why it gave up, where it did."""

    warm_up: int = 0
    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    failure: str = ""

    def kept(self, kind: str = "cpu") -> list[float]:
        """All but the first repetitions, which warm caches; or all but one, where a slow method has no others."""
        seconds: list[float] = getattr(self, kind)
        return seconds[self.warm_up :] or seconds[1:] or seconds

    @property
    def ms(self) -> float:
        """Median of CPU time in milliseconds; nan where there is none."""
        return 1e3 * float(np.median(self.kept())) if self.cpu else math.nan

    @property
    def wall_ms(self) -> float:
        """Median of wall time in milliseconds."""
        return 1e3 * float(np.median(self.kept("wall"))) if self.wall else math.nan


def interleave(
    cases: Mapping[str, Case], repetitions: int, *, warm_up: int = 3, in_a_row: int = 1, budget: float = math.inf
) -> dict[str, Timing]:
    """The times of all methods, taken in turns.

    Args:
        cases: By name, what makes fresh data and gives the action to time.
        repetitions: How often, beyond the warm-up.
        warm_up: Turns that do not count.
        in_a_row: How often a method runs in its turn; more than once where another one would leave cold caches.
        budget: CPU seconds, beyond the first run, after which a method gets no further one. What raises gets none.
    """
    timings = {name: Timing(warm_up * in_a_row) for name in cases}
    for _ in range(repetitions + warm_up):
        for name, case in cases.items():
            timing = timings[name]
            for _ in range(in_a_row):
                if timing.failure or sum(timing.cpu[1:]) > budget:
                    break
                try:
                    _once(case, timing)
                except Exception as error:  # noqa: BLE001 (a method that gives up is part of the result)
                    timing.failure = first_line(error)
    return timings


def _once(case: Case, timing: Timing) -> None:
    action = case()
    wall, cpu = time.perf_counter(), time.process_time()
    action()
    timing.cpu.append(time.process_time() - cpu)
    timing.wall.append(time.perf_counter() - wall)


def first_line(error: Exception) -> str:
    """What went wrong, in one line."""
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"[:200]


def status_megabytes(entry: str) -> float:
    """An entry of Linux's account of this process, such as VmHWM (peak) or VmRSS (present); nan elsewhere."""
    if not STATUS.exists():
        return math.nan
    return next(int(line.split()[1]) for line in STATUS.read_text().splitlines() if line.startswith(f"{entry}:")) / 1024


def extra_megabytes(action: Action) -> float:
    """By how much the peak resident size exceeds the present one during the action; nan where nobody tells."""
    if not CLEAR.exists():
        return math.nan
    CLEAR.write_text("5")  # the peak starts again from the present size
    before = status_megabytes("VmHWM")
    action()
    return status_megabytes("VmHWM") - before


def apart(
    function: Callable[P, T], environment: Mapping[str, str] | None = None, *, timeout: float | None = None
) -> Callable[P, T]:
    """The function in a fresh process on one thread; arguments and result are JSON, its module is in this folder."""
    module = Path(inspect.getfile(function)).stem

    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        words = [module, function.__qualname__, json.dumps([args, kwargs])]
        command = [sys.executable, "-W", "ignore", __file__, *words]
        settings = os.environ | ONE_THREAD | dict(environment or {})
        done = subprocess.run(command, capture_output=True, text=True, env=settings, timeout=timeout, check=False)  # noqa: S603 (itself)
        if done.returncode:
            message = (done.stderr.strip().splitlines() or [f"ended by signal {-done.returncode}"])[-1]
            raise RuntimeError(message)
        result: T = json.loads(done.stdout.splitlines()[-1])
        return result

    return run


def without_avx512() -> dict[str, str]:
    """An environment for :func:`apart` in which NumPy makes no use of AVX-512; empty where it makes none here."""
    names = [name for name in numpy_extensions() if name.startswith("AVX512") or name == "X86_V4"]
    return {"NPY_DISABLE_CPU_FEATURES": " ".join(names)} if names else {}


def largest_error(found: Tensor, exact: Tensor) -> float:
    """The largest difference, relative to the largest exact entry."""
    found, exact = found.detach().double(), exact.detach().double()
    return float((found - exact).abs().max() / exact.abs().max().clamp_min(torch.finfo(torch.float64).tiny))


def exponent(sizes: Sequence[float], times: Sequence[float]) -> float:
    """The slope p of log time over log n by least squares; nan where fewer than two sizes were measured."""
    points = [(n, t) for n, t in zip(sizes, times, strict=True) if t > 0 and math.isfinite(t)]
    if len({n for n, _ in points}) < 2:
        return math.nan
    x, y = np.log(np.array(points, dtype=float)).T
    x = x - x.mean()
    return float(x @ (y - y.mean()) / (x @ x))


def installed(module: str) -> bool:
    """Whether a peer is here; it is loaded only where it is run."""
    return importlib.util.find_spec(module) is not None


def peer(module: str) -> Any:
    """A peer's module; what goes wrong in loading it is part of the result."""
    return importlib.import_module(module)


def _serve(module: str, function: str, arguments: str) -> None:
    torch.set_num_threads(1)
    args, kwargs = json.loads(arguments)
    print(json.dumps(getattr(importlib.import_module(module), function)(*args, **kwargs)))


if __name__ == "__main__":
    sys.path.insert(0, str(HERE))
    _serve(*sys.argv[1:])
