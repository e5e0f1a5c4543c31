"""Studies: cells run one by one, stored as they come, gone on with, and the same digits when run again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from setwise._checks import InputError
from setwise_research.reproduce import Context, Entry, Study, StudyPlan, job
from setwise_research.reproduce.store import RunLog
from setwise_research.reproduce.study import Cell, Record, grid

TIMES = ("date", "core_seconds")


class Stopped(BaseException):
    """Stands for a process that ends at this point."""


class Watch:
    """Progress that ends the run when so many cells have begun."""

    def __init__(self, cells: int = -1) -> None:
        self.left = cells
        self.started: list[tuple[int, int]] = []
        self.titles: list[str] = []

    def start(self, total: int, done: int) -> None:
        self.started.append((total, done))

    def training(self, seed: int, method: str, epochs: int) -> None:  # noqa: ARG002 (the protocol's signature)
        self.titles.append(f"{method}, seed {seed}")
        self.left -= 1
        if self.left == 0:
            raise Stopped

    def epoch(self, epochs: int, value: float) -> None: ...

    def finished(self) -> None: ...


@dataclass(frozen=True)
class Draws(Study):
    """Means of random numbers; the second method needs the first one's record, the third a package."""

    size: int = 10
    methods: tuple[str, ...] = ("plain", "shifted", "absent")

    def cells(self) -> list[Cell]:
        return [{"method": method, "level": 0.5, "seed": seed} for seed in range(self.seeds) for method in self.methods]

    def needs(self, cell: Cell) -> Sequence[Cell]:
        return [{"method": "plain", "level": 0.5, "seed": 0}] if cell["method"] == "shifted" else ()

    def package(self, cell: Cell) -> str | None:
        return "no_such_package" if cell["method"] == "absent" else None

    def run(self, cell: Cell, context: Context) -> Mapping[str, Any]:
        torch.manual_seed(int(cell["seed"]))
        shift = sum(record["mean"] for record in context.before)
        context.checkpoints.mkdir(parents=True)
        context.files.mkdir(parents=True)
        (context.files / "note.txt").write_text(context.device)
        return {"mean": torch.randn(self.size).mean().item() + shift, "threads_seen": torch.get_num_threads()}

    def markdown(self, records: Sequence[Record]) -> str:
        return grid(["Method", "Mean"], [[r["method"], f"{r['mean']:.3f}"] for r in records])

    def rows(self, records: Sequence[Record]) -> list[Mapping[str, Any]]:
        return [{"method": r["method"], "mean": r["mean"]} for r in records]

    def draw(self, records: Sequence[Record], out: Path) -> None:
        (out / "table.png").write_text(str(len(records)))

    def headline(self, records: Sequence[Record]) -> str:
        return f"{len(records)} means"


def plan(only: Mapping[str, Sequence[str]] | None = None, **settings: Any) -> StudyPlan:
    study = Draws(**{"seeds": 2} | settings)
    entry = Entry("draws", "Means", "No paper", ("mnist",), 1, "nowhere", {"quick": study})
    return StudyPlan(entry, "quick", study, only or {})


def timeless(out: Path) -> dict[str, dict[str, Any]]:
    records = RunLog(out / "runs.jsonl").records()
    return {key: {n: v for n, v in record.items() if n not in TIMES} for key, record in records.items()}


def test_cells_are_stored_as_they_come_and_gone_on_with(tmp_path: Path) -> None:
    whole = plan()
    records = whole.run(tmp_path / "whole", Watch())
    assert [(r["method"], r["seed"]) for r in records] == [("plain", 0), ("shifted", 0), ("plain", 1), ("shifted", 1)]
    assert records[1]["mean"] == pytest.approx(2 * records[0]["mean"])
    assert {"commit", "date", "versions", "threads", "core_seconds", "key", "command"} <= set(records[0])
    assert records[0]["threads_seen"] == 1
    assert (tmp_path / "whole" / "files" / records[0]["key"] / "note.txt").read_text() == "cpu"
    assert not any((tmp_path / "whole" / "checkpoints").iterdir())
    for cells in (2, 3):
        with pytest.raises(Stopped):
            whole.run(tmp_path / "parts", Watch(cells))
    assert whole.counts(RunLog(tmp_path / "parts" / "runs.jsonl").records()) == (3, 4)
    watch = Watch()
    whole.run(tmp_path / "parts", watch)
    assert watch.started == [(4, 3)]
    assert watch.titles == ["shifted, 0.5, seed 1"]
    assert timeless(tmp_path / "parts") == timeless(tmp_path / "whole")


def test_one_cell_alone_brings_what_it_needs_and_gives_the_same_digits(tmp_path: Path) -> None:
    plan().run(tmp_path / "whole", Watch())
    some = plan({"method": ["shifted"], "seed": ["1"]})
    (record,) = some.run(tmp_path / "some", Watch())
    assert some.counts({}) == (0, 2)
    assert record["command"] == (
        "setwise-research reproduce draws --preset quick --only method=shifted --only level=0.5 --only seed=1"
    )
    whole = timeless(tmp_path / "whole")
    assert all(whole[key] == found for key, found in timeless(tmp_path / "some").items())


def test_keys_hold_what_decides_and_nothing_else() -> None:
    cell = plan().study.cells()[0]
    assert plan(seeds=9).key(cell) == plan().key(cell)
    assert plan(size=11).key(cell) != plan().key(cell)
    assert plan().key(plan().study.cells()[1]) != plan().key(cell)


def test_the_page_says_what_is_missing_and_where_it_is_from(tmp_path: Path) -> None:
    whole = plan()
    records = whole.run(tmp_path, Watch())
    whole.write(records, tmp_path)
    text = (tmp_path / "table.md").read_text()
    assert text.startswith("# draws, quick preset\n\nMeans. No paper.\n\n| Method | Mean |\n| --- | ---: |\n| plain |")
    assert "- Cells that need `no_such_package` were left out: it is not installed." in text
    assert "Seeds: 0, 1." in text
    assert "Command: `setwise-research reproduce draws --preset quick`" in text
    assert "Not finished: 3 of 4 runs" in whole.markdown(records[:3])
    assert "No run is finished." in whole.markdown([])
    assert (tmp_path / "table.csv").read_text().splitlines()[0] == "method,mean"
    assert (tmp_path / "table.png").read_text() == "4"
    assert (whole.headline(records), whole.headline([])) == ("4 means", "")


def test_what_was_run_elsewhere_is_shown_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Draws, "package", lambda *_: None)
        assert len(plan().run(tmp_path, Watch())) == 6
    stored = RunLog(tmp_path / "runs.jsonl").records()
    here = plan()
    assert here.counts(stored) == (6, 6)
    assert len(here.finished(stored)) == 6
    assert "left out" not in here.markdown(here.finished(stored))
    assert here.counts({}) == (0, 4)


def test_what_a_study_refuses() -> None:
    assert Draws.from_dict({"methods": ["plain"], "size": 3}) == Draws(methods=("plain",), size=3)
    with pytest.raises(InputError, match=r"Expected settings among .*, but got `colour`"):
        Draws.from_dict({"colour": "red"})
    with pytest.raises(InputError, match="`seeds`"):
        Draws(seeds=0)
    with pytest.raises(InputError, match="Expected --only with method, level, seed, but got 'colour'"):
        plan({"colour": ["red"]})
    with pytest.raises(InputError, match="--only seed= one of 0, 1, but got '7'"):
        plan({"seed": ["7"]})


def test_a_job_is_a_plan_of_the_entrys_study() -> None:
    entry = plan().entry
    found = job(entry, seeds=3, data=["mnist"], only={"method": ["plain"]})
    assert isinstance(found, StudyPlan)
    assert found.study == replace(plan().study, seeds=3, data=("mnist",))
    assert found.counts({}) == (0, 3)
    with pytest.raises(InputError, match="`data` to be one of 'mnist', but got 'cifar10'"):
        job(entry, data=["cifar10"])
