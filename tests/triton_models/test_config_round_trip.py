"""Every field of NVIDIA's schema survives being written and read: the schema's own descriptor says which."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
from config_strategies import messages, scalars
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from triton_models.config.pbtxt import parse_config, schema, to_text

ROOT = schema().ModelConfig.DESCRIPTOR

Path = tuple[FieldDescriptor, ...]


def paths(descriptor: Descriptor, above: Path = ()) -> Iterator[Path]:
    """The way to every field of the schema, from the top; the schema has no message within itself."""
    for field in descriptor.fields:
        yield (*above, field)
        if field.message_type is not None:
            yield from paths(field.message_type, (*above, field))


def is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def reach(message: Any, path: Path, value: Any) -> None:
    """Set one field of a message, and on the way there only what holds it."""
    field, *rest = path
    if is_map(field):
        key, content = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        entry = getattr(message, field.name)
        first = "a key" if key.type == FieldDescriptor.TYPE_STRING else 1
        wanted = rest[0] if rest else None
        if wanted is not None and wanted.name == "key":
            first = value
        if content.message_type is None:
            filler = "x" if content.type == FieldDescriptor.TYPE_STRING else 1
            entry[first] = value if wanted is not None and wanted.name == "value" else filler
        elif len(rest) > 1:
            reach(entry[first], tuple(rest[1:]), value)
        else:
            entry[first].SetInParent()
    elif not rest and field.message_type is None:
        if field.is_repeated:
            getattr(message, field.name).extend([value, value])
        else:
            setattr(message, field.name, value)
    else:
        held = getattr(message, field.name)
        inner = held.add() if field.is_repeated else held
        inner.SetInParent()
        if rest:
            reach(inner, tuple(rest), value)


def fields_in(message: Any) -> Iterator[str]:
    """The full names of the fields that a message has."""
    for field, value in message.ListFields():
        yield field.full_name
        if field.message_type is None:
            continue
        if is_map(field):
            yield from (each.full_name for each in field.message_type.fields)
            if field.message_type.fields_by_name["value"].message_type is not None:
                for entry in value.values():
                    yield from fields_in(entry)
        else:
            for entry in value if field.is_repeated else [value]:
                yield from fields_in(entry)


PATHS = {".".join(field.name for field in path): path for path in paths(ROOT)}


@pytest.mark.parametrize("name", PATHS)
@settings(max_examples=8, database=None)
@given(data=st.data())
def test_every_field_survives_writing_and_reading(name: str, data: st.DataObject) -> None:
    path = PATHS[name]
    last = path[-1]
    value = None if last.message_type is not None else data.draw(scalars(last))
    message = schema().ModelConfig()
    reach(message, path, value)

    text = to_text(message)
    again = parse_config(text, where="x")

    assert again == message
    assert again.SerializeToString(deterministic=True) == message.SerializeToString(deterministic=True)
    assert to_text(again) == text


def test_every_field_of_the_schema_has_occurred_but_the_two_that_only_have_one_value() -> None:
    occurred: set[str] = set()
    for path in PATHS.values():
        last = path[-1]
        message = schema().ModelConfig()
        reach(message, path, _example(last))
        occurred |= set(fields_in(parse_config(to_text(message), where="x")))
    every = {path[-1].full_name for path in PATHS.values()}
    never = every - occurred
    assert never == {
        "inference.BatchOutput.kind",
        "inference.ModelInstanceGroup.SecondaryDevice.kind",
    }  # enumerations of a single value, 0: to write it or to leave it out is one message
    for name in never:
        field = next(path[-1] for path in PATHS.values() if path[-1].full_name == name)
        assert [value.number for value in field.enum_type.values] == [0]
    assert len(every) > 150  # the walk has found the schema, not an empty one


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(message=messages())
def test_any_message_of_the_schema_survives_writing_and_reading(message: Any) -> None:
    assert parse_config(to_text(message), where="x") == message


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


def _example(field: FieldDescriptor) -> Any:
    if field.message_type is not None:
        return None
    if field.type == FieldDescriptor.TYPE_STRING:
        return "x"
    if field.type == FieldDescriptor.TYPE_ENUM:
        return max(value.number for value in field.enum_type.values)
    return 1
