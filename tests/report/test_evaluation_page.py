from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from setwise.metrics import confusion_counts
from setwise.report import Evaluation, GroupColumn, evaluate, render_evaluation, write_evaluation
from setwise.report.data import MOST_GROUPS, evaluation_data
from setwise.report.text import NAME_LENGTH, shown_name

LIMIT = 500_000  # bytes of a page


def draw(n: int = 1500, seed: int = 0) -> dict[str, Any]:
    generator = np.random.default_rng(seed)
    labels = generator.random(n) < 0.15
    margin = generator.normal(size=n) + 2 * labels
    return {
        "labels": labels,
        "p": 1 / (1 + np.exp(2 - margin)),
        "q": generator.normal(size=n) + labels,
        "sex": generator.choice(["Female", "Male"], n),
    }


def made(**changes: Any) -> Evaluation:
    data = draw()
    values: dict[str, Any] = {
        "scores": {"p": data["p"]},
        "subject_to": "recall>=0.9",
        "resamples": 40,
        "title": "Scores",
    } | changes
    return evaluate(values.pop("scores"), data["labels"], **values)


def text_of(page: str) -> str:
    body = re.sub(r"<(script|style)[^>]*>.*?</\1>", "", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", body))


@pytest.fixture(scope="module")
def page() -> str:
    return render_evaluation(made(group=draw()["sex"]))


def test_parts_stand_in_the_order_of_the_questions(page: str) -> None:
    heads = re.findall(r"<h2>(.*?)</h2>", page)
    assert heads == ["Constraints", "Threshold", "Costs", "Curves", "Measures", "Groups", "Numbers as CSV"]
    assert page.index('class="verdict') < page.index("<h2>")
    folded = re.findall(r"<summary>(.*?)</summary>", page)
    assert folded[-2:] == ["Settings", "Facts"]
    identifiers = re.findall(r' id="([^"]+)"', page)
    assert len(identifiers) == len(set(identifiers))


def test_the_page_runs_its_own_script_alone(page: str) -> None:
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    script = re.search(r"<script>(.*?)</script>", page, flags=re.DOTALL)
    assert policy
    assert script
    digest = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy[1]
    assert "default-src 'none'" in policy[1]
    assert re.findall(r"https?://[^\"' ]+", page) == ["http://www.w3.org/2000/svg"]  # a name, not an address
    assert not re.search(r"fetch\(|XMLHttpRequest|import\(|WebSocket|innerHTML", page)


def test_what_is_not_there_has_no_part() -> None:
    plain = render_evaluation(made(subject_to=None))
    heads = re.findall(r"<h2>(.*?)</h2>", plain)
    assert heads == ["Threshold", "Costs", "Curves", "Measures", "Numbers as CSV"]
    assert "What became of every column" not in plain
    assert 'id="reliability"' in plain
    full = render_evaluation(
        made(scores={"p": draw()["p"], "q": draw()["q"]}),
        columns={"age": "number"},
        usage={"Command": "setwise predict run new.csv"},
    )
    heads = re.findall(r"<h2>(.*?)</h2>", full)
    assert "Score columns compared" in heads
    assert "How to use the model" in heads
    assert "p minus q" in text_of(full)
    assert 'id="reliability"' not in full, "one of the columns is no probability"


def test_violated_constraints_of_groups_are_not_folded_away() -> None:
    sex = draw()["sex"]
    assert "<details open><summary>In each group (2)" in render_evaluation(made(group=sex, threshold=0.9))
    assert "<details><summary>In each group (2)" in render_evaluation(made(group=sex, threshold=0.01))


@pytest.mark.parametrize("weighted", [False, True])
def test_the_numbers_are_those_of_the_evaluation(weighted: bool) -> None:
    weight = np.random.default_rng(3).random(1500) + 0.5 if weighted else None
    found = made(group=draw()["sex"], weight=weight, max_weight=2.0 if weighted else None)
    data = evaluation_data(found)
    assert data["weighted"] == weighted
    one = data["sets"][0]
    decision = found.columns[0].decision
    assert one["thresholds"][one["chosen"]] == decision.threshold
    tp, fp = (np.cumsum(one["all"][name])[one["chosen"]] for name in ("tp", "fp"))
    assert (tp, fp) == pytest.approx((decision.counts.tp, decision.counts.fp), rel=1e-6)
    for rows, group in zip(one["groups"][0], found.columns[0].groups, strict=True):
        tp = np.cumsum(rows["tp"])[one["chosen"]]
        assert tp == pytest.approx(group.counts.tp, rel=1e-6)
    calibration = found.columns[0].calibration
    assert calibration
    assert [each[4] for each in one["reliability"]] == [each.rows for each in calibration.bins]
    json.dumps(data, allow_nan=False)


def test_a_million_rows_make_a_small_page(tmp_path: Path) -> None:
    """The parts that grow with the rows, without the bootstrap of the measures."""
    n = 1_000_000
    data = draw(n)
    small = made(scores={"p": draw()["p"], "q": 1 / (1 + np.exp(-draw()["q"]))}, group=draw()["sex"])
    generator = np.random.default_rng(0)
    columns = tuple(
        replace(column, scores=scores)
        for column, scores in zip(small.columns, (data["p"], 1 / (1 + np.exp(-data["q"]))), strict=True)
    )
    groups = tuple(
        GroupColumn(name, tuple(f"{name} {k}" for k in range(size)), generator.integers(0, size, n))
        for name, size in (("sex", 2), ("region", 12), ("postcode", 900))
    )
    large = replace(small, rows=n, columns=columns, groups=groups, labels=data["labels"])
    path = write_evaluation(large, tmp_path / "page.html")
    assert path.stat().st_size <= LIMIT
    page = path.read_text(encoding="utf-8")
    embedded = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, flags=re.DOTALL)
    assert embedded
    made_data = json.loads(embedded[1])
    assert sum(len(values) for _, values in made_data["groups"]) <= MOST_GROUPS
    one = made_data["sets"][0]
    stop = 200
    counts = confusion_counts(data["p"], data["labels"].astype(int), threshold=float(one["thresholds"][stop]))
    assert np.cumsum(one["all"]["tp"])[stop] == counts.tp
    assert "Only the largest groups are shown." in page


def test_names_are_made_harmless_and_short() -> None:
    assert shown_name("age") == "age"
    assert shown_name(" a\n\tb ") == "a b"
    assert shown_name("\u202eevil\x00") == "\ufffdevil\ufffd"
    assert shown_name("") == "(empty)"
    long = shown_name("x" * 500 + "end")
    assert len(long) <= NAME_LENGTH
    assert long.endswith("end")
    evil = "</script><script>alert(1)</script>"
    page = render_evaluation(
        made(scores={evil: draw()["p"]}, group={evil: draw()["sex"]}, title=evil),
        columns={evil: evil},
        usage={evil: evil},
    )
    assert page.count("<script") == 2
    assert page.count("</script>") == 2


def test_writing_replaces_the_file(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("before")
    found = made()
    assert write_evaluation(found, path) == path
    assert path.read_text(encoding="utf-8") == render_evaluation(found)
    assert found.write(tmp_path / "again.html").read_text(encoding="utf-8") == render_evaluation(found)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["again.html", "page.html"]
