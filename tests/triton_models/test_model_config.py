"""Configurations as text: written, read again, and the places of mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests.reported import reported
from tests.triton_models.config_strategies import messages
from triton_models.artifact.pbtxt import ensemble, parse_config, plain, read_config, tensor, to_text
from triton_models.declare.mistakes import find_mistakes
from triton_models.declare.scheduling import DynamicBatching


def test_an_ensemble_is_declared_the_one_way_that_sagemaker_recognises() -> None:
    text = to_text(ensemble(name="e", max_batch_size=0, inputs=[], outputs=[], steps=[]))

    assert 'platform: "ensemble"' in text
    assert "backend" not in text


def test_a_queue_has_its_limits_and_priorities() -> None:
    batching = DynamicBatching(max_queue_size=64, timeout_us=200_000, priorities=3)
    message = plain(name="m", backend="python", max_batch_size=4, inputs=[], outputs=[], batching=batching)
    written = parse_config(to_text(message), where="x").dynamic_batching

    assert written.default_queue_policy.max_queue_size == 64
    assert written.default_queue_policy.default_timeout_microseconds == 200_000
    assert (written.priority_levels, written.default_priority_level) == (3, 3)


@pytest.mark.parametrize(
    "batching",
    [
        DynamicBatching(max_queue_size=0),
        DynamicBatching(timeout_us=-1),
        DynamicBatching(default_priority=1),
        DynamicBatching(priorities=2, default_priority=3),
    ],
)
def test_limits_of_a_queue_that_are_impossible_are_mistakes(batching: DynamicBatching) -> None:
    assert len(find_mistakes(batching)) == 1


@pytest.mark.parametrize(
    ("text", "line", "column", "said"),
    [
        ('name: "x"\nfoo: 3\n', 2, 1, 'no field named "foo"'),
        ('name: "x"\ninput [ { name: "a" data_type: TYPE_FP31 } ]', 2, 32, "TYPE_FP31"),
        ("max_batch_size: 99999999999", 1, 17, "out of range"),
    ],
)
def test_a_syntax_error_names_line_and_column(
    tmp_path: Path, text: str, line: int, column: int, said: str
) -> None:
    path = tmp_path / "config.pbtxt"
    path.write_text(text)

    with reported("config-syntax") as problems:
        read_config(path)

    assert problems[0].where == f"{path}:{line}:{column}"
    assert said in problems[0].what


def test_an_unknown_kind_is_refused_and_an_unknown_data_type_answered_with_a_close_one() -> None:
    with reported("config-value"):
        plain(name="m", backend="python", max_batch_size=0, inputs=[], outputs=[], kind="KIND_TPU")
    with reported("config-value") as problems:
        tensor("x", "FLOAT32", [1])

    assert "TYPE_FP32" in problems[0].fix


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(message=messages())
def test_any_message_of_the_schema_survives_writing_and_reading(message: Any) -> None:
    text = to_text(message)
    again = parse_config(text, where="x")

    assert again == message
    assert again.SerializeToString(deterministic=True) == message.SerializeToString(deterministic=True)
    assert to_text(again) == text
