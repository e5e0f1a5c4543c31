"""The page of the benchmark suite, from the stored runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from setwise._checks import extra
from setwise_research.benchmark_suite.fitting import MEASURES
from setwise_research.benchmark_suite.methods import BASELINE, METHODS
from setwise_research.benchmark_suite.problems import IMAGE_SIZE, TRAIN_IMAGES, Cell, all_cells, share
from setwise_research.benchmark_suite.runner import Protocol, Results, Row
from setwise_research.benchmark_suite.statistics import Difference, holm, paired, pooled
from setwise_research.machine import cpus_of

RARE = 0.05  # cells with at most this share of positives are counted apart
OURS = {"one_network": "Ours, one network", "ours": "Ours"}  # trained for each measure in turn, and last
TITLES = {method.key: method.title for method in METHODS if method.key not in OURS} | OURS


@dataclass(frozen=True)
class Suite:
    """The reported runs, arranged.

    Args:
        values: By cell, method, trained measure and judged measure: the values by seed.
        differences: By method: each cell and measure less the baseline.
        shares: Share of positives by cell.
        rows: The lines behind it.
    """

    values: dict[tuple[Cell, str, str, str], dict[int, float]]
    differences: dict[str, list[Difference]]
    shares: dict[Cell, float]
    rows: list[Row]


def arrange(results: Results, protocol: Protocol) -> Suite:
    """Take the reported lines of the present protocol and recipe, and compare them with the baseline."""
    marks = {
        (m.key, m.measure, images): protocol.fingerprint(m, images=images) for m in METHODS for images in (False, True)
    }
    cells = all_cells()
    values: dict[tuple[Cell, str, str, str], dict[int, float]] = defaultdict(dict)
    rows = []
    for row in results.find(stage="reported"):
        cell = Cell(row["data"], float(row["minority"]) if row["minority"] else None)
        trained = row["measure"] if row["method"] in OURS else None
        if cell not in cells or marks.get((row["method"], trained, cell.is_images)) != row["protocol"]:
            continue
        rows.append(row)
        for judged in MEASURES:
            values[cell, row["method"], row["measure"], judged][int(row["seed"])] = float(row[judged])
    differences: dict[str, list[Difference]] = {}
    for method in (key for key in TITLES if key != BASELINE):
        found = [
            paired(cell, m, values.get((cell, method, m, m), {}), values.get((cell, BASELINE, m, m), {}))
            for m in MEASURES
            for cell in cells
        ]
        differences[method] = [d for d in found if d is not None]
    seen = {cell for cell, *_ in values}
    return Suite(dict(values), differences, {cell: share(cell) for cell in cells if cell in seen}, rows)


def write_page(results: Results, protocol: Protocol, page: str | Path) -> None:
    """Write the page and its picture beside it.

    Args:
        results: The stored runs.
        protocol: What all methods share.
        page: The Markdown file.
    """
    page = Path(page)
    suite = arrange(results, protocol)
    parts = [_head(suite, protocol), _summary(suite), _bars(suite), f"![Differences]({page.stem}.png)"]
    parts += [_measure_table(suite, measure) for measure in MEASURES]
    parts.append(_crossed(suite))
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("\n\n".join(part for part in parts if part) + "\n", encoding="utf-8")
    _picture(suite, page.with_suffix(".png"))


def _head(suite: Suite, protocol: Protocol) -> str:
    dates = sorted(row["date"][:10] for row in suite.rows)
    commits = sorted({row["commit"][:12] for row in suite.rows})
    where = f"{dates[0]} to {dates[-1]}, commits {', '.join(commits)}" if dates else "nothing has been run"
    return "\n".join(
        (
            "# The benchmark suite",
            "",
            "Our recipe (`setwise.Recipe.for_measure`) beside baselines, each with the best of four settings, chosen",
            "on validation data with one seed at one level per data set. A baseline is trained once and its weights",
            "and setting are chosen for every measure in turn; ours is trained for the measure. Ours is the mean of",
            "four networks, which are tuned as one; the same with one network, and cross-entropy's mean of four, stand",
            "beside it to tell what brings what. F1 is at the threshold that is best on the validation set, for all",
            "methods. Test sets of images keep all their positives and weigh them down to the level. Differences are",
            "paired by seed.",
            "",
            f"Tables: {protocol.table_seeds} seeds, a perceptron with two layers of 64, {protocol.table_steps} steps",
            f"of {protocol.table_batch}. Images: {protocol.image_seeds} seeds, {TRAIN_IMAGES:,} images of {IMAGE_SIZE}",
            f"pixels a side before thinning, two convolutions, {protocol.image_steps} steps of {protocol.image_batch}.",
            "",
            f"Runs: `setwise-research benchmark-suite` ({where}; {len(suite.rows)} lines). Page: `make results`.",
            f"{cpus_of(suite.rows)}.",
        )
    )


def _summary(suite: Suite) -> str:
    lines = [
        "## Against tuned cross-entropy: wins, ties, losses",
        "",
        "A win or a loss is a cell whose 95 % interval of the difference excludes zero. Pooled: mean difference over",
        "the cells with its interval, the cells as units.",
        "",
        f"| method | {' | '.join(MEASURES.values())} | all | pooled difference |",
        "|---|---|---|---|---|---|---|",
    ]
    for method, differences in suite.differences.items():
        if not differences:
            continue
        counts = [_counts([d for d in differences if d.measure == m]) for m in MEASURES]
        whole = pooled(differences)
        said = "" if whole is None else f"{whole.estimate:+.4f} [{whole.low:+.4f}, {whole.high:+.4f}]"
        lines.append(f"| {TITLES[method]} | {' | '.join(counts)} | {_counts(differences)} | {said} |")
    return "\n".join(lines)


def _bars(suite: Suite) -> str:
    """What the table is meant to show, checked."""
    ours = suite.differences.get("ours", [])
    if not ours:
        return ""
    rejected = holm([d.p_value for d in ours])
    worse = [d for d, sure in zip(ours, rejected, strict=True) if sure and d.interval.estimate < 0]
    rare = [d for d in ours if suite.shares[d.cell] <= RARE]
    better = sum(d.sign > 0 for d in rare)
    whole = pooled(ours)
    said = [
        f"- Cells that have been run: {len(ours)} of {len(all_cells()) * len(MEASURES)}.",
        f"- Cells worse than cross-entropy after Holm's correction over {len(ours)} cells: {len(worse)}"
        + (f" ({', '.join(f'{d.cell}, {MEASURES[d.measure]}' for d in worse)})." if worse else "."),
        f"- Cells with at most {100 * RARE:g} % positives that are strictly better: {better} of {len(rare)}.",
    ]
    if whole is not None:
        said.append(f"- Pooled difference: {whole.estimate:+.4f} [{whole.low:+.4f}, {whole.high:+.4f}].")
    for key in ("ours", "one_network"):
        duel = _duel(suite, key, "libauc")
        if duel:
            ahead, behind = sum(gap > 0 for gap in duel), sum(gap < 0 for gap in duel)
            said.append(
                f"- {TITLES[key]}, LibAUC in mean AUROC: ahead in {ahead}, behind in {behind} of {len(duel)} cells."
            )
    other = _against(suite, "four_networks")
    if (among := pooled(other)) is not None:
        said.append(
            f"- Against cross-entropy's four networks: {_counts(other)} wins, ties, losses, "
            f"pooled {among.estimate:+.4f} [{among.low:+.4f}, {among.high:+.4f}]."
        )
        for kind, images in (("images", True), ("tables", False)):
            part = [d for d in other if d.cell.is_images == images]
            if (mean := pooled(part)) is not None:
                mean_text = f"{mean.estimate:+.4f} [{mean.low:+.4f}, {mean.high:+.4f}]"
                said.append(f"- The same on {kind}: {_counts(part)}, pooled {mean_text}.")
    return "\n".join(["## Summary", "", *said])


def _against(suite: Suite, other: str) -> list[Difference]:
    """Ours less another method, every cell and measure."""
    found = [
        paired(cell, m, *(suite.values.get((cell, key, m, m), {}) for key in ("ours", other)))
        for m in MEASURES
        for cell in suite.shares
    ]
    return [d for d in found if d is not None]


def _duel(suite: Suite, one: str, other: str) -> list[float]:
    """One method less another, in AUROC, by cell."""
    gaps = []
    for cell in suite.shares:
        mine, theirs = (suite.values.get((cell, key, "auc", "auc")) for key in (one, other))
        if mine and theirs:
            gaps.append(float(np.mean(list(mine.values())) - np.mean(list(theirs.values()))))
    return gaps


def _measure_table(suite: Suite, measure: str) -> str:
    others = [key for key in TITLES if key != BASELINE]
    found = {(d.cell, key): d for key in others for d in suite.differences[key] if d.measure == measure}
    lines = [
        f"## {MEASURES[measure]}",
        "",
        f"| data | positives | {TITLES[BASELINE]} | {' | '.join(TITLES[key] for key in others)} |",
        f"|---|---:|---:|{'---:|' * len(others)}",
    ]
    for cell, positives in suite.shares.items():
        base = suite.values.get((cell, BASELINE, measure, measure))
        if not base:
            continue
        cells = [_difference(found.get((cell, key))) for key in others]
        mean = np.mean(list(base.values()))
        lines.append(f"| {cell.data} | {100 * positives:.1f} % | {mean:.4f} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _crossed(suite: Suite) -> str:
    """Mean differences to cross-entropy of models trained for one measure and judged by each."""
    lines = [
        "## Trained for one measure, judged by all",
        "",
        "Mean over the cells of the difference to cross-entropy chosen for the measure of the column.",
        "",
        f"| trained for | {' | '.join(MEASURES.values())} |",
        f"|---|{'---:|' * len(MEASURES)}",
    ]
    for trained, title in MEASURES.items():
        entries = []
        for judged in MEASURES:
            gaps = []
            for cell in suite.shares:
                mine = suite.values.get((cell, "ours", trained, judged), {})
                base = suite.values.get((cell, BASELINE, judged, judged), {})
                seeds = mine.keys() & base.keys()
                if seeds:
                    gaps.append(float(np.mean([mine[s] - base[s] for s in seeds])))
            entries.append(f"{np.mean(gaps):+.4f}" if gaps else "")
        lines.append(f"| {title} | {' | '.join(entries)} |")
    return "\n".join(lines)


def _counts(differences: Sequence[Difference]) -> str:
    signs = [d.sign for d in differences]
    return f"{signs.count(1)} / {signs.count(0)} / {signs.count(-1)}" if signs else ""


def _difference(found: Difference | None) -> str:
    if found is None:
        return ""
    text = f"{found.interval.estimate:+.4f} ± {(found.interval.high - found.interval.low) / 2:.4f}"
    return f"**{text}**" if found.sign > 0 else f"_{text}_" if found.sign < 0 else text


def _picture(suite: Suite, path: Path) -> None:
    """Every cell's difference with its interval, one panel per measure."""
    figures = extra("matplotlib.figure", "figures")
    figure = figures.Figure(figsize=(14, 0.22 * max(8, len(suite.shares)) + 1.5), layout="constrained")
    axes = figure.subplots(1, len(MEASURES), sharey=True)
    cells = list(suite.shares)
    for axis, (measure, title) in zip(axes, MEASURES.items(), strict=True):
        axis.axvline(0, color="0.6", linewidth=1)
        for d in suite.differences.get("ours", []):
            if d.measure == measure:
                color = {1: "tab:green", 0: "0.4", -1: "tab:red"}[d.sign]
                height = cells.index(d.cell)
                axis.plot([d.interval.low, d.interval.high], [height, height], color=color, linewidth=1.5)
                axis.plot([d.interval.estimate], [height], "o", color=color, markersize=4)
        axis.set_title(title)
        axis.set_xlabel("ours less cross-entropy")
    axes[0].set_yticks(range(len(cells)), [str(cell) for cell in cells], fontsize=8)
    axes[0].invert_yaxis()
    figure.savefig(path, dpi=110)
