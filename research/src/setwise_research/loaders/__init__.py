"""Loaders of the papers' data sets: CIFAR, STL-10, MNIST's idx files, S-MNIST, CamVid and COCO-Stuff.

They read what the sets' own sites give, from a folder or from :func:`setwise.data.data_root`; nothing is downloaded.
"""

from setwise_research.loaders.catalog import dataset_names, load
from setwise_research.loaders.cifar import load_cifar10, load_cifar100
from setwise_research.loaders.idx import load_idx
from setwise_research.loaders.s_mnist import SizedDigits, load_s_mnist, s_mnist
from setwise_research.loaders.segmentation import SegmentationFolder, camvid_folder, load_camvid, load_coco_stuff
from setwise_research.loaders.stl10 import load_stl10

__all__ = [
    "SegmentationFolder",
    "SizedDigits",
    "camvid_folder",
    "dataset_names",
    "load",
    "load_camvid",
    "load_cifar10",
    "load_cifar100",
    "load_coco_stuff",
    "load_idx",
    "load_s_mnist",
    "load_stl10",
    "s_mnist",
]
