"""Data: loaders of standard formats, built-in images and a table, controlled imbalance, stratified batches and shapes.

Data sets are read as their own sites give them, from a folder: :func:`data_root` is ``$SETWISE_DATA`` where that is
set, else ``~/.cache/setwise``; every loader also takes a folder. Nothing is downloaded.
"""

from setwise.data._files import data_root
from setwise.data.arrays import LabelledArrays, image_tensor, label_tensor, load_arrays
from setwise.data.builtin import builtin_table, load_fashion, table_names, table_source
from setwise.data.catalog import dataset_names, load
from setwise.data.cifar import load_cifar10, load_cifar100
from setwise.data.idx import load_idx
from setwise.data.imbalance import (
    Imbalance,
    drop_class,
    group_classes,
    make_imbalanced,
    one_versus_rest,
)
from setwise.data.s_mnist import SizedDigits, load_s_mnist, s_mnist
from setwise.data.samplers import ShapeBalancedBatchSampler, StratifiedBatchSampler
from setwise.data.segmentation import SegmentationFolder, camvid_folder, load_camvid, load_coco_stuff
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
from setwise.data.stl10 import load_stl10
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
    "SegmentationFolder",
    "ShapeBalancedBatchSampler",
    "ShapeRule",
    "SizedDigits",
    "StratifiedBatchSampler",
    "Table",
    "TableEncoding",
    "TableWarning",
    "TextCode",
    "activation_area",
    "box_area",
    "builtin_table",
    "camvid_folder",
    "class_activation_maps",
    "class_area",
    "class_areas",
    "column_shape",
    "data_root",
    "dataset_names",
    "drop_class",
    "foreground_size",
    "group_classes",
    "image_tensor",
    "inspect",
    "label_tensor",
    "load",
    "load_arrays",
    "load_camvid",
    "load_cifar10",
    "load_cifar100",
    "load_coco_stuff",
    "load_fashion",
    "load_idx",
    "load_inputs",
    "load_keel",
    "load_s_mnist",
    "load_stl10",
    "load_table",
    "majority_shape",
    "make_imbalanced",
    "one_versus_rest",
    "read_frame",
    "read_table",
    "s_mnist",
    "shape_spread",
    "shapes_of",
    "stratified_split",
    "table_names",
    "table_source",
]
