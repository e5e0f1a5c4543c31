"""Text for HTML: escaping, names from outside made harmless and short, numbers and intervals."""

from __future__ import annotations

import html
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from setwise.metrics import Interval

NAME_LENGTH = 80
VALUE_LENGTH = 600  # of a setting
# Marks that change the direction of the text after them, which is ours.
_DIRECTION = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def shown_name(name: object) -> str:
    """A name as the page shows it: no control or direction marks, and in the middle shortened where it is long."""
    text = _DIRECTION.sub("\ufffd", str(name))
    text = "".join("\ufffd" if unicodedata.category(c) in ("Cc", "Cs") and not c.isspace() else c for c in text)
    text = " ".join(text.split())
    if len(text) <= NAME_LENGTH:
        return text or "(empty)"
    half = (NAME_LENGTH - 1) // 2
    return f"{text[:half]}…{text[-half:]}"


def escaped(text: object) -> str:
    """A text of any length for HTML; direction and control marks are replaced."""
    return html.escape(_DIRECTION.sub("\ufffd", str(text)))


def known(interval: Interval) -> bool:
    """Whether an interval has ends: a single seed gives a mean but no interval."""
    return math.isfinite(interval.low) and math.isfinite(interval.high)


def number(value: float, *, signed: bool = False, digits: int = 3) -> str:
    """A number of a fixed number of digits; with ``signed`` it carries its sign."""
    return format(round(value, digits) + 0.0, f"{'+' if signed else ''}.{digits}f")  # + 0.0 makes -0.0 plain zero


def interval_text(interval: Interval, *, signed: bool = False, digits: int = 3) -> str:
    """``0.912 [0.900, 0.924]``; with ``signed`` every number carries its sign; without ends only the mean."""
    if not math.isfinite(interval.estimate):
        return "n/a"
    mean, low, high = (
        number(value, signed=signed, digits=digits) for value in (interval.estimate, interval.low, interval.high)
    )
    return f"{mean} [{low}, {high}]" if known(interval) else mean


def interval_cell(interval: Interval, *, signed: bool = False) -> str:
    """An interval for a cell of a table, its ends in small print."""
    text = interval_text(interval, signed=signed)
    if not known(interval):
        return html.escape(text)
    mean, _, ends = text.partition(" ")
    return f"{html.escape(mean)} <small>{html.escape(ends)}</small>"


def text_cell(text: object) -> str:
    """A cell of a table for a name or a sentence, which breaks only where it is too long for the cell."""
    return f'<td class="text"><span class="name">{escaped(text)}</span></td>'


def table(
    heads: Iterable[tuple[str, bool]], rows: Iterable[str], *, caption: str = "", name: str = "", style: str = ""
) -> str:
    """A table in a box of its own that scrolls where the screen is too narrow.

    Args:
        heads: Of each column the title, and whether it holds text rather than numbers.
        rows: As HTML.
        caption: As HTML.
        name: Of the element.
        style: Class of the element.
    """
    attributes = "".join(f' {key}="{value}"' for key, value in (("id", name), ("class", style)) if value)
    head = "".join(
        f'<th scope="col" class="{"text" if text else "number"}"><span class="name">{escaped(title)}</span></th>'
        for title, text in heads
    )
    said = f'<caption><span class="said">{caption}</span></caption>\n' if caption else ""
    return (
        f'<div class="scroll" tabindex="0"><table{attributes}>\n{said}<thead><tr>{head}</tr></thead>\n<tbody>\n'
        + "\n".join(rows)
        + "\n</tbody></table></div>"
    )


def pairs(values: Mapping[str, object]) -> str:
    """Names and values as a list."""
    items = "\n".join(
        f"<div><dt>{escaped(shown_name(name).replace('_', ' '))}</dt><dd>{escaped(_clipped(_value(value)))}</dd></div>"
        for name, value in values.items()
    )
    return f'<dl class="settings">\n{items}\n</dl>'


def folded(title: str, content: str, *, name: str = "", opened: bool = False) -> str:
    """A part that opens when the reader asks for it; the content is HTML."""
    attributes = (f' id="{name}"' if name else "") + (" open" if opened else "")
    return f"<details{attributes}><summary>{html.escape(title)}</summary>\n{content}\n</details>"


def _clipped(text: str) -> str:
    return text if len(text) <= VALUE_LENGTH else f"{text[:VALUE_LENGTH]}…"


def _value(value: object) -> str:
    if value is None:
        return "default"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} = {_value(item)}" for key, item in value.items()) or "default"
    return f"{value:g}" if isinstance(value, float) else str(value)


def capital(text: str) -> str:
    """The text with a capital first letter, the others as they are."""
    return text[:1].upper() + text[1:]


def text_table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, left: Sequence[int] = (0,)) -> list[str]:
    """Lines of a table for a terminal.

    Args:
        heads: Of the columns.
        rows: Cells.
        left: Columns that hold texts and not numbers.
    """
    widths = [max(len(row[k]) for row in (heads, *rows)) for k in range(len(heads))]
    lines = [
        "  ".join(
            cell.ljust(width) if k in left else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (heads, *rows)
    ]
    return [lines[0], "-" * sum(widths, 2 * (len(widths) - 1)), *lines[1:]]
