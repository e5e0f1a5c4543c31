"""Tables: reading files and frames, judging columns, encoding them as numbers."""

from setwise.data.tables.codes import CategoryCode, ColumnCode, DateCode, News, NumberCode, TextCode
from setwise.data.tables.encoding import TableEncoding
from setwise.data.tables.inspection import Inspection, TableWarning, inspect
from setwise.data.tables.kinds import Kind, judge
from setwise.data.tables.raw_table import RawTable, read_table
from setwise.data.tables.reading import read_blocks, read_frame
from setwise.data.tables.table import Table, load_inputs, load_keel, load_table

__all__ = [
    "CategoryCode",
    "ColumnCode",
    "DateCode",
    "Inspection",
    "Kind",
    "News",
    "NumberCode",
    "RawTable",
    "Table",
    "TableEncoding",
    "TableWarning",
    "TextCode",
    "inspect",
    "judge",
    "load_inputs",
    "load_keel",
    "load_table",
    "read_blocks",
    "read_frame",
    "read_table",
]
