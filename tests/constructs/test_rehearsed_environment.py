"""A rehearsed build sees what the deployed project and the Processing job's request carry, as it is."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Environment, Stack
from aws_cdk.assertions import Template
from botocore_model import resolved
from declared import declare, template_of_build

from embedded_aws import EmbeddedAws
from triton_fleet import ModelRepository, MultiModelEndpoint
from triton_fleet.builds.code.run_processing_job import job_request
from triton_fleet.builds.commands import ENVIRONMENT
from triton_models.builds.locked import PACKAGES
from triton_models.facts.releases import IMAGE_REPOSITORY
from triton_rehearsal.builds.environment import DIFFERENCES, NETWORK, install_python
from triton_rehearsal.builds.processing_job import run_job
from triton_rehearsal.builds.runner import WITHOUT_GPU, BuildRunner
from triton_rehearsal.triton.container import server_flags
from triton_rehearsal.triton.machine import Machine
from triton_rehearsal.triton.server import DIFFERENCES as OF_CONTAINERS
from triton_rehearsal.triton.server import TritonServer

DUMP = "import json, os, sys; open(sys.argv[1], 'w').write(json.dumps(dict(os.environ)))"
# What the image sets, as far as it is modelled, what CodeBuild sets itself, and what a shell and Python add.
OF_THE_IMAGE = {"NVIDIA_TRITON_SERVER_VERSION", "TRT_VERSION", "PYTHONPATH"}
OF_CODEBUILD = {"AWS_REGION", "AWS_DEFAULT_REGION"}
OF_A_PROCESS = {"PWD", "OLDPWD", "SHLVL", "_", "LC_CTYPE"}
NOT_HERE = {"PIP_TARGET": "/none", "T5_WEIGHTS": "of this machine", "VIRTUAL_ENV": "/none"}

Different = dict[str, tuple[str | None, str | None]]


@pytest.fixture(scope="module")
def aws() -> Iterator[EmbeddedAws]:
    with EmbeddedAws() as embedded:
        yield embedded


@pytest.fixture
def project(tmp_path: Path) -> Callable[[str], dict[str, Any]]:
    """The deployed project for an instance type, with plain values in the place of references."""

    def synthesised(instance_type: str) -> dict[str, Any]:
        source = declare(tmp_path / "source", "minilm")
        template = template_of_build(source, models=None, instance_type=instance_type)
        (found,) = (
            each["Properties"]
            for each in template["Resources"].values()
            if each["Type"] == "AWS::CodeBuild::Project"
        )
        return dict(resolved(found, template))

    return synthesised


@pytest.fixture(autouse=True)
def _a_user_with_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in NOT_HERE.items():
        monkeypatch.setenv(name, value)


def carried(project: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables of the project and its buildspec."""
    given = {each["Name"]: each["Value"] for each in project["Environment"]["EnvironmentVariables"]}
    return {**json.loads(project["Source"]["BuildSpec"])["env"]["variables"], **given}


def undeclared(deployed: Mapping[str, str], seen: Mapping[str, str]) -> Different:
    """The variables that differ from what is deployed, and are not said to."""
    differing = {name for name in {*deployed, *seen} if deployed.get(name) != seen.get(name)}
    known = {*DIFFERENCES, *NETWORK, *OF_THE_IMAGE, *OF_CODEBUILD, *OF_A_PROCESS}
    return {
        name: (deployed.get(name), seen.get(name))
        for name in differing - known
        if not name.startswith("CODEBUILD_")
    }


def seen_by_build(aws: EmbeddedAws, project: Mapping[str, Any], folder: Path) -> dict[str, str]:
    (folder / "dump.py").write_text(DUMP)
    spec = json.loads(project["Source"]["BuildSpec"])
    spec["phases"] = {"build": {"commands": [f"python3 {folder}/dump.py {folder}/seen"]}}
    environment = project["Environment"]
    aws.client("codebuild").create_project(
        name="dumps",
        source={"type": "NO_SOURCE", "buildspec": json.dumps(spec)},
        artifacts={"type": "NO_ARTIFACTS"},
        environment={
            "type": environment["Type"],
            "image": environment["Image"],
            "computeType": environment["ComputeType"],
            "environmentVariables": [
                {"name": each["Name"], "value": each["Value"]} for each in environment["EnvironmentVariables"]
            ],
        },
        serviceRole="arn:aws:iam::123456789012:role/any",
    )
    with BuildRunner(aws) as builds:
        builds.run(project="dumps", overrides={})
    return dict(json.loads((folder / "seen").read_text()))


def test_a_build_sees_its_projects_variables_and_differs_only_where_that_is_declared(
    aws: EmbeddedAws, project: Callable[[str], dict[str, Any]], tmp_path: Path
) -> None:
    deployed = project("ml.g5.2xlarge")

    seen = seen_by_build(aws, deployed, tmp_path)

    assert undeclared(carried(deployed), seen) == {}
    assert seen["PIP_USER"] == "1"
    assert seen["FLEET_GPU"] == "A10G"


def test_a_job_sees_its_requests_variables_and_differs_only_where_that_is_declared(
    aws: EmbeddedAws, project: Callable[[str], dict[str, Any]], tmp_path: Path
) -> None:
    started = carried(project("ml.g4dn.xlarge")) | WITHOUT_GPU | {"CODEBUILD_BUILD_ID": "builds:1"}
    request = job_request(started)
    request["AppSpecification"] |= {
        "ContainerEntrypoint": ["python3", "-c", DUMP, str(tmp_path / "seen")],
        "ContainerArguments": [],
    }

    assert run_job(aws, {**request, "ProcessingInputs": []}) is None

    seen = json.loads((tmp_path / "seen").read_text())
    assert undeclared(request["Environment"], seen) == {}
    assert (seen["PIP_USER"], seen["FLEET_GPU"]) == ("1", "T4")


def test_a_container_has_its_models_variables_and_flags_and_differs_only_where_that_is_declared(
    tmp_path: Path,
) -> None:
    stack = Stack(App(), "Fleet", env=Environment(region="eu-west-1"))
    endpoint = MultiModelEndpoint(stack, "Endpoint", repository=ModelRepository(stack, "Repository"))
    (model,) = Template.from_stack(stack).find_resources("AWS::SageMaker::Model").values()
    deployed = model["Properties"]["PrimaryContainer"]["Environment"]
    machine = Machine.of(image=f"{IMAGE_REPOSITORY}:{endpoint.image.tag}", instance_type="ml.g5.2xlarge")

    with TritonServer(deployed, tmp_path / "server", machine=machine) as server:
        process = Path(f"/proc/{server.pid}")
        seen = dict(each.split("=", 1) for each in _words(process / "environ"))
        flags = _words(process / "cmdline")[1:]

    given = {"SAGEMAKER_MULTI_MODEL": "true", "SAGEMAKER_SAFE_PORT_RANGE": "23000-23999"}
    there = {**machine.variables(), **deployed, **given}
    assert {name for name in {*there, *seen} if there.get(name) != seen.get(name)} <= {*OF_CONTAINERS}
    started = server_flags(deployed, repository="/opt/ml/models")
    assert {each.rpartition("=")[0] or each for each in {*flags} ^ {*started}} <= {*OF_CONTAINERS}


def _words(file: Path) -> list[str]:
    """Return the strings in a file of /proc, without the empty end."""
    return [each.decode() for each in file.read_bytes().split(b"\0") if each]


def test_what_the_requirements_name_is_installed_already_and_nothing_else_of_the_rehearsal_is(
    tmp_path: Path,
) -> None:
    programs, home = tmp_path / "bin", tmp_path / "home"
    requirements = PACKAGES / "requirements.txt"
    install_python(programs, home=home, requirements=requirements.read_text())
    kept = [path.name for path in home.glob("lib/*/site-packages/*")]

    def python(*arguments: str) -> int:
        return subprocess.run(
            [programs / "python3", *arguments],
            env={**ENVIRONMENT, "PATH": "/usr/bin:/bin", "HOME": str(home), "PYTHONUSERBASE": str(home)},
            capture_output=True,
            check=False,
        ).returncode

    lock = PACKAGES / "locks" / "requirements.txt"
    pip = ("-m", "pip", "install", "--quiet", "--no-index", "--no-deps")
    assert python(*pip, "--require-hashes", "--requirement", str(lock)) == 0
    assert [path.name for path in home.glob("lib/*/site-packages/*")] == kept == ["installed.pth"]
    assert python("-c", "import boto3, numpy, tritonclient.http") == 0
    assert not (home / "installed" / "moto").exists()
