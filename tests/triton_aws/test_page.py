"""The page about the embedded AWS: its example runs, and its figures are true."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import triton_aws
from triton_aws.cloudformation.catalogue import TYPES
from triton_aws.moto_gaps.members import MOTO

PACKAGE = Path(triton_aws.__file__).parent
PAGE = (PACKAGE / "README.md").read_text()


def test_the_example_passes_as_a_test_of_its_own(tmp_path: Path) -> None:
    [example] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "test_example.py").write_text(example)

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path],
        cwd=tmp_path,
        env={"PYTHONPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


def test_the_page_counts_the_resource_types() -> None:
    assert f"{len(TYPES)} resource types" in PAGE


def test_the_page_names_the_version_of_moto() -> None:
    assert f"moto {MOTO}" in PAGE
