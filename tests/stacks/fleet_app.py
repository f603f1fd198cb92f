"""The app as the CDK's command line runs it, in this process or in one of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from aws_cdk import App
from cdk_nag import AwsSolutionsChecks

from app import declare
from stacks.inference import InferenceStack
from stacks.models import ModelsStack
from triton_fleet.app.context import Settings, fleet_configs
from triton_fleet.app.synthesis import declare_stages
from triton_fleet.fleet import model_library, multi_model_fleet
from triton_fleet.fleet.accepted_findings import Acceptance
from triton_models.base.errors import FleetError, Problem

ROOT = Path(__file__).parents[2]
NO_FILE = Path("none.json")

# The feature flags of cdk.json, and settings of the tests' own: those of cdk.json are their editor's.
SETTINGS: dict[str, object] = {"models": ["minilm", "resnet50"]}
CONTEXT: dict[str, Any] = json.loads((ROOT / "cdk.json").read_text())["context"] | {"tritonFleet": SETTINGS}

# Assets stay where they are. The app in a process of its own copies them, as the command line does.
_NO_COPIES = {"aws:cdk:disable-asset-staging": True}

# A canary of ten instances that is warmed up, and a topic that exists.
UPDATES: dict[str, object] = {
    "deployment": "canary",
    "min_capacity": 10,
    "max_capacity": 10,
    "warm_up": {
        "minilm": {"inputs": [{"name": "TEXT", "shape": [1, 1], "datatype": "BYTES", "data": ["mine"]}]}
    },
    "alarm_topic": "arn:aws:sns:eu-west-1:123456789012:alarms",
}


# Everything that the default leaves out, and no build job.
ELSEWHERE: dict[str, object] = {
    "name": "search-prod",
    "region": "eu-south-1",
    "instance_type": "ml.g4dn.2xlarge",
    "release": "24.09",
    "models": "",
    "min_capacity": "2",
    "max_capacity": "10",
    "latency_p99_ms": "250",
    "alarm_email": "on-call@example.com",
}


# What a company has: a VPC, roles, a registry, a package index and a proxy, a key for logs, and a budget.
COMPANY: dict[str, object] = {
    "image": "123456789012.dkr.ecr.us-east-1.amazonaws.com/mirror/triton:25.09-py3",
    "log_encryption_key": "arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab",
    "alarm_topic": "arn:aws:sns:us-east-1:123456789012:alarms",
    "monthly_budget_usd": 2000,
    "vpc": json.dumps(
        {"id": "vpc-0123456789abcdef0", "subnets": [f"subnet-0123456789abcdef{number}" for number in (0, 1)]}
    ),
    "endpoint_role": "arn:aws:iam::123456789012:role/instances",
    "build_role": "arn:aws:iam::123456789012:role/builds",
    "build_environment": {
        "PIP_INDEX_URL": "https://index.example.com/simple",
        "HTTPS_PROXY": "http://proxy.example.com:3128",
        "NO_PROXY": "169.254.169.254,169.254.170.2,.amazonaws.com",
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetApp:
    """The app with its two stacks."""

    app: App
    models: ModelsStack
    inference: InferenceStack


def new_fleet(*, environment: Mapping[str, str] = MappingProxyType({}), **context: object) -> FleetApp:
    """The app with the context of the tests, and what `-c KEY=VALUE` and the CDK's environment add to it."""
    app = App(context=CONTEXT | _NO_COPIES | context)
    (config,) = fleet_configs(app.node, environment=environment)
    models = ModelsStack(app, f"{config.name}Models", config=config)
    inference = InferenceStack(app, f"{config.name}Inference", config=config, library=models.library)
    return FleetApp(app=app, models=models, inference=inference)


def fleet_app(**context: object) -> FleetApp:
    """The app with a context, to look at: it is synthesised once for all who ask."""
    return _kept(json.dumps(context, sort_keys=True))


@cache
def _kept(context: str) -> FleetApp:
    return new_fleet(**json.loads(context))


def mistakes(
    *,
    environment: Mapping[str, str] = MappingProxyType({}),
    file: Path = Path("none.json"),
    **context: object,
) -> list[Problem]:
    """Return the mistakes that a synthesis with a context reports."""
    app = App(context=_NO_COPIES | context)
    with pytest.raises(FleetError) as raised:
        declare_stages(app, declare, settings=Settings(app.node, environment=environment, file=file))
    return list(raised.value.problems)


@contextmanager
def accepted_apart() -> Iterator[list[Acceptance]]:
    """The findings that constructs accept, in a list instead of where they are."""
    found: list[Acceptance] = []
    with pytest.MonkeyPatch.context() as patch:
        for module in (model_library, multi_model_fleet):
            patch.setattr(module, "accept", found.extend)
        yield found


def findings(fleet: FleetApp) -> set[str]:
    """Return the findings of AwsSolutions that are not accepted: the rule and the construct."""
    fleet.app.synth()  # only then do references between the stacks read as they will in the template
    return {
        f"{violation.rule_name} {resource.construct_path.removesuffix('/Resource')}"
        for violation in AwsSolutionsChecks(fleet.app).validate_scope(fleet.app).violations
        for resource in violation.violating_resources
    }


# Run instead of app.py: whatever asks for the network from Python fails.
_OFFLINE = """
import runpy, socket
def refuse(*arguments, **options):
    raise OSError("the network was asked for")
socket.socket.connect = socket.getaddrinfo = socket.create_connection = refuse
{spoil}
runpy.run_path("app.py", run_name="__main__")
"""


def run_app(
    output: Path, *, context: Mapping[str, object] | None = None, spoil: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Synthesise in a process of its own: no account, no region, no network, the validator on.

    Args:
        output: The folder of the templates.
        context: Added to the context of the tests.
        spoil: A statement that spoils the app before it runs.
        environment: Variables to add.
    """
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "CDK_"))}
    return subprocess.run(
        [sys.executable, "-c", _OFFLINE.replace("{spoil}", spoil)],
        cwd=ROOT,
        env=variables
        | {
            "AWS_EC2_METADATA_DISABLED": "true",
            "CDK_CONTEXT_JSON": json.dumps(CONTEXT | dict(context or {})),
            "CDK_OUTDIR": str(output),
            # Node gets its network through these; nothing listens there.
            "HTTP_PROXY": "http://127.0.0.1:9",
            "HTTPS_PROXY": "http://127.0.0.1:9",
        }
        | environment,
        capture_output=True,
        text=True,
        check=False,
    )
