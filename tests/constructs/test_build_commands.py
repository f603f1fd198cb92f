from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from triton_fleet.builds.commands import commands
from triton_fleet.builds.inputs import BuildInputs
from triton_models.facts.instances import GPUS

LONGEST_ARGUMENT = 256  # of a Processing job's container


@pytest.mark.parametrize(
    ("models", "asked"),
    [
        ("minilm", ["minilm"]),
        (" minilm resnet50:torchscript", ["minilm", "resnet50:torchscript"]),
        ("", ["dali_inception", "minilm"]),
    ],
)
def test_what_a_build_installs_is_for_the_models_that_it_makes(
    models: str, asked: list[str], tmp_path: Path
) -> None:
    for each in ("dali_inception", "minilm"):
        (tmp_path / "models" / each).mkdir(parents=True)
        (tmp_path / "models" / each / "build.py").touch()
    python = tmp_path / "bin" / "python3"
    python.parent.mkdir()
    python.write_text('#!/bin/bash\nprintf "%s\\n" "$@"\n')
    python.chmod(0o755)

    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(commands(None)["install"])],
        cwd=tmp_path,
        env={"PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}", "FLEET_MODELS": models},
        capture_output=True,
        text=True,
        check=True,
    )

    installs = ["-m", "triton_models.builds.locked", "build", *asked]
    assert done.stdout.split()[-len(installs) :] == installs


def test_every_command_fits_into_an_argument_of_a_job() -> None:
    class Token:
        secret_arn = "arn"

    _, fetched = BuildInputs(weights={}, hub_token=Token()).of_job()  # type: ignore[arg-type]
    every = list(fetched)
    every += [each for phase in commands(GPUS["A10G"]).values() for each in phase]

    assert max(map(len, every)) <= LONGEST_ARGUMENT


def test_the_hubs_token_is_fetched_once_and_a_secret_that_cannot_be_read_ends_the_job(tmp_path: Path) -> None:
    class Token:
        secret_arn = "arn:of:secret"

    variables, fetched = BuildInputs(weights={}, hub_token=Token()).of_job()  # type: ignore[arg-type]
    (tmp_path / "boto3.py").write_text(
        "class client:\n"
        "    def __init__(self, name): pass\n"
        "    def get_secret_value(self, SecretId):\n"
        "        return {'SecretString': {'arn:of:secret': 'hf_abc'}[SecretId]}\n"
    )

    def run(**variables: str) -> subprocess.CompletedProcess[str]:
        script = 'for c; do eval "$c"; done; printenv HF_TOKEN'
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script, "build", *fetched],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path), **variables},
            capture_output=True,
            text=True,
            check=False,
        )

    assert run(**variables).stdout == "hf_abc\n"
    assert run(FLEET_HUB_TOKEN_SECRET="another").returncode != 0
