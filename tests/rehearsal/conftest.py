"""What the tests share: the embedded AWS of each, unless its file opens another one, and a pipe to models."""

import os
from pathlib import Path

import pytest

from aws_for_tests.fixture import aws_fixture

aws = aws_fixture()


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """A pipe, which opens when a model reads it."""
    os.mkfifo(tmp_path / "gate")
    return tmp_path / "gate"
