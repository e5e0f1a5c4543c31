"""Segmentation of all classes; an image is big where most of the classes that it shows are: experiment 3, 2019."""

from setwise_research.reproduce.shape_study import ShapeStudy

STUDY = ShapeStudy
