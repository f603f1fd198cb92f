"""A warm-up in the embedded AWS: a deployment that bakes starts it, and it invokes the endpoint's models."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
from synthesised_stacks import deploy_fleet, deploy_stack, small_stack, template_of

from aws_for_tests.deployed_functions import logged, physical_ids, settle, until
from embedded_aws import EmbeddedAws
from tests.stacks.fleet_app import fleet_app
from triton_fleet import Canary, EndpointWarmUp, ModelRepository, MultiModelEndpoint, WarmUpRequest
from triton_models.cli.main import main
from triton_models.deliver.deliver import Delivery, deliver
from triton_rehearsal.hosting.service import Hosting

pytestmark = pytest.mark.story

REQUESTS = [WarmUpRequest(model="minilm", body='{"inputs": []}')]


@cache
def synthesised(greeting: str) -> str:
    """Return the template of a fleet that warms up. Another greeting means another configuration."""
    stack = small_stack()
    endpoint = MultiModelEndpoint(
        stack,
        "Endpoint",
        repository=ModelRepository(stack, "Repository"),
        endpoint_name="search",
        environment={"GREETING": greeting},
        initial_instance_count=10,
        deployment=Canary(),
        rollback_alarms=["errors"],
    )
    EndpointWarmUp(stack, "WarmUp", endpoint=endpoint, requests=REQUESTS)
    return template_of(stack)


def deploy(aws: EmbeddedAws, greeting: str, *, verb: str) -> str:
    template = json.loads(synthesised(greeting))
    return settle(aws, template.pop("Resources"), verb=verb, **template)


def test_a_deployment_that_bakes_starts_the_warm_up_and_does_not_wait_for_models(aws: EmbeddedAws) -> None:
    deploy(aws, "hello", verb="create")

    assert deploy(aws, "good morning", verb="update") == "UPDATE_COMPLETE"
    until(lambda: logged(aws, "no model that can be loaded has that name") > 0)


def test_a_minimal_model_is_loaded_on_a_new_endpoint_before_the_alias_moves(
    aws: EmbeddedAws, tmp_path: Path
) -> None:
    models, repository = tmp_path / "models", "TritonFleetModels"
    models.mkdir()
    assert main(["new", "risk", "--minimal", "--models", str(models), "--json"]) == 0
    old, new = (fleet_app(release=release, build_on_deployment="false") for release in ("25.09", "26.04"))
    with Hosting(aws) as hosting:
        aws.serve_elsewhere("sagemaker-runtime", hosting.url)
        deploy_fleet(aws, old)
        [bucket] = physical_ids(aws, "AWS::S3::Bucket", stack=repository)
        delivery = Delivery(
            repository=f"s3://{bucket}/models/",
            models=models,
            portable=True,
            verify=False,
            logs=tmp_path / "logs",
        )
        [made] = deliver(["risk"], delivery, s3=aws.client("s3")).results
        assert deploy_stack(aws, new.inference, "update").startswith("UPDATE_COMPLETE")

        [instance] = hosting.instances("TritonFleet-g5-2xlarge-26-04")
        assert instance.loaded == [made.artifact]
