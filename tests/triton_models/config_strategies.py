"""Hypothesis strategies for ModelConfig: any message of the schema, valid models, and changes to them.

The schema's own descriptor says which fields there are: a field that NVIDIA adds is covered without an edit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as default
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from hypothesis import strategies as st

from triton_models.artifact.pbtxt import ModelConfig, schema

Values = Callable[[FieldDescriptor], st.SearchStrategy[Any]]
CONTROL = schema().ModelSequenceBatching.Control

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


# Valid models

NAMES = ("a", "b", "c")
TYPES = tuple(name for name in schema().DataType.keys() if name != "TYPE_INVALID")  # noqa: SIM118 (an enum)
BYTES = {"8": 1, "16": 2, "32": 4, "64": 8}


@dataclass(kw_only=True)
class Folder:
    """One model directory to be written, with the content of files by their paths."""

    config: ModelConfig
    versions: tuple[str, ...] = ("1",)
    files: dict[str, bytes] = default(default_factory=dict)


@st.composite
def valid_folders(draw: st.DrawFn, *, name: str, backend: str) -> Folder:
    """A model directory that Triton loads on a machine without a GPU, with a backend that needs no file."""
    config = schema().ModelConfig(
        name=name, backend=backend, max_batch_size=draw(st.sampled_from([0, 1, 4, 8]))
    )
    folder = Folder(config=config)
    for side in (config.input, config.output):
        for tensor in draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=3)):
            _add_tensor(draw, side, tensor, batches=config.max_batch_size > 0)
    for tensor in config.input:
        tensor.optional = draw(st.booleans())
        tensor.allow_ragged_batch = draw(st.booleans())
    draw(st.sampled_from([_no_batching, _dynamic_batching, _sequence_batching]))(draw, folder)
    for part in draw(st.lists(st.sampled_from(_PARTS), unique=True, max_size=3)):
        part(draw, folder)
    return folder


def _add_tensor(draw: st.DrawFn, side: Any, name: str, *, batches: bool) -> None:
    dims = draw(st.lists(st.sampled_from([-1, 1, 2, 3, 4]), min_size=1, max_size=4))
    added = side.add(name=name, data_type=draw(st.sampled_from(TYPES)), dims=dims)
    kind = draw(st.sampled_from(["none", "none", "same", "one more", "joined", "scalar"]))
    if kind == "same":
        added.reshape.shape.extend(dims)
    elif kind == "one more":
        added.reshape.shape.extend([1, *dims])
    elif kind == "joined" and -1 not in dims:
        added.reshape.shape.append(math.prod(dims))
    elif kind == "scalar" and batches and set(dims) == {1}:
        added.reshape.SetInParent()
    if len(dims) == 3 and hasattr(added, "format"):
        added.format = draw(st.sampled_from([0, 1, 2]))


def _no_batching(draw: st.DrawFn, folder: Folder) -> None:
    """No scheduler."""


def _sizes(draw: st.DrawFn, config: ModelConfig) -> list[int]:
    largest = config.max_batch_size
    return draw(st.lists(st.integers(1, largest), max_size=2)) if largest else []


def _dynamic_batching(draw: st.DrawFn, folder: Folder) -> None:
    batching = folder.config.dynamic_batching
    batching.SetInParent()
    batching.preferred_batch_size.extend(_sizes(draw, folder.config))
    batching.max_queue_delay_microseconds = draw(st.sampled_from([0, 100]))
    batching.preserve_ordering = draw(st.booleans())
    batching.priority_levels = draw(st.sampled_from([0, 0, 1] if batching.preserve_ordering else [0, 1, 3]))
    if batching.priority_levels:
        batching.default_priority_level = draw(st.integers(1, batching.priority_levels))
        for level in draw(st.lists(st.integers(1, batching.priority_levels), unique=True, max_size=2)):
            batching.priority_queue_policy[level].max_queue_size = draw(st.integers(0, 5))
    policy = batching.default_queue_policy
    policy.timeout_action = draw(st.sampled_from([0, 1]))
    if not (batching.preserve_ordering and policy.timeout_action == 1):
        policy.default_timeout_microseconds = draw(st.sampled_from([0, 1000]))


def _sequence_batching(draw: st.DrawFn, folder: Folder) -> None:
    batching = folder.config.sequence_batching
    batching.SetInParent()
    batching.max_sequence_idle_microseconds = draw(st.sampled_from([0, 5000000]))
    for kind in draw(st.lists(st.sampled_from(range(4)), unique=True)):
        control = batching.control_input.add(name=f"control{kind}").control.add(kind=kind)
        if kind == CONTROL.CONTROL_SEQUENCE_CORRID:
            control.data_type = draw(st.sampled_from(["TYPE_UINT64", "TYPE_INT32", "TYPE_STRING"]))
        else:
            values = draw(st.sampled_from(["int32_false_true", "fp32_false_true", "bool_false_true"]))
            getattr(control, values).extend([0, 1])
    if draw(st.booleans()):
        _add_state(draw, folder)
    strategy = draw(st.sampled_from(["none", "direct", "oldest"]))
    if strategy == "direct":
        batching.direct.max_queue_delay_microseconds = draw(st.sampled_from([0, 100]))
        batching.direct.minimum_slot_utilization = draw(st.sampled_from([0.0, 0.5, 1.0]))
    elif strategy == "oldest":
        batching.oldest.max_candidate_sequences = draw(st.integers(0, 4))
        batching.oldest.preferred_batch_size.extend(_sizes(draw, folder.config))


def _add_state(draw: st.DrawFn, folder: Folder) -> None:
    dims = draw(st.lists(st.sampled_from([1, 2]), min_size=1, max_size=2))
    state = folder.config.sequence_batching.state.add(
        input_name="state_in", output_name="state_out", data_type="TYPE_FP32", dims=dims
    )
    source = draw(st.sampled_from(["none", "zeros", "file"]))
    if source != "none":
        initial = state.initial_state.add(name="first", data_type="TYPE_FP32", dims=dims)
        if source == "zeros":
            initial.zero_data = True
        else:
            initial.data_file = "first.raw"
            folder.files["initial_state/first.raw"] = bytes(64)


def _versions(draw: st.DrawFn, folder: Folder) -> None:
    folder.versions = draw(st.sampled_from([("1",), ("1", "2"), ("3", "10"), ("0",), ("1", "02")]))
    policy = draw(st.sampled_from(["all", "latest", "specific"]))
    if policy == "specific":
        folder.config.version_policy.specific.versions.append(int(folder.versions[0]))
    elif policy == "latest":
        folder.config.version_policy.latest.num_versions = draw(st.integers(1, 3))
    else:
        folder.config.version_policy.all.SetInParent()


def _instances(draw: st.DrawFn, folder: Folder) -> None:
    for _ in range(draw(st.integers(1, 2))):
        group = folder.config.instance_group.add(
            count=draw(st.sampled_from([0, 1, 2, -1])),
            kind=draw(st.sampled_from(["KIND_AUTO", "KIND_CPU", "KIND_MODEL"])),
            name=draw(st.sampled_from(["", "group"])),
            host_policy=draw(st.sampled_from(["", "cpu_0"])),
        )
        if draw(st.booleans()):
            group.rate_limiter.priority = draw(st.integers(0, 3))
            group.rate_limiter.resources.add(name=draw(st.sampled_from(["r", "s"])), count=1)
        if draw(st.booleans()):
            group.secondary_devices.add(kind="KIND_NVDLA", device_id=draw(st.integers(0, 2)))


def _labels(draw: st.DrawFn, folder: Folder) -> None:
    for tensor in folder.config.output:
        tensor.label_filename = draw(st.sampled_from(["", "labels.txt", "1/labels.txt"]))
    folder.files["labels.txt"] = b"cat\ndog\n"
    folder.files["1/labels.txt"] = b"cat\n"
    if "1" not in folder.versions:
        folder.files.pop("1/labels.txt")
        for tensor in folder.config.output:
            tensor.label_filename = "labels.txt"


def _warm_up(draw: st.DrawFn, folder: Folder) -> None:
    config = folder.config
    if any(tensor.data_type == schema().DataType.Value("TYPE_STRING") for tensor in config.input):
        return
    warm = config.model_warmup.add(
        name="first",
        batch_size=draw(st.integers(0, max(config.max_batch_size, 1))),
        count=draw(st.integers(0, 2)),
    )
    for tensor in config.input:
        entry = warm.inputs[tensor.name]
        entry.data_type = tensor.data_type
        entry.dims.extend(2 if size == -1 else size for size in tensor.dims)
        source = draw(st.sampled_from(["zero_data", "random_data", "input_data_file"]))
        if source == "input_data_file":
            count = byte_size(tensor.data_type) * math.prod(entry.dims)
            entry.input_data_file = f"{tensor.name}.raw"
            folder.files[f"warmup/{tensor.name}.raw"] = bytes(count)
        else:
            setattr(entry, source, True)


def byte_size(data_type: int) -> int:
    """The size of one element in bytes; 4 for text."""
    name = schema().DataType.Name(data_type)
    return 1 if name == "TYPE_BOOL" else next((n for bits, n in BYTES.items() if name.endswith(bits)), 4)


def _batch_tensors(draw: st.DrawFn, folder: Folder) -> None:
    config = folder.config
    if not config.input:
        return
    source = config.input[0].name
    config.batch_input.add(
        kind=draw(st.sampled_from(range(6))),
        target_name=["extra"],
        data_type=draw(st.sampled_from(["TYPE_INT32", "TYPE_FP32"])),
        source_input=[source],
    )
    if config.output:
        config.batch_output.add(kind=0, target_name=[config.output[0].name], source_input=[source])


def _loose_fields(draw: st.DrawFn, folder: Folder) -> None:
    config = folder.config
    config.model_transaction_policy.decoupled = draw(st.booleans())
    config.response_cache.enable = draw(
        st.booleans() if not config.HasField("sequence_batching") else st.just(False)
    )
    if config.response_cache.enable:
        config.model_transaction_policy.decoupled = False
    config.optimization.priority = draw(st.sampled_from([0, 1, 2]))
    config.optimization.graph.level = draw(st.integers(-2, 2))
    config.optimization.cuda.graphs = draw(st.booleans())
    config.optimization.eager_batching = draw(st.booleans())
    config.parameters["key"].string_value = draw(st.sampled_from(["", "1", "é"]))
    config.metric_tags["team"] = "search"
    config.cc_model_filenames["8.6"] = "a10g.plan"
    config.default_model_filename = draw(st.sampled_from(["", "net.bin"]))
    config.model_operations.op_library_filename.extend(draw(st.lists(st.just("ops.so"), max_size=1)))


_PARTS: Sequence[Callable[[st.DrawFn, Folder], None]] = (
    _versions,
    _instances,
    _labels,
    _warm_up,
    _batch_tensors,
    _loose_fields,
)


# One change


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
    """Every field of a message and of the messages in it."""
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
            ["", *NAMES, "nothing", "labels.txt", "control0", "state_in", "group", "0", "-1"]
        )
    if field.type in _INTEGERS:
        low, _ = _INTEGERS[field.type]
        return st.sampled_from([value for value in (-2, -1, 0, 1, 2, 3, 4, 8, 9, 1000) if value >= low])
    if field.type in {FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_DOUBLE}:
        return st.sampled_from([-0.5, 0.0, 0.5, 1.0, 1.5])
    return scalars(field)


# Ensembles


@st.composite
def valid_ensembles(draw: st.DrawFn, *, name: str, backend: str) -> dict[str, Folder]:
    """An ensemble that Triton loads, with its composing models, by the names of their folders."""
    batch = draw(st.sampled_from([0, 4]))
    top = schema().ModelConfig(name=name, platform="ensemble", max_batch_size=batch)
    top.ensemble_scheduling.SetInParent()
    dims = draw(st.sampled_from([[-1], [2, 3]]))
    data_type = draw(st.sampled_from(["TYPE_FP32", "TYPE_INT64"]))
    tensors = [f"in{number}" for number in range(draw(st.integers(1, 2)))]
    for tensor in tensors:
        top.input.add(name=tensor, data_type=data_type, dims=dims)
    folders = {name: Folder(config=top)}
    unread = list(tensors)
    for number in range(draw(st.integers(1, 3))):
        model = f"{name}_{number}"
        sources = draw(st.lists(st.sampled_from(tensors), unique=True, min_size=1, max_size=2))
        if number == 0:
            sources = tensors[:]
        config = schema().ModelConfig(
            name=model, backend=backend, max_batch_size=draw(st.sampled_from([batch, 8]))
        )
        if not batch:
            config.max_batch_size = 0
        step = top.ensemble_scheduling.step.add(
            model_name=model, model_version=draw(st.sampled_from([-1, 1])), model_namespace=""
        )
        for place, source in enumerate(sources):
            config.input.add(
                name=f"x{place}", data_type=data_type, dims=draw(st.sampled_from([dims, [-1] * len(dims)]))
            )
            step.input_map[f"x{place}"] = source
        config.output.add(name="y", data_type=data_type, dims=dims)
        step.output_map["y"] = f"t{number}"
        folders[model] = Folder(config=config)
        unread = [tensor for tensor in unread if tensor not in sources] + [f"t{number}"]
        tensors.append(f"t{number}")
    for tensor in unread:
        top.output.add(name=tensor, data_type=data_type, dims=dims)
    if draw(st.booleans()):
        last = folders[f"{name}_{len(folders) - 2}"].config
        last.model_transaction_policy.decoupled = True
    return folders


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
        names = ["in0", "in1", "t0", "t1", "t2", "t9"]
        mapping[draw(st.sampled_from(sorted(mapping) or ["x0"]))] = draw(st.sampled_from(names))
    return changed_folders
