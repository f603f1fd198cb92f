"""The time of `cdk synth` with thousands of declared models, against one model."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from benchmarks.many_models import declare
from benchmarks.ratio import Ratio, measure
from triton_models.survey.survey import FOLDER

DECLARED = 5_000
_ROOT = Path(__file__).resolve().parents[1]
_PARTS = ("stacks", "constructs", "model_builds")
_CDK = _ROOT / "node_modules" / ".bin" / "cdk"


def ratios(*, short: bool) -> list[Ratio]:
    """With the command line of the CDK and the checks that every synthesis runs.

    On a machine where nothing is known of the models yet, each of them is read and compiled.
    """
    declared = 20 if short else DECLARED
    with tempfile.TemporaryDirectory(prefix="fleet-bench-") as folder:
        one, many = _app(Path(folder) / "one", 1), _app(Path(folder) / "many", declared)
        small = ("1 declared model", lambda: _synthesise(one))
        return [
            measure(
                "cdk synth again",
                ours=small,
                theirs=(f"{declared:,} declared models", lambda: _synthesise(many)),
                pairs=5,
                short=short,
            ),
            measure(
                "cdk synth for the first time",
                ours=small,
                theirs=(f"{declared:,} declared models", lambda: _synthesise(many)),
                pairs=3,
                short=short,
                reset=lambda: _forget(many),
            ),
        ]


def _app(folder: Path, models: int) -> Path:
    """This repository's app with other models."""
    leftovers = shutil.ignore_patterns("__pycache__", ".*", "models")
    for part in _PARTS:
        shutil.copytree(_ROOT / part, folder / part, ignore=leftovers)
    for name in ("app.py", "cdk.json"):
        shutil.copy(_ROOT / name, folder)
    declare(folder / "model_builds" / "models", models)
    return folder


def _synthesise(app: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [str(_CDK), "synth", "--quiet", "-c", "models=*", "-c", "parallel_builds=8"]
    subprocess.run(command, cwd=app, env=environment, check=True, capture_output=True)


def _forget(app: Path) -> None:
    """Remove what is kept between one synthesis and the next."""
    shutil.rmtree(app / "model_builds" / FOLDER, ignore_errors=True)
    shutil.rmtree(app / "cdk.out", ignore_errors=True)
