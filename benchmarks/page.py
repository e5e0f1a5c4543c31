"""docs/performance.md from a machine's file: the tables between markers, and the log-log pictures."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from harness import HERE
from records import Part, Table, load

DOCS = HERE.parent / "docs"
PAGE = DOCS / "performance.md"
PICTURES = {"auc": 1, "f1": 1, "points": 1, "ranking": 2}  # of so many tables of a part
BLOCK = re.compile(r"(<!-- begin (\w+)[^>]*-->\n).*?(<!-- end \2 -->)", re.DOTALL)


def filled(text: str, results: dict[str, Any], name: str) -> str:
    """The page with each block `<!-- begin part -->` filled from the stored part; `machine` is about the run."""

    def block(match: re.Match[str]) -> str:
        part = match.group(2)
        inner = about(results, name) if part == "machine" else tables(part, results["parts"].get(part))
        return f"{match.group(1)}\n{inner}\n\n{match.group(3)}"

    return BLOCK.sub(block, text)


def tables(name: str, stored: dict[str, Any] | None) -> str:
    """The tables of a part and when they were taken."""
    if stored is None:
        return "Not measured on this machine yet."
    part, taken = Part.from_json(stored), stored["taken"]
    shown = f"\n\n![Time over n]({picture(name)})" if name in PICTURES else ""
    extensions = taken.get("cpu", "vector extensions not recorded")
    when = f"Taken {taken['date']} at {taken['commit']}, {taken['seconds']} seconds. CPU: {extensions}."
    return f"{part.markdown()}{shown}\n\n{when}"


def about(results: dict[str, Any], name: str) -> str:
    """The machine and the versions."""
    machine, parts = results["machine"], results["parts"]
    versions = sorted({f"torch {p['taken']['torch']}, NumPy {p['taken']['numpy']}" for p in parts.values()})
    seconds = sum(part["taken"]["seconds"] for part in parts.values())
    verdicts = [v.met for part in parts.values() for v in Part.from_json(part).verdicts if v.met is not None]
    where = f"{machine['cpu']}, {machine['cores']} cores, {machine['system']}"
    return (
        f"From `benchmarks/results/{name}.json`: {where}; {'; '.join(versions)}. All parts together took "
        f"{seconds / 60:.0f} minutes. {sum(verdicts)} of {len(verdicts)} levels are met."
    )


def write_page(file: Path) -> None:
    """Fill the page, and draw the pictures, from a machine's file."""
    results = load(file)
    if PAGE.exists():
        PAGE.write_text(filled(PAGE.read_text(), results, file.stem))
    for name, count in PICTURES.items():
        if name in results["parts"]:
            draw(Part.from_json(results["parts"][name]).tables[:count], DOCS / picture(name))


def picture(name: str) -> str:
    """Where the picture of a part is."""
    return f"images/performance-{name}.png"


def draw(tables: list[Table], file: Path) -> None:
    """Time over n, both logarithmic, a panel for each table; ours are the thick lines."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, len(tables), figsize=(8.6 * len(tables), 4.4), squeeze=False, layout="constrained")
    for panel, table in zip(axes[0], tables, strict=True):
        panel.set_prop_cycle(color=[plt.get_cmap("tab20")(k % 10 * 2 + k // 10) for k in range(20)])
        for method in dict.fromkeys(row.method for row in table.rows):
            points = [(row.n, row.ms) for row in table.rows if row.method == method and row.n and row.ms]
            ours = re.match(r"[A-Z]\w+Loss\b", method) is not None
            width = 2.5 if ours else 1.2
            style = "-" if ours else "--"
            panel.loglog(*zip(*points, strict=True), style, marker="o", markersize=3, linewidth=width, label=method)
        panel.set(title=table.title, xlabel="n", ylabel="CPU ms, forward + backward")
        panel.grid(visible=True, which="major", alpha=0.3)
        panel.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=110)
    plt.close(figure)
