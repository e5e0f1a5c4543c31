"""Tables: reading files and frames, inferring what columns are, encoding them as numbers."""

from setwise.data.tables.codes import CategoryCode, ColumnCode, News, NumberCode, TextCode
from setwise.data.tables.date_code import DateCode
from setwise.data.tables.encoding import TableEncoding
from setwise.data.tables.inspection import Inspection, TableWarning, inspect
from setwise.data.tables.kinds import Kind, infer_kinds
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
    "infer_kinds",
    "inspect",
    "load_inputs",
    "load_keel",
    "load_table",
    "read_blocks",
    "read_frame",
    "read_table",
]
