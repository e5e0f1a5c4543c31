"""Makes the built-in table "credit-default" from a copy of UCI's "Default of Credit Card Clients".

    python benchmarks/builtin_credit_default.py                    # from tabular/ in the folder of the data sets
    python benchmarks/builtin_credit_default.py SOURCE --out FILE  # from another place, to another place

The source holds the 30,000 clients in UCI's order, without their running number ``ID``; SEX is 0 and 1 for UCI's 1 and
2, and EDUCATION and MARRIAGE are 0/1 columns, one per code. They become the columns that UCI describes again:

- SEX: male, female.
- EDUCATION: graduate school, university, high school, other; UCI's description does not name the codes 0, 5 and 6 (345
  clients), and they are "unknown".
- MARRIAGE: married, single, other; code 0 (54 clients) is not described, and is "unknown".
- PAY_0, PAY_2 to PAY_6 stay as they are: -1 paid duly, 1 to 9 months of delay. -2 and 0, which are frequent, are not
  described either.
- Amounts are whole New Taiwan dollars, written without decimals; ``default`` is UCI's "default payment next month".

No row is left out, none is reordered, and nothing else is changed. The same source gives the same rows every time; the
bytes may differ between versions of liblzma.
"""

from __future__ import annotations

import argparse
import lzma
from pathlib import Path

import pandas as pd

from setwise.data import data_root
from setwise.data.builtin import builtin_table

SEX = {0: "male", 1: "female"}
EDUCATION = {1: "graduate school", 2: "university", 3: "high school", 4: "other"}
MARRIAGE = {1: "married", 2: "single", 3: "other"}
MONTHS = ("0", "2", "3", "4", "5", "6")  # UCI has no PAY_1
COLUMNS = (
    *("LIMIT_BAL", "SEX", "EDUCATION", "MARRIAGE", "AGE"),
    *(f"PAY_{month}" for month in MONTHS),
    *(f"BILL_AMT{month}" for month in range(1, 7)),
    *(f"PAY_AMT{month}" for month in range(1, 7)),
    "default",
)


def category(source: pd.DataFrame, name: str, values: dict[int, str]) -> pd.Series:
    """One column of names from its 0/1 columns; a code without a name is "unknown"."""
    parts = [column for column in map(str, source.columns) if column.startswith(f"{name}_")]
    if not (source[parts].sum(axis=1) == 1).all():
        raise SystemExit(f"Expected one of the columns {', '.join(parts)} to be 1 in every row of the source.")
    texts = {column: values.get(int(column.removeprefix(f"{name}_")), "unknown") for column in parts}
    return source[parts].idxmax(axis=1).map(texts)


def credit_default(source: pd.DataFrame) -> pd.DataFrame:
    """The table as UCI describes it, from the source's columns."""
    named = {
        "SEX": source["SEX"].map(SEX),
        "EDUCATION": category(source, "EDUCATION", EDUCATION),
        "MARRIAGE": category(source, "MARRIAGE", MARRIAGE),
        "default": source["default-payment-next-month"],
    }
    table = pd.DataFrame({name: named.get(name, source.get(name)) for name in COLUMNS})
    numbers = table.select_dtypes("number")
    if not (numbers % 1 == 0).all().all():
        raise SystemExit("Expected every number of the source to be whole.")
    return table.astype(dict.fromkeys(numbers, "int64"))


def main() -> None:
    """Read the source, write the packed table, say what was written."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = data_root() / "tabular" / "uci_credit_default.csv.xz"
    parser.add_argument("source", type=Path, nargs="?", default=default)
    parser.add_argument("--out", type=Path, default=builtin_table("credit-default"))
    arguments = parser.parse_args()
    table = credit_default(pd.read_csv(arguments.source))
    text = table.to_csv(index=False, lineterminator="\n").encode()
    arguments.out.write_bytes(lzma.compress(text, preset=9))
    size = arguments.out.stat().st_size
    print(f"{arguments.out.name}: {len(table):,} rows, {len(table.columns)} columns, {size:,} bytes")


if __name__ == "__main__":
    main()
