"""What ``setwise-research benchmark-suite`` does: run what is missing, and write its page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from setwise._checks import is_count
from setwise.cli.display import console
from setwise_research.benchmark_suite import Job, Protocol, Results, jobs, run, write_page


def run_suite(
    runs: Path, page: Path | None, *, data: Sequence[str], methods: Sequence[str], threads: int, dry: bool
) -> None:
    """Run what is missing, one line of the file for each finished run, then write the page.

    Args:
        runs: The CSV file of finished runs.
        page: The Markdown page to write; None for none.
        data: Names of data sets; none for all.
        methods: Keys of methods; none for all that are installed.
        threads: Of torch.
        dry: Run nothing.
    """
    is_count("threads", threads)
    torch.set_num_threads(threads)
    protocol, results, screen = Protocol(), Results.read(runs), console()
    if not dry:
        for number, job in enumerate(jobs(protocol, results, data, methods), start=1):
            screen.print(f"{number:4d}  {_line(job)}", markup=False, highlight=False)
            results.append(run(job, protocol))
    screen.print(f"{len(results.rows)} lines in {runs}", markup=False)
    if page is not None:
        write_page(results, protocol, page)
        screen.print(f"Written: {page} and {page.with_suffix('.png')}", markup=False)


def _line(job: Job) -> str:
    setting = ", ".join(f"{name} {value}" for name, value in job.setting.items())
    seeds = f"{len(job.seeds)} seed{'s' if len(job.seeds) > 1 else ''}"
    return f"{job.stage:8s} {job.cell!s:32s} {job.method.title:32s} {setting}; {seeds}"
