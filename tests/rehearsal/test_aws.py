"""The embedded AWS of a rehearsal: its errors, prices and images."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest

from embedded_aws import EmbeddedAws
from triton_models.base.errors import FleetError
from triton_models.facts.cost import PRICES
from triton_rehearsal.aws import open_aws, resource_problems


@pytest.fixture
def aws() -> Iterator[EmbeddedAws]:
    with open_aws() as opened:
        yield opened


def listed(aws: EmbeddedAws, instance_type: str) -> list[float]:
    """Return the hourly prices of an instance type."""
    filters = [
        {"Type": "TERM_MATCH", "Field": "instanceName", "Value": instance_type},
        {"Type": "TERM_MATCH", "Field": "regionCode", "Value": "us-east-1"},
    ]
    found = aws.client("pricing").get_products(ServiceCode="AmazonSageMaker", Filters=filters)["PriceList"]
    terms = [json.loads(each)["terms"]["OnDemand"]["term"] for each in found]
    return [float(each["priceDimensions"]["dimension"]["pricePerUnit"]["USD"]) for each in terms]


def test_a_taken_port_is_a_problem_with_a_fix() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(FleetError) as raised:
            open_aws(port)

    [problem] = raised.value.problems
    assert str(port) in problem.what
    assert problem.fix


def test_a_resource_that_is_not_there_is_a_problem_that_names_it(aws: EmbeddedAws) -> None:
    template = {"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}}
    aws.client("cloudformation").create_stack(StackName="s", TemplateBody=json.dumps(template))
    [topic] = aws.client("sns").list_topics()["Topics"]
    aws.client("sns").delete_topic(TopicArn=topic["TopicArn"])

    [problem] = resource_problems(aws, "s")

    assert "AWS::SNS::Topic Topic" in problem.what
    assert problem.where == "stack s, resource Topic"


def test_the_price_list_has_the_prices_of_the_price_table(aws: EmbeddedAws) -> None:
    assert listed(aws, "ml.g5.xlarge") == [PRICES["ml.g5.xlarge"].usd_per_hour]
    assert listed(aws, "ml.none.xlarge") == []
