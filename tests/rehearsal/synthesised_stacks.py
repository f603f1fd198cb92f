"""Small stacks for tests that deploy without the CDK's command line."""

from __future__ import annotations

import json

from aws_cdk import App, DefaultStackSynthesizer, Stack
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Template

from aws_for_tests.deployed_functions import begin, ended
from embedded_aws import EmbeddedAws
from tests.stacks.fleet_app import FleetApp
from triton_fleet import ModelRepository


def small_stack(app: App | None = None) -> Stack:
    """Return a stack that does not need a bootstrapped account."""
    synthesizer = DefaultStackSynthesizer(generate_bootstrap_version_rule=False)
    return Stack(app or App(), "S", synthesizer=synthesizer)


def repository_in(stack: Stack, *, bucket: str = "", key: str = "") -> ModelRepository:
    """Return a repository, with an existing bucket and key if they are given."""
    return ModelRepository(
        stack,
        "Repository",
        bucket=s3.Bucket.from_bucket_name(stack, "Kept", bucket) if bucket else None,
        encryption_key=kms.Key.from_key_arn(stack, "KeptKey", key) if key else None,
    )


def template_of(stack: Stack) -> str:
    """Return the template of a stack as JSON."""
    return json.dumps(Template.from_stack(stack).to_json())


def deploy_stack(aws: EmbeddedAws, stack: Stack, verb: str) -> str:
    """Create or update a stack without its parts for bootstrapping. Returns its status and the reason."""
    template = Template.from_stack(stack).to_json()
    for part in ("Parameters", "Rules"):
        template.pop(part, None)
    begun = begin(aws, template.pop("Resources"), stack=stack.stack_name, verb=verb, **template)
    return ended(aws, begun, verb=verb)


def deploy_fleet(aws: EmbeddedAws, fleet: FleetApp) -> None:
    """Create both stacks of an app."""
    for stack in (fleet.models, fleet.inference):
        assert deploy_stack(aws, stack, "create").startswith("CREATE_COMPLETE")
