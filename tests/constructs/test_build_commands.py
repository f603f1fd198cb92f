"""What a build installs: the usual packages, and those of the models that it makes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from triton_fleet.repository.build_commands import commands
from triton_fleet.repository.build_inputs import token_of_job
from triton_models import torch_for_builds
from triton_models.instances import GPUS

LONGEST_ARGUMENT = 256  # of a Processing job's container

Installs = Callable[[str], list[str]]


@pytest.fixture
def installs(tmp_path: Path) -> Installs:
    """Runs the install command where python3 only tells what it was asked for."""
    for model in ("dali_inception", "minilm", "resnet50"):
        (tmp_path / "models" / model).mkdir(parents=True)
        (tmp_path / "models" / model / "build.py").touch()
    for model in ("dali_inception", "resnet50"):
        (tmp_path / "models" / model / "requirements.txt").write_text("some-package\n")
    python = tmp_path / "bin" / "python3"
    python.parent.mkdir()
    python.write_text('#!/bin/bash\nprintf "%s\\n" "$@"\n')
    python.chmod(0o755)
    command = "\n".join(commands(None)["install"])

    def run(models: str) -> list[str]:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=tmp_path,
            env={"PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}", "FLEET_MODELS": models},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stderr == ""
        given = done.stdout.split()
        assert given[:2] == ["-m", "triton_models.torch_for_builds"]
        return [given[place + 1] for place, each in enumerate(given) if each == "--requirement"]

    return run


def test_a_model_without_needs_of_its_own_gets_the_usual_packages(installs: Installs) -> None:
    assert installs("minilm") == ["requirements.txt"]


def test_a_models_own_packages_come_in_the_same_run_of_pip(installs: Installs) -> None:
    assert installs(" minilm dali_inception") == [
        "requirements.txt",
        "models/dali_inception/requirements.txt",
    ]


def test_a_form_of_a_model_needs_what_the_model_needs(installs: Installs) -> None:
    assert installs("resnet50:torchscript")[1:] == ["models/resnet50/requirements.txt"]


def test_a_build_of_every_model_needs_what_any_of_them_needs(installs: Installs) -> None:
    assert len(installs("")) == 3


def test_every_command_fits_into_an_argument_of_a_job() -> None:
    class Token:
        secret_arn = "arn"

    _, fetched = token_of_job(Token())  # type: ignore[arg-type]
    every = list(fetched)
    every += [each for phase in commands(GPUS["A10G"]).values() for each in phase]

    assert max(map(len, every)) <= LONGEST_ARGUMENT


def test_the_hubs_token_is_fetched_once_and_a_secret_that_cannot_be_read_ends_the_job(tmp_path: Path) -> None:
    class Token:
        secret_arn = "arn:of:secret"

    variables, fetched = token_of_job(Token())  # type: ignore[arg-type]
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


@pytest.mark.parametrize(
    ("requirements", "installed", "asked"),
    [
        ("numpy\ntorch\n", False, True),
        ("numpy\ntorch\n", True, False),
        ("numpy\ntorchless\n", False, False),
    ],
)
def test_pytorch_alone_is_asked_of_its_own_index(
    requirements: str, installed: bool, asked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: installed or None)
    (tmp_path / "requirements.txt").write_text(requirements)
    (tmp_path / "constraints.txt").write_text("numpy==2.2.6\ntorch==2.13.0\n")

    command = torch_for_builds.command(tmp_path)

    assert (command or [])[-3:] == (["--index-url", torch_for_builds.INDEX, "torch==2.13.0"] if asked else [])


def test_a_build_goes_on_where_pytorchs_own_index_cannot_be_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch_for_builds, "command", lambda: ["false"])

    torch_for_builds.main()

    assert torch_for_builds.INDEX in capsys.readouterr().err
