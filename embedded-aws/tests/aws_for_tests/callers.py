"""Callers that the embedded AWS may refuse, and tokens of GitHub's jobs without a valid signature."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from typing import Any

import boto3
from botocore.config import Config

CODE = "UnrecognizedClientException"
"""The code of a refusal."""


def foreign(url: str, service: str, **keys: str) -> Any:
    """Return a client with other keys than the run's."""
    made = {"aws_access_key_id": "AKIAIOSFODNN7EXAMPLE", "aws_secret_access_key": "x", **keys}
    once = Config(retries={"total_max_attempts": 1}, proxies={})
    return boto3.client(service, endpoint_url=url, region_name="us-east-1", config=once, **made)


def status(url: str, *, method: str = "GET", **headers: str) -> tuple[int, dict[str, str]]:
    """Send a request without an SDK. Returns the status and headers of the answer."""
    request = urllib.request.Request(url, method=method, headers=headers)  # noqa: S310
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request) as answer:
            return answer.status, dict(answer.headers)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, dict(error.headers)


HOST = "token.actions.githubusercontent.com"
OLD = "repo:octo-org/search:environment:production"
"""A subject without the ids of owner and repository."""


def token(**claims: Any) -> str:
    """Return the token of a job, with other claims in place of the usual ones."""
    given = {"iss": f"https://{HOST}", "aud": "sts.amazonaws.com", "sub": OLD} | claims
    parts = ({"alg": "RS256"}, given)
    encoded = [base64.urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=") for each in parts]
    return ".".join((*encoded, "c2lnbmF0dXJl"))
