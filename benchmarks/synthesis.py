"""The time of `cdk synth` with thousands of declared models, against one model."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from benchmarks.ratio import Bench, Ratio

_ROOT = Path(__file__).resolve().parents[1]
_COPIED = ("minilm", "resnet50")


def ratios(bench: Bench) -> Iterator[Ratio]:
    """With the command line of the CDK and the checks that every synthesis runs."""
    declared = 20 if bench.short else 5_000
    few, many = _app(bench.folder / "few", 1), _app(bench.folder / "many", declared)
    yield bench.measure(
        "cdk synth",
        ours=("1 declared model", lambda: _synthesise(few)),
        theirs=(f"{declared:,} declared models", lambda: _synthesise(many)),
        pairs=3,
        reset=lambda: shutil.rmtree(many / "cdk.out", ignore_errors=True),
    )


def _app(folder: Path, models: int) -> Path:
    """Write this repository's app with other models: copies of two of its own."""
    leftovers = shutil.ignore_patterns("__pycache__", ".*", "models")
    for part in ("stacks", "constructs", "model_builds"):
        shutil.copytree(_ROOT / part, folder / part, ignore=leftovers)
    for name in ("app.py", "cdk.json"):
        shutil.copy(_ROOT / name, folder)
    for number in range(models):
        copied = _COPIED[number % len(_COPIED)]
        target = folder / "model_builds" / "models" / f"{copied}-{number}"
        target.mkdir(parents=True)
        named = re.compile(rf'(?<="){copied}(?=["_])')  # the model and its parts
        for path in (_ROOT / "model_builds" / "models" / copied).glob("*.py"):
            (target / path.name).write_text(named.sub(target.name, path.read_text()))
    return folder


def _synthesise(app: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    cdk = str(_ROOT / "node_modules" / ".bin" / "cdk")
    command = [cdk, "synth", "--quiet", "-c", "models=*", "-c", "parallel_builds=8"]
    subprocess.run(command, cwd=app, env=environment, check=True, capture_output=True)
