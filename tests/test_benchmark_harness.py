"""What the benchmarks measure by: times in turns, fresh processes, exponents, levels that fail when they should."""

from __future__ import annotations

import json
import math
import mmap
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
if TYPE_CHECKING:
    import harness
    import page
    import quick
    import records
    import run
else:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import harness
        import page
        import quick
        import records
        import run
    finally:
        sys.path.remove(str(BENCHMARKS))


def part(ms: float = 2.0, ratio: float = 3.0) -> records.Part:
    rows = [
        records.Row("ours", "1,000", 1000, ms / 10, 1.5, 1e-7, 2e-7),
        records.Row("ours", "10,000", 10_000, ms),
        records.Row("theirs", "1,000", 1000, 5.0, note="gave up later"),
        records.Row("theirs", "10,000", 10_000, math.nan),
    ]
    verdicts = [records.Verdict("ours / theirs", ratio, 4.0), records.Verdict("times faster", 3.0, 4.0, least=True)]
    return records.Part([records.Table("Sorting", rows, memory_case="1,000")], verdicts)


@pytest.mark.parametrize("power", [0.0, 1.0, 1.5, 2.0])
def test_the_exponent_of_a_power_is_found(power: float) -> None:
    sizes = [100, 1000, 4000, 50_000]
    assert harness.exponent(sizes, [3e-6 * n**power for n in sizes]) == pytest.approx(power, abs=1e-12)


def test_the_exponent_leaves_out_what_was_not_measured() -> None:
    assert harness.exponent([10, 100, 1000], [1.0, math.nan, 100.0]) == pytest.approx(1.0)
    assert math.isnan(harness.exponent([10, 100], [1.0, math.nan]))
    assert math.isnan(harness.exponent([10, 10], [1.0, 2.0]))


def test_methods_take_turns_on_fresh_data() -> None:
    order: list[str] = []

    def case(name: str) -> harness.Case:
        def prepare() -> harness.Action:
            order.append(f"data of {name}")
            return lambda: order.append(name)

        return prepare

    timings = harness.interleave({"a": case("a"), "b": case("b")}, 2, warm_up=1)
    assert order == ["data of a", "a", "data of b", "b"] * 3
    assert len(timings["a"].cpu) == 3
    assert len(timings["a"].kept()) == 2


def test_a_method_that_raises_or_takes_long_gets_no_further_turn() -> None:
    def failing() -> harness.Action:
        message = "no memory\nat all"
        raise MemoryError(message)

    runs: list[int] = []

    def slow() -> None:
        sum(range(100_000))
        runs.append(1)

    timings = harness.interleave({"bad": lambda: failing, "slow": lambda: slow}, 5, budget=0.0)
    assert timings["bad"].failure == "MemoryError: no memory"
    assert math.isnan(timings["bad"].ms)
    assert len(runs) == 2, "the first run may load or compile something, so it is not held against a method"
    assert timings["slow"].kept() == timings["slow"].cpu[1:], "the warm-up counts where nothing else was measured"


def test_only_the_action_is_timed() -> None:
    spent: list[float] = []

    def slow_data() -> harness.Action:
        start = time.process_time()
        sum(range(300_000))
        spent.append(time.process_time() - start)
        return lambda: None

    timing = harness.interleave({"x": slow_data}, 5)["x"]
    assert timing.ms < 1e3 * min(spent)


@pytest.mark.skipif(not harness.CLEAR.exists(), reason="peak memory is read from Linux's account")
def test_memory_is_the_growth_of_the_peak() -> None:
    def touch() -> None:  # pages of its own: a tensor may get what this process has freed and not given back
        with mmap.mmap(-1, 2**26) as pages:
            for place in range(0, 2**26, mmap.PAGESIZE):
                pages[place] = 1

    assert 60 < harness.extra_megabytes(touch) < 90
    assert harness.extra_megabytes(lambda: None) < 1


def test_a_function_runs_in_a_process_of_its_own() -> None:
    assert harness.apart(harness.exponent)([10, 100], [1, 100]) == pytest.approx(2.0)
    with pytest.raises(RuntimeError, match="ValueError"):
        harness.apart(harness.exponent)([10], [1, 100])


def test_errors_are_relative_to_the_largest_entry() -> None:
    assert harness.largest_error(torch.tensor([1.0, -4.0]), torch.tensor([1.5, -4.0])) == pytest.approx(0.125)
    assert harness.largest_error(torch.zeros(2), torch.zeros(2)) == 0


def test_a_part_comes_back_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "machine.json"
    records.store(file, "sorting", part(), records.stamp(1.4))
    records.store(file, "other", part(9.0), records.stamp(2.0))
    whole = records.load(file)
    assert set(whole["parts"]) == {"sorting", "other"}
    assert set(whole["machine"]) == {"cpu", "cores", "system"}
    assert {"date", "commit", "torch", "numpy", "seconds", "cpu"} <= set(whole["parts"]["sorting"]["taken"])
    back = records.Part.from_json(whole["parts"]["sorting"])
    assert back.tables[0].rows[3].ms is None, "nan has no place in JSON"
    assert back.tables[0].rows[:3] == part().tables[0].rows[:3]
    assert back.verdicts == part().verdicts
    assert back.markdown() == part().markdown()
    assert "NaN" not in file.read_text()


def test_a_later_run_tells_what_has_changed() -> None:
    assert records.changes(part(), part()) == []
    assert records.changes(part(2.0, 3.0), part(2.2, 3.3)) == []
    lines = records.changes(part(2.0, 3.0), part(3.0, 1.5))
    assert "Sorting, ours, 10,000, ms: 3, was 2 (1.50 times)" in lines
    assert "ours / theirs: 1.5, was 3 (0.50 times)" in lines


def test_verdicts_know_their_side() -> None:
    assert records.Verdict("x", 2.0, 2.5).met is True
    assert records.Verdict("x", 3.0, 2.5).met is False
    assert records.Verdict("x", 3.0, 2.5, least=True).met is True
    assert records.Verdict("x", None, 2.5).met is None
    assert str(records.Verdict("x", 3.0, 2.5)) == "x: 3, level: at most 2.5, NOT met"


def test_the_table_shows_time_growth_memory_and_errors() -> None:
    lines = part().markdown().splitlines()
    assert lines[2] == "| CPU ms | n = 1,000 | n = 10,000 | growth | MB at 1,000 | value off by | gradient off by |"
    assert lines[4] == "| ours | 0.2 | 2 | 1.00 | 1.5 | 1e-07 | 2e-07 |"
    assert lines[5] == "| theirs | 5 | - | - | - | - | - |"
    assert "- theirs, 1,000: gave up later" in lines
    assert "| times faster | 3 | >= 4 | **not met** |" in lines


def test_a_ratio_fails_from_twice_its_level_on() -> None:
    levels = {"a": 2.0, "b": 2.0}
    assert records.too_much({"a": 3.9, "b": 0.1}, levels) == []
    assert records.too_much({"a": 4.1, "b": 0.1}, levels) == ["a: 4.1, more than 2 times its level 2"]
    assert records.too_much({"a": math.nan, "b": 0.1}, levels) != []
    assert records.too_much({"a": 1.0}, levels) == ["b: not measured"]
    assert records.too_much({"a": 1.0, "b": 1.0, "c": 1.0}, levels) == ["c: 1, and no level stored"]


def test_the_quick_form_measures_a_bad_ratio_twice_before_it_fails() -> None:
    values = iter([5.0, 1.0, 5.0, 5.0])

    def ratios() -> Iterator[tuple[str, float]]:
        yield "a", next(values)

    assert quick.measure([ratios], {"a": 2.0}) == ({"a": 1.0}, [])
    assert quick.measure([ratios], {"a": 2.0})[1] == ["a: 5, more than 2 times its level 2"]


def test_the_stored_levels_are_numbers_above_zero() -> None:
    levels = json.loads((BENCHMARKS / "levels.json").read_text())
    assert len(levels) >= 15
    assert all(value > 0 for value in levels.values())


def test_the_page_is_filled_from_what_is_stored(tmp_path: Path) -> None:
    file = tmp_path / "machine.json"
    records.store(file, "auc", part(), records.stamp(60.0))
    text = "a\n<!-- begin auc -->\nold\n<!-- end auc -->\nb\n<!-- begin lp -->\n<!-- end lp -->\n"
    new = page.filled(text, records.load(file), "machine")
    assert "old" not in new
    assert new.startswith("a\n<!-- begin auc -->\n\n### Sorting\n")
    assert "Not measured on this machine yet." in new
    assert page.filled(new, records.load(file), "machine") == new
    whole = records.load(file)
    assert whole["parts"]["auc"]["taken"]["cpu"] in new
    del whole["parts"]["auc"]["taken"]["cpu"]
    assert "CPU: vector extensions not recorded." in page.filled(text, whole, "machine")


def test_numpy_without_avx512_is_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "numpy_extensions", lambda: ["X86_V2", "X86_V3", "X86_V4", "AVX512_ICL"])
    assert harness.without_avx512() == {"NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL"}
    monkeypatch.setattr(harness, "numpy_extensions", lambda: ["NEON", "ASIMD"])
    assert harness.without_avx512() == {}
    monkeypatch.undo()
    assert harness.apart(harness.without_avx512, harness.without_avx512())() == {}


def test_the_page_has_a_place_for_every_part_and_says_what_is_stored() -> None:
    text = page.PAGE.read_text()
    assert {name for _, name, _ in page.BLOCK.findall(text)} == set(run.PARTS) | {"machine"}
    (name,) = set(re.findall(r"`benchmarks/results/([\w-]+)\.json`", text))
    assert page.filled(text, records.load(records.RESULTS / f"{name}.json"), name) == text


@pytest.mark.parametrize("entry", run.PARTS.values(), ids=list(run.PARTS))
def test_every_part_is_a_function_of_a_script(entry: run.Entry) -> None:
    assert f"\ndef {entry.function}(" in (BENCHMARKS / f"{entry.module}.py").read_text()
