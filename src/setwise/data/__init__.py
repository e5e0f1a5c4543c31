"""Data: tables, images as arrays, built-in sets of both, controlled imbalance, stratified batches and shapes.

Data sets that are named and not given by a path are looked for in a folder: :func:`data_root` is ``$SETWISE_DATA``
where that is set, else ``~/.cache/setwise``. Nothing is downloaded.
"""

from setwise.data._files import data_root
from setwise.data.arrays import LabelledArrays, image_tensor, label_tensor, load_arrays
from setwise.data.builtin import builtin_table, load_fashion, table_names, table_source
from setwise.data.catalog import load
from setwise.data.imbalance import (
    Imbalance,
    drop_class,
    group_classes,
    make_imbalanced,
    one_versus_rest,
)
from setwise.data.samplers import ShapeBalancedBatchSampler, StratifiedBatchSampler
from setwise.data.shape_sizes import (
    activation_area,
    box_area,
    class_activation_maps,
    class_area,
    class_areas,
    foreground_size,
)
from setwise.data.shapes import (
    ColumnShape,
    ShapeRule,
    column_shape,
    majority_shape,
    shape_spread,
    shapes_of,
)
from setwise.data.splits import stratified_split
from setwise.data.tables import (
    CategoryCode,
    ColumnCode,
    DateCode,
    Inspection,
    Kind,
    News,
    NumberCode,
    RawTable,
    Table,
    TableEncoding,
    TableWarning,
    TextCode,
    inspect,
    load_inputs,
    load_keel,
    load_table,
    read_frame,
    read_table,
)

__all__ = [
    "CategoryCode",
    "ColumnCode",
    "ColumnShape",
    "DateCode",
    "Imbalance",
    "Inspection",
    "Kind",
    "LabelledArrays",
    "News",
    "NumberCode",
    "RawTable",
    "ShapeBalancedBatchSampler",
    "ShapeRule",
    "StratifiedBatchSampler",
    "Table",
    "TableEncoding",
    "TableWarning",
    "TextCode",
    "activation_area",
    "box_area",
    "builtin_table",
    "class_activation_maps",
    "class_area",
    "class_areas",
    "column_shape",
    "data_root",
    "drop_class",
    "foreground_size",
    "group_classes",
    "image_tensor",
    "inspect",
    "label_tensor",
    "load",
    "load_arrays",
    "load_fashion",
    "load_inputs",
    "load_keel",
    "load_table",
    "majority_shape",
    "make_imbalanced",
    "one_versus_rest",
    "read_frame",
    "read_table",
    "shape_spread",
    "shapes_of",
    "stratified_split",
    "table_names",
    "table_source",
]
