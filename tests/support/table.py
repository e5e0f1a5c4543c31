"""Every row of the table."""

from support import rows_auc, rows_counts
from support.spec import Case

CASES: list[Case] = [*rows_auc.ROWS, *rows_counts.ROWS]
