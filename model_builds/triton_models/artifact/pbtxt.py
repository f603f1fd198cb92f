"""Reading and writing config.pbtxt through NVIDIA's protobuf schema, and typed builders for common models.

The schema is `model_config_pb2` inside the installed tritonclient. It is loaded by file, because importing
`tritonclient.grpc` would require grpc.
"""

from __future__ import annotations

import functools
import importlib.util
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

from triton_models.base.checks import UNREADABLE, Check
from triton_models.base.errors import FleetError, Problem
from triton_models.base.extras import explained
from triton_models.base.suggest import did_you_mean
from triton_models.declare.models import EnsembleStep
from triton_models.declare.scheduling import Batching, DynamicBatching, SequenceBatching
from triton_models.declare.tensors import Tensor

CONFIG_SYNTAX = Check(id="config-syntax", source="ModelConfig of the installed tritonclient")

CONFIG_VALUE = Check(id="config-value", source=CONFIG_SYNTAX.source)

CONFIG_FILE = "config.pbtxt"

COMPLETED_BY = "TritonServer(auto_complete_config=True)"
"""What lets the server complete a configuration, for errors."""

GPU_MEMORY = "gpu_memory_mb"
"""The parameter with the declared memory of an instance on its GPU. Triton's backends do not read it."""

CALLS = "fleet.calls."
"""The prefix of parameters of a model that calls others: the declared name, with the name on the server."""

# How Triton's reader differs from Python's. Tested on the bundled server, release 24.10, on 2026-11-21: C++
# accepts bytes that are not UTF-8, and a space between a minus and its number; Python refuses both. C++
# refuses an unknown escape, which Python accepts. Outside strings and comments, Python takes every blank and
# digit of Unicode, and C++ those of ASCII alone: tried on 2026-11-28 with 27 characters.
#
# A comment or a string; neither can start inside the other.
_TOKEN = re.compile(r"""#[^\n]*|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|(?P<foreign>[^\t-\r -~])""")
_ESCAPE = re.compile(r"\\(.)")
_KNOWN_ESCAPES = frozenset("abfnrtv\\?'\"01234567xXuU")
_SPACED_MINUS = re.compile(r"-([ \t]+)(?=[0-9.])")

# NVIDIA's generated message. It has no type stubs, and its fields are created at run time.
ModelConfig: TypeAlias = Any


@functools.cache
def schema() -> ModuleType:
    """Return NVIDIA's generated module `model_config_pb2`."""
    package = importlib.util.find_spec("tritonclient")
    for folder in (package and package.submodule_search_locations) or ():
        path = Path(folder) / "grpc" / "model_config_pb2.py"
        spec = importlib.util.spec_from_file_location("triton_models._model_config_pb2", path)
        if path.is_file() and spec is not None and spec.loader is not None:
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    missing = ModuleNotFoundError(name="tritonclient")
    raise explained(missing, where="the schema of config.pbtxt, which tritonclient contains")


def data_types() -> tuple[str, ...]:
    """Return every data type of a tensor, as spelled in config.pbtxt."""
    return tuple(name for name in schema().DataType.keys() if name != "TYPE_INVALID")  # noqa: SIM118 (an enum)


def tensor(name: str, data_type: str, dims: Sequence[int]) -> Tensor:
    """Return a tensor, such as `tensor("input_ids", "INT32", [-1])`, without the batch dimension."""
    full = data_type if data_type.startswith("TYPE_") else f"TYPE_{data_type}"
    known = data_types()
    if full not in known:
        fix = did_you_mean(full, known, otherwise=f"use one of {', '.join(known)}; the prefix is optional")
        raise CONFIG_VALUE.error(what=f"unknown data type {data_type!r}", where=f"tensor {name!r}", fix=fix)
    return Tensor(name, full, tuple(dims))


def as_json(config: ModelConfig) -> dict[str, Any]:
    """Return a configuration as Triton passes it to Python models: all fields, enumerations as strings."""
    from google.protobuf.json_format import MessageToDict

    document: dict[str, Any] = MessageToDict(
        config, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return document


def step(model_name: str, *, inputs: Mapping[str, str], outputs: Mapping[str, str]) -> EnsembleStep:
    """Return one composing model of an ensemble, with the ensemble's tensor by the model's own name."""
    return EnsembleStep(model_name=model_name, inputs=dict(inputs), outputs=dict(outputs))


def plain(
    *,
    name: str,
    backend: str,
    max_batch_size: int,
    inputs: Iterable[Tensor],
    outputs: Iterable[Tensor],
    instances: int = 1,
    kind: str | None = None,
    batching: Batching | None = None,
    parameters: Mapping[str, str] | None = None,
) -> ModelConfig:
    """Return the configuration of a model that a backend runs.

    See `triton_models.declare.models` and `Instances` for the values.
    """
    message = _message(name=name, max_batch_size=max_batch_size, inputs=inputs, outputs=outputs)
    message.backend = backend
    group = message.instance_group.add(count=instances)
    if kind is not None:
        kinds = tuple(schema().ModelInstanceGroup.Kind.keys())
        if kind not in kinds:
            fix = did_you_mean(kind, kinds, otherwise=f"omit it, or use one of {', '.join(kinds)}")
            raise CONFIG_VALUE.error(what=f"unknown instance kind {kind!r}", where=f"model {name!r}", fix=fix)
        group.kind = schema().ModelInstanceGroup.Kind.Value(kind)
    if isinstance(batching, DynamicBatching):
        _schedule(message.dynamic_batching, batching)
    elif batching is not None:
        _schedule_sequences(message.sequence_batching, batching)
    for key, value in (parameters or {}).items():
        message.parameters[key].string_value = value
    return message


def _schedule(written: Any, declared: DynamicBatching) -> None:
    written.preferred_batch_size.extend(declared.preferred)
    written.max_queue_delay_microseconds = declared.max_delay_us
    if declared.max_queue_size is not None:
        written.default_queue_policy.max_queue_size = declared.max_queue_size
    if declared.timeout_us is not None:
        written.default_queue_policy.default_timeout_microseconds = declared.timeout_us
    if declared.priorities is not None:
        written.priority_levels = declared.priorities
        written.default_priority_level = declared.default_priority or declared.priorities


def _schedule_sequences(written: Any, declared: SequenceBatching) -> None:
    if declared.max_idle_us is not None:
        written.max_sequence_idle_microseconds = declared.max_idle_us
    chosen = getattr(written, declared.strategy)
    chosen.SetInParent()
    chosen.max_queue_delay_microseconds = declared.max_delay_us
    if declared.max_sequences is not None:
        chosen.max_candidate_sequences = declared.max_sequences
    for tensor in declared.controls:
        kind = "CORRID" if tensor.says == "id" else tensor.says.upper()
        control = written.control_input.add(name=tensor.name).control.add(kind=f"CONTROL_SEQUENCE_{kind}")
        if tensor.says == "id":
            control.data_type = schema().DataType.Value(f"TYPE_{tensor.data_type}")
        else:
            getattr(control, f"{tensor.data_type.lower()}_false_true").extend([0, 1])


def ensemble(
    *,
    name: str,
    max_batch_size: int,
    inputs: Iterable[Tensor],
    outputs: Iterable[Tensor],
    steps: Iterable[EnsembleStep],
) -> ModelConfig:
    """Return the configuration of an ensemble, whose steps are linked by the names of their tensors."""
    message = _message(name=name, max_batch_size=max_batch_size, inputs=inputs, outputs=outputs)
    # SageMaker's front end finds the ensemble in a tarball by this field, not by `backend`.
    message.platform = "ensemble"
    for part in steps:
        added = message.ensemble_scheduling.step.add(model_name=part.model_name, model_version=-1)
        added.input_map.update(part.inputs)
        added.output_map.update(part.outputs)
    return message


def parse_config(text: str, *, where: str) -> ModelConfig:
    """Parse the text of a config.pbtxt; `where` is the file's name, for the error."""
    from google.protobuf import text_format

    message = schema().ModelConfig()
    try:
        text_format.Parse(text, message)
    except text_format.ParseError as error:
        raise FleetError([_syntax_problem(error, where=where)]) from None
    return message


def text_of(content: bytes) -> str:
    """Decode a configuration from UTF-8, otherwise from Latin-1, in which every byte is a character."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content.decode("latin-1")


def read_text(text: str, *, where: str) -> ModelConfig:
    """Parse the text of a config.pbtxt as Triton does."""
    _refuse_tokens(text, where=where)
    try:
        return parse_config(text, where=where)
    except FleetError:
        corrected = _SPACED_MINUS.sub(r"\1-", text)
        if corrected == text:
            raise
        return parse_config(corrected, where=where)


def _refusal_at(at: int, text: str, *, what: str, where: str, fix: str) -> FleetError:
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    place = f"{where}:{line}:{column}"
    return CONFIG_SYNTAX.error(what=what, where=place, why="Triton refuses the model", fix=fix)


def _refuse_tokens(text: str, *, where: str) -> None:
    """Refuse what C++ refuses: characters outside strings and comments, and unknown escapes in strings."""
    for token in _TOKEN.finditer(text):
        character = token["foreign"]
        if character:
            name = unicodedata.name(character, "a control character")
            what = f"{name} (U+{ord(character):04X}) outside a string and a comment"
            fix = "replace it with a space, or remove it; text from web pages often has such blanks"
            if character == "\ufeff":
                fix = "save the file as UTF-8 without a byte order mark"
            elif character.isdigit():
                fix = f"write {unicodedata.digit(character)}"
            raise _refusal_at(token.start(), text, what=what, where=where, fix=fix)
        for escape in _ESCAPE.finditer(token[0] if token[0][0] != "#" else ""):
            if escape[1] not in _KNOWN_ESCAPES:
                what, fix = f"unknown escape {escape[0]}", "use an escape of C, such as \\\\ for a backslash"
                raise _refusal_at(token.start() + escape.start(), text, what=what, where=where, fix=fix)


def read_config(path: Path) -> ModelConfig:
    """Read and parse a config.pbtxt."""
    try:
        return parse_config(decode(path.read_bytes(), where=str(path)), where=str(path))
    except OSError as error:
        what = f"cannot read the model configuration: {error.strerror}"
        fix = f"check the path, and the permissions of {CONFIG_FILE}"
        raise UNREADABLE.error(what=what, where=str(path), fix=fix) from None


def calls_of(config: ModelConfig) -> dict[str, str]:
    """Return the models that a model calls: the name on the server, by declared name."""
    return {
        key.removeprefix(CALLS): value.string_value
        for key, value in sorted(config.parameters.items())
        if key.startswith(CALLS)
    }


def request_of(config: ModelConfig) -> dict[str, str]:
    """Return the type and shape of each input of a request, such as {"X": "FP32 [-1, 4]"}."""
    return {
        tensor.name: _describe(tensor, config) + " (optional)" * tensor.optional for tensor in config.input
    }


def answer_of(config: ModelConfig) -> dict[str, str]:
    """Return the type and shape of each output, such as {"Y": "FP32 [-1, 2]"}."""
    return {tensor.name: _describe(tensor, config) for tensor in config.output}


def _describe(tensor: Any, config: ModelConfig) -> str:
    batch = [-1] if config.max_batch_size else []
    name = schema().DataType.Name(tensor.data_type).removeprefix("TYPE_")
    return f"{name} {[*batch, *tensor.dims]}"


def decode(content: bytes, *, where: str) -> str:
    """Decode the bytes of a config.pbtxt."""
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        what = f"a byte that is not UTF-8: 0x{content[error.start]:02x}"
        why = "names and strings in another encoding would change"
        fix = "save the file as UTF-8"
        raise CONFIG_SYNTAX.error(what=what, where=f"{where}:{line}", why=why, fix=fix) from None


def to_text(message: ModelConfig) -> str:
    """Return the text of a configuration; equal messages give equal texts."""
    from google.protobuf import text_format

    return str(text_format.MessageToString(message))


def write_config(message: ModelConfig, path: Path) -> None:
    """Write a configuration to a file; create its folder if missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(to_text(message), encoding="utf-8", newline="\n")


def _message(
    *, name: str, max_batch_size: int, inputs: Iterable[Tensor], outputs: Iterable[Tensor]
) -> ModelConfig:
    message = schema().ModelConfig(name=name, max_batch_size=max_batch_size)
    for side, tensors in ((message.input, inputs), (message.output, outputs)):
        for tensor in tensors:
            entry = side.add(name=tensor.name, data_type=tensor.full_type, dims=tensor.sizes)
            if tensor.reshape is not None:
                entry.reshape.SetInParent()
                entry.reshape.shape.extend(tensor.reshape)
    return message


def _syntax_problem(error: Any, *, where: str) -> Problem:
    line, column = error.GetLine(), error.GetColumn()
    place = where if line is None else f"{where}:{line}" if column is None else f"{where}:{line}:{column}"
    # The parser's message starts with the line and column, which `where` already contains.
    what = str(error).removeprefix(f"{line}:{column}").lstrip(" :").rstrip(".")
    fix = "fix that line; docs.nvidia.com lists every field under 'Model Configuration'"
    return CONFIG_SYNTAX.problem(what=what, where=place, why="Triton refuses the model", fix=fix)
