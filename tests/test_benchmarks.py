"""The benchmarks run in their shortest form, and none waits after an error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def python(*arguments: str, limit_s: float) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=limit_s)


@pytest.mark.story
def test_every_benchmark_runs_in_its_shortest_form() -> None:
    done = python("-m", "benchmarks", "--short", limit_s=900)

    assert done.returncode == 0, done.stderr
    titles = ("Times of the other way over ours", "Requests per second of a rehearsed endpoint")
    assert [title for title in titles if title not in done.stdout] == []


def test_an_error_stops_the_s3_of_the_benchmarks() -> None:
    program = """
from benchmarks.small_s3 import small_s3
with small_s3(answers_after_s=0):
    1 / 0
"""
    assert "ZeroDivisionError" in python("-c", program, limit_s=60).stderr
