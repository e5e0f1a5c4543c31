"""An entry of the papers: its text and presets from YAML; from a module a table's methods and columns, or a study."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module, resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

from setwise._checks import InputError, one_of
from setwise.measures import Measure
from setwise_research.reproduce.learners import Method
from setwise_research.reproduce.preset import Preset
from setwise_research.reproduce.study import Study
from setwise_research.reproduce.tasks import TWO_CLASSES, Task

PACKAGE = "setwise_research.reproduce"
PRESETS = ("quick", "paper")


@dataclass(frozen=True)
class Table:
    """What one module of the package says about its table.

    Args:
        measure: The measure that is trained for; the validation set is judged by its metric.
        methods: All methods by key.
        columns: Keys and titles of the numbers in the table; the first one is the one that counts.
        baseline: Key of the method that the others are compared with.
        note: Says in a sentence, from the finished runs, what the table is meant to show; may be empty.
        task: What is learned: two classes, or several.
        figures: Writes further figures into a folder, from the finished runs.
    """

    measure: Measure
    methods: Mapping[str, Method]
    columns: Mapping[str, str]
    baseline: str
    note: Callable[[Sequence[Mapping[str, Any]]], str] | None = None
    task: Task = TWO_CLASSES
    figures: Callable[[Sequence[Mapping[str, Any]], Path], None] | None = None


@dataclass(frozen=True)
class Entry:
    """A table of trainings, or a study, that ``setwise-research reproduce`` knows.

    Args:
        name: What it is called by.
        title: What it shows.
        source: Table or figure, and the paper.
        data: All data sets that it may be run on.
        cost: Core-minutes of the quick preset.
        module: Module with ``TABLE``, or with ``STUDY``, a subclass of :class:`Study`.
        presets: Protocols by name: presets of a table, or instances of the study.
        published: The papers' own numbers: data set, then method, then one per level of the paper's preset.
        paper_cost: What the other preset takes, in words.
    """

    name: str
    title: str
    source: str
    data: tuple[str, ...]
    cost: float
    module: str
    presets: Mapping[str, Any]
    published: Mapping[str, Mapping[str, Sequence[float]]] = field(default_factory=dict)
    paper_cost: str = "a GPU"

    def table(self) -> Table:
        """Methods and columns of a table of trainings."""
        table: Table = import_module(self.module).TABLE
        return table

    def preset(self, name: str, *, data: Sequence[str] = (), seeds: int | None = None) -> Any:
        """A preset by name (a :class:`Preset` of a table, or a study), on its own data sets or on those given.

        Raises:
            InputError: When the preset or a data set is none of this entry's.
        """
        one_of("preset", name, self.presets)
        preset = self.presets[name]
        if data and not self.data:
            raise InputError(f"Expected no `data` for {self.name}, which needs none, but got {data[0]!r}.")
        for each in data:
            one_of("data", each, self.data)
        return preset.changed(data=data, seeds=seeds)


def installed(method: Method) -> bool:
    """Whether what a method needs can be imported."""
    return method.needs is None or find_spec(method.needs) is not None


def read_entry(name: str) -> Entry:
    """The entry of one name, from the YAML file beside its module.

    Raises:
        InputError: When the file is not as it should be.
    """
    stem = name.replace("-", "_")
    text = resources.files(PACKAGE).joinpath(f"{stem}.yaml").read_text(encoding="utf-8")
    values: dict[str, Any] = yaml.safe_load(text)
    module = import_module(f"{PACKAGE}.{stem}")
    study: type[Study] | None = getattr(module, "STUDY", None)
    entry = Entry(
        name=name,
        title=values["title"],
        source=values["source"],
        data=tuple(values["data"]),
        cost=float(values["cost"]),
        module=module.__name__,
        presets={preset: (study or Preset).from_dict(values[preset]) for preset in PRESETS if preset in values},
        published=values.get("published", {}),
        paper_cost=values.get("paper_cost", "a GPU"),
    )
    if study is None:
        _check_methods(entry)
    return entry


def _check_methods(entry: Entry) -> None:
    """Every method of a preset is one of the table's, and has rates."""
    known = entry.table().methods
    for preset in entry.presets.values():
        for key in (key for part in preset.parts for key in part.methods):
            if key not in known:
                raise InputError(
                    f"Expected the methods of {entry.name} to be among {', '.join(known)}, but got {key!r}."
                )
            known[key].rates(preset)
