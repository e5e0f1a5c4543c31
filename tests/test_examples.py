"""The examples that need no launcher run as they stand, and print what their page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def test_segmentation_finds_what_cross_entropy_misses() -> None:
    command = [sys.executable, str(EXAMPLES / "segmentation.py"), "--seeds", "1"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "foreground: 2.9%" in said
    found = {
        name: (float(plain), float(tuned))
        for name, plain, tuned in re.findall(
            r"^(\S.*?) +probability 0.5: ([\d.]+).*tuned: ([\d.]+)", said, re.MULTILINE
        )
    }
    assert list(found) == ["cross-entropy", "weighted cross-entropy", "setwise.JaccardLoss"]
    assert found["cross-entropy"][0] < 0.03  # hardly a pixel reaches probability 0.5 in so few steps
    assert 0.2 < found["cross-entropy"][1] < 0.45
    assert found["setwise.JaccardLoss"][0] > 0.6
    assert found["weighted cross-entropy"][0] < found["setwise.JaccardLoss"][0]
