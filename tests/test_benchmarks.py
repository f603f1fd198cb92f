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
    shown = ("AsyncClient", "signals", "signed requests", "members of a family", "cdk synth", "ResNet-50")
    assert [title for title in shown if title not in done.stdout] == []
