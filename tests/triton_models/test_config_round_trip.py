"""A configuration survives being written and read."""

from __future__ import annotations

import math
from typing import Any

import pytest
from config_strategies import messages
from hypothesis import HealthCheck, given, settings

from triton_models.config.pbtxt import parse_config, schema, to_text


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(message=messages())
def test_any_message_of_the_schema_survives_writing_and_reading(message: Any) -> None:
    text = to_text(message)
    again = parse_config(text, where="x")

    assert again == message
    assert again.SerializeToString(deterministic=True) == message.SerializeToString(deterministic=True)
    assert to_text(again) == text


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 5e-324, 1.7976931348623157e308])
def test_numbers_that_are_hard_to_write_survive(value: float) -> None:
    message = schema().ModelConfig()
    options = message.model_metrics.metric_control.add().histogram_options
    options.buckets.append(value)

    again = parse_config(to_text(message), where="x")
    read = again.model_metrics.metric_control[0].histogram_options.buckets[0]

    assert read == value or (math.isnan(read) and math.isnan(value))


@pytest.mark.parametrize(
    "text",
    [
        'name: "m"  # a comment\n',
        "name: 'single' 'and joined'\n",
        'input: [{name: "a"; dims: [1, 2,3],}, {name: "b"}];\n',
        'input < name: "angle brackets" >\n',
        "max_batch_size: 0x10\n",
        "input { dims: -1 dims: 3 }\n",
        'name: "\\xc3\\xa9\\n\\"\\101"\n',
    ],
)
def test_every_way_of_writing_text_format_is_read_and_then_written_one_way(text: str) -> None:
    message = parse_config(text, where="x")
    once = to_text(message)

    assert parse_config(once, where="x") == message
    assert to_text(parse_config(once, where="x")) == once
