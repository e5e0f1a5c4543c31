"""Segmentation of one class, the sky, with the size of the sky as the shape: experiment 2 of the 2019 paper."""

from setwise_research.reproduce.shape_study import ShapeStudy

STUDY = ShapeStudy
