"""Data: tables, images as arrays, built-in sets of both, controlled imbalance, stratified batches and groups.

Data sets that are named and not given by a path are looked for in a folder: :func:`data_root` is ``$SETWISE_DATA``
where that is set, else ``~/.cache/setwise``. Nothing is downloaded.
"""

from setwise.data._files import data_root
from setwise.data.arrays import LabelledArrays, image_tensor, label_tensor, load_arrays
from setwise.data.builtin import builtin_table, load, load_fashion, table_names, table_source
from setwise.data.groups import (
    ColumnGroups,
    GroupRule,
    column_groups,
    groups_of,
    majority_group,
    size_spread,
)
from setwise.data.imbalance import (
    Imbalance,
    drop_class,
    group_classes,
    make_imbalanced,
    one_versus_rest,
)
from setwise.data.object_sizes import (
    activation_area,
    box_area,
    class_activation_maps,
    class_area,
    class_areas,
    foreground_size,
)
from setwise.data.samplers import GroupBalancedBatchSampler, StratifiedBatchSampler
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
    "ColumnGroups",
    "DateCode",
    "GroupBalancedBatchSampler",
    "GroupRule",
    "Imbalance",
    "Inspection",
    "Kind",
    "LabelledArrays",
    "News",
    "NumberCode",
    "RawTable",
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
    "column_groups",
    "data_root",
    "drop_class",
    "foreground_size",
    "group_classes",
    "groups_of",
    "image_tensor",
    "inspect",
    "label_tensor",
    "load",
    "load_arrays",
    "load_fashion",
    "load_inputs",
    "load_keel",
    "load_table",
    "majority_group",
    "make_imbalanced",
    "one_versus_rest",
    "read_frame",
    "read_table",
    "size_spread",
    "stratified_split",
    "table_names",
    "table_source",
]
