"""Every row of the table, and variants of rows: other settings of the same loss, which take other paths through it."""

from support import rows_auc, rows_counts, rows_points, rows_ranking
from support.spec import Case

CASES: list[Case] = [*rows_auc.ROWS, *rows_ranking.ROWS, *rows_points.ROWS, *rows_counts.ROWS]
VARIANTS: list[Case] = [*rows_ranking.VARIANTS, *rows_points.VARIANTS]
