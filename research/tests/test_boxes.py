"""What the script behind the page on shapes draws is what the page says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from support.scripts import script

BOXES = script("pu_segmentation")


@settings(deadline=None, max_examples=60)
@given(
    mask=st.integers(1, 6).flatmap(
        lambda w: st.lists(st.lists(st.booleans(), min_size=w, max_size=w), min_size=1, max_size=6)
    )
)
def test_the_box_is_the_largest_inside_the_mask(mask: list[list[bool]]) -> None:
    array = np.array(mask)
    height, width = array.shape
    x1, y1, x2, y2 = BOXES.largest_rectangle(array)
    assert array[y1:y2, x1:x2].all()
    best = max(
        (b - a) * (d - c)
        for a in range(height)
        for b in range(a + 1, height + 1)
        for c in range(width)
        for d in range(c + 1, width + 1)
        if array[a:b, c:d].all() or (b - a) * (d - c) == 1
    )
    assert (x2 - x1) * (y2 - y1) == (best if array.any() else 0)


def test_boxes_are_drawn_inside_the_class() -> None:
    masks = np.random.default_rng(0).random((5, 20, 30)) < 0.7
    masks[2] = False
    for part in (1.0, 0.6):
        boxes = BOXES.draw_boxes(masks, part).numpy()
        assert not boxes[~masks].any()
        assert boxes.any(axis=(1, 2)).tolist() == [True, True, False, True, True]


def test_the_non_negative_risk_steps_back_where_it_is_overfit() -> None:
    risk = BOXES.non_negative_risk(0.5)
    boxes = torch.tensor([1, 0])
    fair = torch.tensor([0.0, 2.0], requires_grad=True)
    expected = 0.5 * 0.5 + (torch.sigmoid(fair).mean() - 0.5 * 0.5)
    torch.testing.assert_close(risk(fair, boxes), expected)
    overfit = torch.tensor([9.0, -9.0], requires_grad=True)  # all unlabelled negative, all labelled positive
    overfit_risk = BOXES.non_negative_risk(0.9)(overfit, boxes)
    (gradient,) = torch.autograd.grad(overfit_risk, overfit)
    assert overfit_risk > 0
    assert gradient[1] < 0  # descent on it raises the unlabelled score again


def test_the_threshold_leaves_the_share_above() -> None:
    scores = torch.randperm(1000).float()
    for share in (0.05, 0.3):
        assert (scores > BOXES.threshold_at(scores, share)).float().mean().item() == pytest.approx(share, abs=0.002)


@pytest.mark.data
def test_the_example_trains(real_set: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    real_set("camvid")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    monkeypatch.setattr(BOXES, "SIZE", (30, 40))
    task = BOXES.load_task("Sky", 1.0)
    assert 0.1 < task.prior < 0.25
    assert 0.3 < task.labelled < 0.7
    few = BOXES.Task("Sky", tuple(part[:24] for part in task.train), task.held_out, task.prior, task.labelled)
    for name in ("naive", "AUC"):
        found = BOXES.judge(few, BOXES.train(few, name, seed=0, epochs=4))
        assert found["auroc"] > 0.8
    torch.set_num_threads(before)
