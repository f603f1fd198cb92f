"""A source folder of declared models, for what builds them."""

from __future__ import annotations

from pathlib import Path

from tests.triton_models import declared_models


def declare(source: Path, *names: str) -> Path:
    """Make a source folder with these models, or add them to it."""
    source.mkdir(parents=True, exist_ok=True)
    (source / "requirements.txt").write_text("boto3\n")
    for name in names:
        declared_models.declare(source / "models", name)
    return source
