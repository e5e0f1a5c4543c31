"""A requested run: settings and folder from the options that were given, on resume with the stored settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from setwise._checks import InputError
from setwise.app.images.settings import ComparisonSettings
from setwise.app.run_folder import TABLE, RunFolder
from setwise.app.run_settings import read_settings
from setwise.app.settings import TrainSettings
from setwise.app.table_problem import is_table, located


def wants_table(given: Mapping[str, Any], out: Path | None, *, resume: bool) -> bool:
    """Whether a table is meant and no images: by the data, or by the run that is gone on with."""
    if "data" in given:
        return is_table(str(given["data"]))
    return resume and out is not None and RunFolder(out).job == TABLE


def table_run(given: Mapping[str, Any], out: Path | None, *, resume: bool) -> tuple[TrainSettings, RunFolder]:
    """Settings and folder of a run of a table. On resume the stored settings count, and given ones must agree.

    Args:
        given: Settings by name, without those that were not given; candidates as one text.
        out: The folder; None for one in ``runs``, named by measure and data.
        resume: Whether the run in the folder is gone on with.
    """
    values = dict(given)
    if "data" in values:
        values["data"] = located(str(values["data"]))
    # On resume the column stands in the stored settings.
    if "max_weight" in values and "weight" not in values and not resume:
        raise InputError("Expected --weight to name the column of weights beside --max-weight, but there is none.")
    if "models" in values:
        named = values["models"]
        values["models"] = [name.strip() for name in named.split(",") if name.strip()]
        if not values["models"]:
            raise InputError(f"Expected `models` to name candidates, such as logistic,lightgbm, but got {named!r}.")
    values |= {name: tuple(values[name]) for name in TrainSettings.lists if name in values}
    folder = RunFolder(out or _default_folder(values, Path(values.get("data", "")).name.split(".")[0]))
    if resume:
        return replace(read_settings(folder, TrainSettings)[0], **values), folder
    return TrainSettings(**values), folder


def image_run(given: Mapping[str, Any], out: Path | None, *, resume: bool) -> tuple[ComparisonSettings, RunFolder]:
    """Settings and folder of a run of images. On resume the stored settings count, and given ones must agree.

    Args:
        given: Settings by name, without those that were not given.
        out: The folder; None for one in ``runs``, named by measure and data.
        resume: Whether the run in the folder is gone on with.
    """
    values = dict(given)
    ComparisonSettings.check_names(values)
    source = str(values.get("data", ComparisonSettings.data))
    if Path(source).expanduser().is_dir():
        values["data"] = source = str(Path(source).expanduser().resolve())  # so that the run knows it from anywhere
    if values.get("minority") == 0:
        values["minority"] = None
    folder = RunFolder(out or _default_folder(values, Path(source).name))
    if resume:
        return replace(read_settings(folder, ComparisonSettings)[0], **values), folder
    return ComparisonSettings.for_measure(**({"measure": ComparisonSettings.measure} | values)), folder


def _default_folder(given: Mapping[str, Any], stem: str) -> Path:
    short = re.sub(r"\W+", "-", given.get("measure", TrainSettings.measure)).strip("-")
    return Path("runs") / f"{short}-{re.sub(r'[^A-Za-z0-9]+', '-', stem)}"
