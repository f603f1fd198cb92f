"""A configuration survives being written and read."""

from __future__ import annotations

from typing import Any

from config_strategies import messages
from hypothesis import HealthCheck, given, settings

from triton_models.artifact.pbtxt import parse_config, to_text


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(message=messages())
def test_any_message_of_the_schema_survives_writing_and_reading(message: Any) -> None:
    text = to_text(message)
    again = parse_config(text, where="x")

    assert again == message
    assert again.SerializeToString(deterministic=True) == message.SerializeToString(deterministic=True)
    assert to_text(again) == text
