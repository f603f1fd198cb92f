"""The page about the embedded AWS: its example runs, and its numbers are correct."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[1] / "README.md").read_text()


def test_the_example_passes_as_a_test_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [example] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "test_example.py").write_text(example)

    status = pytest.main(
        ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--rootdir", str(tmp_path), str(tmp_path)]
    )

    assert status == 0
    assert "1 passed" in capsys.readouterr().out
