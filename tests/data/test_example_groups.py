"""Shapes: sizes by brute force, rules on held-out data, votes, columns, and what each refuses."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import setwise.data as sd
from setwise._checks import InputError

RNG = np.random.default_rng(0)


# ---- sizes


@pytest.mark.parametrize("kind", ["array", "tensor", "list", "generator"])
def test_foreground_size_is_the_share_above_the_threshold(kind: str) -> None:
    images = RNG.random((4, 5, 6)).astype(np.float32)
    given_as: dict[str, Any] = {
        "array": images,
        "tensor": torch.from_numpy(images),
        "list": [torch.from_numpy(image) for image in images],
        "generator": (image.tolist() for image in images),
    }
    expected = [sum(v > 0.3 for v in image.flat) / 30 for image in images]
    np.testing.assert_allclose(sd.foreground_size(given_as[kind], threshold=0.3), expected)
    assert sd.foreground_size(images > 0.3).tolist() == pytest.approx(expected)  # a mask


def test_images_of_different_sizes() -> None:
    assert sd.foreground_size([np.ones((2, 3)), np.eye(4), np.zeros((1, 1, 5))]).tolist() == [1.0, 0.25, 0.0]


def test_half_precision_and_channels() -> None:
    images = torch.tensor([[[[1.0, 0.0], [0.0, 0.0]], [[1.0, 1.0], [0.0, 0.0]]]], dtype=torch.bfloat16)
    assert sd.foreground_size(images).tolist() == [3 / 8]


def test_class_area_leaves_the_unlabelled_out() -> None:
    maps = RNG.integers(0, 4, (6, 7, 8)).astype(np.uint8)
    maps[0] = 3
    table = sd.class_areas(maps, 3, ignore_index=3)
    for c in range(3):
        expected = [(m == c).sum() / max((m != 3).sum(), 1) for m in maps]
        np.testing.assert_allclose(sd.class_area(maps, c, ignore_index=3), expected)
        np.testing.assert_allclose(table[:, c], expected)
    assert table[0].tolist() == [0, 0, 0]
    np.testing.assert_allclose(table[1:].sum(axis=1), 1)
    # Without `ignore_index` the label 3 is a class like any other.
    np.testing.assert_allclose(sd.class_areas(torch.from_numpy(maps), 4)[:, 3], (maps == 3).mean(axis=(1, 2)))
    np.testing.assert_allclose(sd.class_area(list(maps), 3), (maps == 3).mean(axis=(1, 2)))


def test_box_area_sums_or_takes_the_largest_and_cuts_at_the_border() -> None:
    boxes: list[Any] = [np.array([[0, 0, 4, 5], [2, 1, 4, 3]]), np.zeros((0, 4)), [[-3, 8, 2, 30]]]
    assert sd.box_area(boxes).tolist() == [24, 0, 110]
    assert sd.box_area(boxes, reduce="max").tolist() == [20, 0, 110]
    # Height 10, width 20: the last box is cut to x in [0, 2], y in [8, 10].
    np.testing.assert_allclose(sd.box_area(boxes, image_size=(10, 20)), [24 / 200, 0, 4 / 200])
    per_image = sd.box_area(boxes, image_size=[[10, 20], [5, 5], [40, 20]])
    np.testing.assert_allclose(per_image, [24 / 200, 0, 44 / 800])


def test_box_area_takes_one_box_per_image_and_padded_arrays() -> None:
    one = torch.tensor([[0.0, 0.0, 2.0, 3.0], [1.0, 1.0, 2.0, 2.0]])
    assert sd.box_area(one).tolist() == [6, 1]
    assert sd.box_area(torch.stack([one, one.flip(0)])).tolist() == [7, 7]


def test_activation_maps_average_to_the_logits() -> None:
    features, weights = torch.randn(3, 5, 4, 6), torch.randn(7, 5)
    maps = sd.class_activation_maps(features, weights)
    assert maps.shape == (3, 7, 4, 6)
    torch.testing.assert_close(maps.mean(dim=(2, 3)), features.mean(dim=(2, 3)) @ weights.T, rtol=1e-4, atol=1e-5)
    one = sum(weights[2, k] * features[1, k] for k in range(5))
    assert isinstance(one, torch.Tensor)
    torch.testing.assert_close(maps[1, 2], one)


def test_activation_area_is_relative_to_each_maps_maximum() -> None:
    maps = torch.tensor([[[8.0, 2.0], [1.0, -9.0]], [[0.8, 0.2], [0.1, -0.9]], [[-1.0, -2.0], [-3.0, 0.0]]])
    assert sd.activation_area(maps).tolist() == [0.5, 0.5, 0.0]
    assert sd.activation_area(maps, threshold=0.5).tolist() == [0.25, 0.25, 0.0]
    assert sd.activation_area(maps, threshold=0.0).tolist() == [0.75, 0.75, 0.0]
    per_class = torch.stack([maps, torch.ones_like(maps)], dim=1)  # shape: (b, c, h, w)
    assert sd.activation_area(per_class, classes=[0, 1, 0]).tolist() == [0.5, 1.0, 0.0]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: sd.foreground_size([]), InputError, "`images` to hold at least one image"),
        (lambda: sd.foreground_size(np.zeros(3)), InputError, r"one array of values per image.*\(\)"),
        (lambda: sd.foreground_size(np.zeros((2, 0, 3))), InputError, r"one of \(0, 3\)"),
        (lambda: sd.foreground_size(np.array([[[0.0, np.nan]]])), InputError, "`images` to be finite"),
        (lambda: sd.foreground_size(np.zeros((1, 2, 2)), threshold=np.nan), InputError, "`threshold`"),
        (lambda: sd.foreground_size([["a"]]), TypeError, "`images` to hold numbers"),
        (lambda: sd.class_area(np.zeros((1, 2, 2)), 0), TypeError, "`label_maps` to hold whole numbers"),
        (lambda: sd.class_area(np.zeros((1, 2, 2), int), -1), InputError, "`class_index` to be at least 0"),
        (lambda: sd.class_areas(np.full((1, 2, 2), 3), 3), InputError, r"labels in \[0, 2\], but they run from 3 to 3"),
        (lambda: sd.class_areas(np.full((1, 2, 2), 3), 3, ignore_index=9), InputError, r"\[0, 2\] or 9"),
        (lambda: sd.class_areas([], 3), InputError, "at least one image"),
        (lambda: sd.box_area([[[0, 0, 1]]]), InputError, r"`boxes` of shape \(k, 4\)"),
        (lambda: sd.box_area([[[5, 0, 1, 1]]]), InputError, r"x1 <= x2.*\[5.0, 0.0, 1.0, 1.0\]"),
        (lambda: sd.box_area([[[0, 0, 1, np.inf]]]), InputError, "`boxes` to be finite"),
        (lambda: sd.box_area([[[0, 0, 1, 1]]], reduce="mean"), InputError, "`reduce` to be one of 'sum', 'max'"),
        (lambda: sd.box_area([[[0, 0, 1, 1]]], image_size=(3,)), InputError, "`image_size`"),
        (lambda: sd.box_area([[[0, 0, 1, 1]]], image_size=(0, 3)), InputError, "`image_size`.*positive"),
        (
            lambda: sd.class_activation_maps(torch.rand(2, 3, 4, 4), torch.rand(5, 4)),
            InputError,
            r"\(2, 3, 4, 4\) and \(5, 4\)",
        ),
        (lambda: sd.class_activation_maps(torch.ones(1, 1, 1, 1).long(), torch.rand(1, 1)), TypeError, "`features`"),
        (lambda: sd.activation_area(torch.rand(2, 3, 4, 4)), InputError, r"\(b, c, h, w\) with `classes`"),
        (lambda: sd.activation_area(torch.rand(2, 4, 4), classes=[0, 0]), InputError, r"\(b, c, h, w\)"),
        (lambda: sd.activation_area(torch.rand(2, 3, 4, 4), classes=[0, 3]), InputError, "image 1.*class 3"),
        (lambda: sd.activation_area(torch.rand(2, 3, 4, 4), classes=[0]), InputError, "one class of 0..c-1 per image"),
        (lambda: sd.activation_area(torch.rand(1, 3, 4, 4), classes=[0, 1]), InputError, "2 for 1 images"),
        (lambda: sd.activation_area(torch.rand(1, 4, 4), threshold=1.0), InputError, "`threshold`"),
        (lambda: sd.activation_area(torch.tensor([[[np.nan]]])), InputError, "`maps` to be finite"),
    ],
)
def test_bad_images_are_named(call: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


# ---- rules


sizes_strategy = st.lists(st.integers(-50, 50).map(lambda v: v / 8), min_size=1, max_size=40)


@settings(deadline=None)
@given(sizes=sizes_strategy, edges=st.sets(st.integers(-50, 50), min_size=1, max_size=4))
def test_a_shape_is_the_number_of_edges_reached(sizes: list[float], edges: set[int]) -> None:
    rule = sd.GroupRule(tuple(sorted(edges)))
    assert rule(sizes).tolist() == [sum(size >= edge for edge in edges) for size in sizes]
    assert rule.num_groups == len(edges) + 1
    assert sd.GroupRule.from_dict(json.loads(json.dumps(rule.to_dict()))) == rule


@pytest.mark.parametrize("p", [2, 3, 7])
def test_bins_are_about_equally_full(p: int) -> None:
    sizes = RNG.exponential(size=211)
    groups, edges = sd.groups_of(sizes, bins=p)
    counts = np.bincount(groups, minlength=p)
    assert counts.max() - counts.min() <= 1
    assert len(edges) == p - 1


def test_the_mean_is_the_default_and_held_out_data_use_the_training_edges() -> None:
    train, held_out = torch.tensor([0.0, 0.1, 0.2, 0.9]), np.array([0.29, 0.3, 0.31])
    rule = sd.GroupRule.fit(train)
    assert rule.edges == pytest.approx((0.3,))
    assert rule(held_out).tolist() == [0, int(rule.edges[0] <= 0.3), 1]
    assert rule(train).dtype == np.int64
    # The held-out set's own mean would put 0.3 elsewhere.
    assert sd.groups_of(held_out + 0.5)[1] != rule.edges


def test_given_thresholds_and_edges_are_taken_as_they_are() -> None:
    sizes = [0.1, 0.6, 0.9]
    assert sd.groups_of(sizes, 0.6)[0].tolist() == [0, 1, 1]  # the report: >= 0.6 is big
    assert sd.groups_of(sizes, 0.6)[1] == (0.6,)
    groups, edges = sd.groups_of(sizes, bins=[0.2, 0.7])
    assert groups.tolist() == [0, 1, 2]
    assert edges == (0.2, 0.7)
    assert sd.groups_of(sizes, bins=np.array([0.2, 0.7]))[1] == (0.2, 0.7)
    assert sd.groups_of(sizes, 5)[0].tolist() == [0, 0, 0]  # a given threshold may leave a group empty


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sd.GroupRule(()), "`edges` to have the shape"),
        (lambda: sd.GroupRule((0.5, 0.5)), r"`edges` to ascend, but got \[0.5, 0.5\]"),
        (lambda: sd.GroupRule((float("nan"),)), "`edges` to be finite"),
        (lambda: sd.GroupRule.from_dict({"edge": [1]}), r"no 'edges': \['edge'\]"),
        (lambda: sd.GroupRule((0.5,))([[0.5]]), "`sizes` to have the shape"),
        (lambda: sd.groups_of([]), "`sizes` to have the shape"),
        (lambda: sd.groups_of([0.1, np.inf]), "`sizes` to be finite"),
        (lambda: sd.groups_of([0.1, 0.2], "median"), "`threshold` to be one of 'mean'"),
        (lambda: sd.groups_of([0.1, 0.1]), "`sizes` to differ.*all are 0.1"),
        (lambda: sd.groups_of([0.1, 0.2], 0.15, bins=2), "`threshold` or `bins`, but got both"),
        (lambda: sd.groups_of([0.1, 0.2], bins=1), "`bins` to be at least 2"),
        (lambda: sd.groups_of([0.1, 0.1, 0.1, 0.2], bins=2), "differ enough for 2 groups"),
        (lambda: sd.groups_of([0.1, 0.2], bins=3), "differ enough for 3 groups"),
        (lambda: sd.groups_of([0.1, 0.2], bins=[3, 2]), "`edges` to ascend"),
    ],
)
def test_bad_sizes_and_edges_are_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


# ---- votes, spread, columns


@settings(deadline=None)
@given(
    areas=st.lists(st.lists(st.sampled_from([0.0, 0.01, 0.05, 0.2]), min_size=3, max_size=3), min_size=1, max_size=8),
    threshold=st.sampled_from([0.05, 0.1]),
)
def test_majority_is_counted_by_hand(areas: list[list[float]], threshold: float) -> None:
    expected = []
    for row in areas:
        votes = [area >= threshold for area in row if area > 0]
        expected.append(int(sum(votes) > len(votes) - sum(votes)))
    assert sd.majority_group(areas, threshold).tolist() == expected
    assert sd.majority_group(torch.tensor(areas, dtype=torch.float64), [threshold] * 3).tolist() == expected


def test_majority_with_a_threshold_per_class() -> None:
    areas = np.array([[0.1, 0.5], [0.3, 0.1], [0.0, 0.6]])
    assert sd.majority_group(areas, [0.2, 0.2]).tolist() == [0, 0, 1]
    assert sd.majority_group(areas, [0.1, 0.2]).tolist() == [1, 0, 1]
    # Means over the images that show the class: 0.2 and 0.4, not 0.4 / 3.
    assert sd.majority_group(areas, "mean").tolist() == [0, 0, 1]


def test_spread_over_examples_or_over_the_images_that_show_a_class() -> None:
    sizes, classes = RNG.random(50), RNG.integers(0, 3, 50)
    classes[classes == 1] = 3
    found = sd.size_spread(sizes, classes)
    assert found.shape == (4,)
    assert found[1] == 0
    for c in (0, 2, 3):
        assert found[c] == pytest.approx(np.std(sizes[classes == c]))
    table = np.array([[0.2, 0.0, 0.0], [0.6, 0.5, 0.0]])
    assert sd.size_spread(table).tolist() == pytest.approx([0.2, 0.0, 0.0])


@pytest.mark.parametrize(
    ("column", "codes", "names"),
    [
        (["b", "a", "b"], [1, 0, 1], ("a", "b")),
        (np.array([10, 9, 10]), [1, 0, 1], ("9", "10")),  # numbers in their own order, not as texts
        (torch.tensor([1.0, 0.0, 2.5]), [1, 0, 2], ("0", "1", "2.5")),
        (np.array([True, False]), [1, 0], ("False", "True")),
        (np.array(["x", 3, "x"], dtype=object), [1, 0, 1], ("3", "x")),
        ((v for v in "ab"), [0, 1], ("a", "b")),
    ],
)
def test_columns_of_any_kind(column: Any, codes: list[int], names: tuple[str, ...]) -> None:
    found = sd.column_groups(column)
    assert found.groups.tolist() == codes
    assert found.names == names


def test_a_held_out_column_takes_the_training_codes() -> None:
    names = sd.column_groups([0, 1, 2]).names
    assert sd.column_groups(np.array([2.0, 1.0]), names=names).groups.tolist() == [2, 1]
    assert sd.column_groups(["q", "p"], names=["q", "p"]).groups.tolist() == [0, 1]


def test_a_pandas_column() -> None:
    pd = pytest.importorskip("pandas")
    assert sd.column_groups(pd.Series(["b", "a"], index=[7, 9])).groups.tolist() == [1, 0]
    with pytest.raises(InputError, match="1 of 2 are missing"):
        sd.column_groups(pd.Series([1.0, None]))


def empty() -> Iterator[str]:
    return iter(())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sd.majority_group([0.1, 0.2]), r"`areas` to have the shape \(n, classes\)"),
        (lambda: sd.majority_group([[-0.1]]), "`areas` to be non-negative"),
        (lambda: sd.majority_group([[0.1]], "median"), "`threshold` to be one of 'mean'"),
        (lambda: sd.majority_group([[0.1]], [0.1, 0.2]), r"one per class, \(1,\), but got \(2,\)"),
        (lambda: sd.majority_group([[0.1]], np.nan), "`threshold` to be finite"),
        (lambda: sd.size_spread([0.1], [0, 1]), r"\(2,\) and \(1,\)"),
        (lambda: sd.size_spread([0.1, 0.2], [0, -1]), "lowest class is -1"),
        (lambda: sd.size_spread([0.1, 0.2]), r"`sizes` to have the shape \(n, classes\)"),
        (lambda: sd.column_groups(["a", "?", None, ""]), "3 of 4 are missing"),
        (lambda: sd.column_groups([1.0, float("nan")]), "1 of 2 are missing"),
        (lambda: sd.column_groups(["a", "c"], names=["a", "b"]), "only a, b, but it also holds c"),
        (lambda: sd.column_groups(["a"], names=["a", "a"]), "`names` to differ"),
        (lambda: sd.column_groups("abc"), "one value per row, but got str"),
        (lambda: sd.column_groups(np.zeros((2, 2))), r"shape \(2, 2\)"),
        (lambda: sd.column_groups(empty()), "at least one row"),
    ],
)
def test_bad_tables_are_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()
