"""All benchmarks in one go, part by part; what they find is kept per machine and put into docs/performance.md.

Each part runs in a process of its own on one thread, so that ratios are taken in one process, and a part that fails
takes nothing with it. Its result goes to `results/<machine>.json` as soon as it is there, and what has changed by more
than a quarter against the stored run is told.

    make bench                                        # all parts, about an hour
    python benchmarks/run.py --only auc lp            # some
    python benchmarks/run.py --resume                 # those that this commit has no result of on this machine
    python benchmarks/run.py --page                   # only the page and its pictures, from what is stored
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import torch

from harness import ONE_THREAD, one_thread
from page import PAGE, write_page
from records import RESULTS, Part, changes, load, machine_name, stamp, store

LIMIT = 3600.0  # seconds of a part, on a machine however busy


class Entry(NamedTuple):
    """Where a part is."""

    module: str
    function: str
    what: str


PARTS = {
    "auc": Entry("auc_losses", "part", "AUC losses"),
    "sorts": Entry("auc", "part", "AUCLoss beside cross-entropy, by the way NumPy sorts"),
    "f1": Entry("measure_losses", "f1_part", "F-score losses"),
    "points": Entry("measure_losses", "points_part", "losses at an operating point"),
    "ranking": Entry("measure_losses", "ranking_part", "average precision and partial AUC"),
    "measures": Entry("measures", "part", "every loss of ours beside torch's own"),
    "lp": Entry("lp_tables", "part", "linear programs, all data differentiable"),
    "warm": Entry("lp_tables", "warm_part", "linear programs, warm starts and a large one"),
    "costs": Entry("lp_costs", "part", "linear programs, gradient for the costs"),
    "projection": Entry("projection", "part", "projections of multipliers"),
    "distributed": Entry("distributed", "part", "one set over several ranks"),
    "steps": Entry("training_step", "part", "whole training steps"),
    "metrics": Entry("metrics", "part", "hard metrics"),
    "s_measure": Entry("smeasure_cost", "part", "the term over the whole data set beside a training step"),
    "two_pass": Entry("two_pass", "part", "a network on a large set in chunks"),
}


def run_part(name: str, file: Path) -> None:
    """Run a part in this process, and write what it finds."""
    one_thread()
    warnings.simplefilter("ignore")  # the peers warn of their own internals
    torch.manual_seed(0)
    entry = PARTS[name]
    part: Part = getattr(importlib.import_module(entry.module), entry.function)()
    file.write_text(json.dumps(part.as_json()))


def in_its_process(name: str) -> Part:
    """Run a part in a fresh process, which may print what it does."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "part.json")
        command = [sys.executable, "-W", "ignore", __file__, "--into", str(file), "--only", name]
        subprocess.run(command, check=True, env=os.environ | ONE_THREAD, timeout=LIMIT)  # noqa: S603 (itself)
        return Part.from_json(json.loads(file.read_text()))


def take(name: str, results: Path) -> bool:
    """Run a part, keep it, and tell what it found; False where it failed."""
    print(f"\n=== {name}: {PARTS[name].what}", flush=True)
    stored = load(results)["parts"].get(name)
    start = time.perf_counter()
    try:
        part = in_its_process(name)
    except (subprocess.SubprocessError, OSError) as error:
        print(f"{name} gave up: {error}")
        return False
    seconds = time.perf_counter() - start
    store(results, name, part, stamp(seconds))
    print(f"\n{part.markdown()}\n\n{name}: {seconds:.0f} seconds")
    if stored:
        lines = changes(Part.from_json(stored), part)
        print(f"Against the run of {stored['taken']['date']} ({stored['taken']['commit']}):")
        print("\n".join(f"  {line}" for line in lines) or "  nothing has changed by more than a quarter")
    return True


def main() -> int:
    """Run what is asked for, then write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PARTS, metavar="PART", default=list(PARTS), help=", ".join(PARTS))
    parser.add_argument("--resume", action="store_true", help="leave out what this commit has a result of")
    parser.add_argument("--page", action="store_true", help="write the page only")
    parser.add_argument("--results", type=Path, default=RESULTS / f"{machine_name()}.json", help="the machine's file")
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.into:
        run_part(args.only[0], args.into)
        return 0
    failed = []
    if not args.page:
        stored = load(args.results)["parts"]
        commit = stamp(0)["commit"]
        done = {name for name in stored if args.resume and stored[name]["taken"]["commit"] == commit}
        failed = [name for name in args.only if name not in done and not take(name, args.results)]
    verdicts = [v for entry in load(args.results)["parts"].values() for v in Part.from_json(entry).verdicts]
    judged = [verdict for verdict in verdicts if verdict.met is not None]
    print(f"\n{sum(verdict.met is True for verdict in judged)} of {len(judged)} levels met")
    print("".join(f"  {verdict}\n" for verdict in judged if not verdict.met), end="")
    write_page(args.results)
    print(f"{PAGE.name} written from {args.results.name}")
    if failed:
        print(f"FAILED {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
