"""The fixture `aws` of a test module: an embedded AWS."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import pytest

from embedded_aws import EmbeddedAws


def aws_fixture(
    *, scope: Literal["function", "module"] = "function", bucket: str = "", **settings: Any
) -> Any:
    """Return a fixture that opens an embedded AWS, with a bucket if a name is given."""

    @pytest.fixture(scope=scope)
    def aws() -> Iterator[EmbeddedAws]:
        with EmbeddedAws(**settings) as opened:
            if bucket:
                opened.client("s3").create_bucket(Bucket=bucket)
            yield opened

    return aws
