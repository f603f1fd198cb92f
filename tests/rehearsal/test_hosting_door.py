"""Access to the hosting of a rehearsal follows the same rules as access to its AWS."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from botocore.exceptions import ClientError

from aws_for_tests.callers import CODE, foreign, status
from embedded_aws import EmbeddedAws
from triton_rehearsal.hosting.service import Hosting

ENDPOINT = {"EndpointName": "search", "Body": b"{}"}


@pytest.fixture
def hosting(aws: EmbeddedAws) -> Iterator[Hosting]:
    with Hosting(aws) as opened:
        yield opened


def test_another_key_is_refused(hosting: Hosting) -> None:
    with pytest.raises(ClientError) as caught:
        foreign(hosting.url, "sagemaker-runtime").invoke_endpoint(**ENDPOINT)

    assert caught.value.response["Error"]["Code"] == CODE


def test_the_key_of_the_run_is_let_in(aws: EmbeddedAws, hosting: Hosting) -> None:
    client = foreign(hosting.url, "sagemaker-runtime", aws_access_key_id=aws.door.key)

    with pytest.raises(ClientError) as caught:
        client.invoke_endpoint(**ENDPOINT)

    assert caught.value.response["Error"]["Code"] == "ValidationError"  # the endpoint does not exist


def test_a_page_is_refused(hosting: Hosting) -> None:
    invocations = f"{hosting.url}/endpoints/search/invocations"

    assert status(invocations, method="POST", Origin="https://evil.example")[0] == 403
