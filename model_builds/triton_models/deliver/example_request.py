"""The request with which the warm-up loads a model: the smallest of its examples."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator

from triton_models.base.encoding import Parameters, encode
from triton_models.declare.declaration import Example, ModelDefinition
from triton_models.facts.limits import PAYLOAD_LIMIT

_ALONE: Parameters = {"sequence_id": 1, "sequence_start": True, "sequence_end": True}


def example_request(build: ModelDefinition) -> bytes | None:
    """Return the smallest example as a document with its body in base64, and the body's content type.

    This runs the declaration's own code.

    Returns:
        The document; None if no example can be sent: verification reports why.
    """
    try:
        requests = list(_encoded(build.examples()))
    except Exception:  # noqa: BLE001 -- whatever it is, the model is served without a warm-up
        return None
    fitting = [each for each in requests if len(each[0]) <= PAYLOAD_LIMIT]
    if not fitting:
        return None
    body, content_type = min(fitting, key=lambda each: len(each[0]))
    document = {"content_type": content_type, "body": base64.b64encode(body).decode()}
    return json.dumps(document, sort_keys=True).encode()


def _encoded(examples: list[Example]) -> Iterator[tuple[bytes, str]]:
    for each in examples:
        yield encode(each.first, outputs=None, content="binary", parameters=_ALONE if each.sequence else None)
