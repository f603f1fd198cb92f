"""A request's signature is the one of botocore."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from unittest import mock

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from triton_models.client.signing import Signer

# What a header may hold; botocore removes spaces as well.
TEXT = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=40)
NAMES = st.from_regex(r"[A-Za-z0-9](-*[A-Za-z0-9]){0,20}", fullmatch=True)
SIGNERS = {region: Signer(region=region, service="sagemaker") for region in ("us-east-1", "eu-central-1")}


@dataclass(frozen=True, kw_only=True)
class Sent:
    region: str
    host: str
    endpoint: str
    target_model: str
    content_type: str
    body: bytes
    keys: tuple[str, str, str | None]
    at: datetime


@given(
    st.builds(
        Sent,
        region=st.sampled_from(sorted(SIGNERS)),
        host=st.sampled_from(["runtime.sagemaker.us-east-1.amazonaws.com", "localhost:8080"]),
        endpoint=NAMES,
        target_model=TEXT,
        content_type=TEXT,
        body=st.binary(max_size=200),
        keys=st.tuples(TEXT, TEXT, st.none() | TEXT),
        at=st.datetimes(datetime(2026, 1, 1), datetime(2028, 12, 31)),
    )
)
def test_a_signature_is_botocores(sent: Sent) -> None:
    headers = {"Content-Type": sent.content_type, "X-Amzn-SageMaker-Target-Model": sent.target_model}
    path, credentials = f"/endpoints/{sent.endpoint}/invocations", Credentials(*sent.keys)
    request = AWSRequest("POST", f"https://{sent.host}{path}", data=sent.body, headers=headers)
    with mock.patch("botocore.auth.get_current_datetime", return_value=sent.at):
        SigV4Auth(credentials, "sagemaker", sent.region).add_auth(request)
    signed = SIGNERS[sent.region].signed(
        headers,
        host=sent.host,
        path=path,
        digest=hashlib.sha256(sent.body).hexdigest(),
        credentials=credentials.get_frozen_credentials(),
        at=sent.at,
    )
    assert signed == dict(request.headers.items())
