"""Hypothesis strategies for ModelConfig: any message of the schema, and changes to valid models.

The schema's own descriptor says which fields there are: a field that NVIDIA adds is covered without an edit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from dataclasses import field as default
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from hypothesis import strategies as st

from triton_models.artifact.pbtxt import ModelConfig, schema

Values = Callable[[FieldDescriptor], st.SearchStrategy[Any]]

# Characters that every text format has to escape, quote or leave alone.
_TEXT = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs"]) | st.sampled_from("\"'\\\n\t#{}:, é"), max_size=8
)

_INTEGERS: Mapping[int, tuple[int, int]] = {
    FieldDescriptor.TYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.TYPE_UINT64: (0, 2**64 - 1),
}


# Any message


@st.composite
def messages(draw: st.DrawFn) -> ModelConfig:
    """Any message of the schema, which is rarely a valid model."""
    message = schema().ModelConfig()
    for _ in range(draw(st.integers(0, 15))):
        change_field(draw, message, values=scalars)
    return message


def scalars(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    """Any value of a field that holds no message, its limits among them."""
    if field.type in _INTEGERS:
        low, high = _INTEGERS[field.type]
        return st.integers(low, high) | st.sampled_from([0, 1, low, high])
    if field.type == FieldDescriptor.TYPE_ENUM:
        return st.sampled_from([value.number for value in field.enum_type.values])
    if field.type == FieldDescriptor.TYPE_BOOL:
        return st.booleans()
    if field.type == FieldDescriptor.TYPE_FLOAT:
        return st.floats(width=32, allow_nan=False)
    if field.type == FieldDescriptor.TYPE_DOUBLE:
        return st.floats(allow_nan=False)
    return _TEXT


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


# One change


@dataclass(kw_only=True)
class Folder:
    """One model directory to be written, with the content of files by their paths."""

    config: ModelConfig
    versions: tuple[str, ...] = ("1",)
    files: dict[str, bytes] = default(default_factory=dict)


@st.composite
def changed(draw: st.DrawFn, folder: Folder) -> Folder:
    """The same directory with one field of the configuration, one version or one file changed."""
    kind = draw(st.sampled_from(["field", "field", "field", "field", "field", "version", "file"]))
    if kind == "version":
        folder.versions = draw(
            st.sampled_from([(), ("0",), ("01",), ("x",), ("2",), ("1", "2"), ("1x",), ("-1",)])
        )
    elif kind == "file" and folder.files:
        name = draw(st.sampled_from(sorted(folder.files)))
        if draw(st.booleans()):
            del folder.files[name]
        else:
            folder.files[name] = folder.files[name][:1]
    else:
        change_field(draw, folder.config)
    return folder


def change_field(draw: st.DrawFn, config: ModelConfig, *, values: Values | None = None) -> None:
    """Set, clear, double or replace one field anywhere in a message, absent ones included."""
    values = values or _telling
    target, field = draw(st.sampled_from(list(_places(config))))
    if _is_map(field):
        _change_map(draw, getattr(target, field.name), field, values)
    elif field.is_repeated:
        _change_list(draw, getattr(target, field.name), field, values)
    elif draw(st.integers(0, 3)) == 0:
        target.ClearField(field.name)
    elif field.message_type is not None:
        getattr(target, field.name).SetInParent()
    else:
        setattr(target, field.name, draw(values(field)))


def _places(message: Any) -> Iterator[tuple[Any, FieldDescriptor]]:
    for field in message.DESCRIPTOR.fields:
        yield message, field
        if field.message_type is None or _is_map(field):
            continue
        if field.is_repeated:
            for entry in getattr(message, field.name):
                yield from _places(entry)
        elif message.HasField(field.name):
            yield from _places(getattr(message, field.name))
    for field in message.DESCRIPTOR.fields:
        if _is_map(field) and field.message_type.fields_by_name["value"].message_type is not None:
            for entry in getattr(message, field.name).values():
                yield from _places(entry)


def _change_map(draw: st.DrawFn, mapping: Any, field: FieldDescriptor, values: Values) -> None:
    key = field.message_type.fields_by_name["key"]
    value = field.message_type.fields_by_name["value"]
    if mapping and draw(st.booleans()):
        del mapping[draw(st.sampled_from(sorted(mapping)))]
    elif value.message_type is None:
        mapping[draw(values(key))] = draw(values(value))
    else:
        mapping[draw(values(key))].SetInParent()


def _change_list(draw: st.DrawFn, entries: Any, field: FieldDescriptor, values: Values) -> None:
    how = draw(st.sampled_from(["add", "remove", "double"]))
    if how == "remove" and entries:
        del entries[draw(st.integers(0, len(entries) - 1))]
    elif how == "double" and entries:
        entries.append(entries[0])
    elif field.message_type is not None:
        entries.add()
    else:
        entries.append(draw(values(field)))


def _telling(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    """Values that decide something: limits, names that exist and names that do not."""
    if field.type == FieldDescriptor.TYPE_STRING:
        return st.sampled_from(
            ["", "image", "scores", "nothing", "labels.txt", "control0", "state_in", "group", "0", "-1"]
        )
    if field.type in _INTEGERS:
        low, _ = _INTEGERS[field.type]
        return st.sampled_from([value for value in (-2, -1, 0, 1, 2, 3, 4, 8, 9, 1000) if value >= low])
    if field.type in {FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_DOUBLE}:
        return st.sampled_from([-0.5, 0.0, 0.5, 1.0, 1.5])
    return scalars(field)


# Ensembles


@st.composite
def changed_ensemble(draw: st.DrawFn, folders: Mapping[str, Folder], *, name: str) -> dict[str, Folder]:
    """The same with one change: in the ensemble's configuration, in a composing model's, or a model gone."""
    changed_folders = dict(folders)
    where = draw(st.sampled_from(["top", "top", "top", "step", "step", "gone", "names"]))
    composing = sorted(folder for folder in folders if folder != name)
    steps = list(folders[name].config.ensemble_scheduling.step)
    if not (composing and steps):
        where = "top"
    if where == "top":
        changed_folders[name] = draw(changed(folders[name]))
    elif where == "step":
        chosen = draw(st.sampled_from(composing))
        changed_folders[chosen] = draw(changed(folders[chosen]))
    elif where == "gone":
        del changed_folders[draw(st.sampled_from(composing))]
    else:
        step = draw(st.sampled_from(steps))
        mapping = draw(st.sampled_from([step.input_map, step.output_map]))
        names = ["TEXT", "ids", "mask", "hidden", "embedding", "nothing"]
        mapping[draw(st.sampled_from(sorted(mapping) or ["x0"]))] = draw(st.sampled_from(names))
    return changed_folders
