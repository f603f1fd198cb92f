"""The benchmarks run in their shortest form."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.story
def test_every_benchmark_runs_in_its_shortest_form() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--short"],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )

    assert done.returncode == 0, done.stderr
    shown = ("fleet pack", "JSON", "cdk synth", "InvokeEndpoint", "ResNet-50")
    assert [each for each in shown if each not in done.stdout] == []
