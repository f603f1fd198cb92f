"""Metadata of network files: what they take and return, and what they run on.

Each file is read without the framework that wrote it, and without its weights.
"""

from __future__ import annotations

import ast
import contextlib
import math
import pickletools
import struct
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import IO

from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.protobuf import Content, Message
from triton_models.declare.tensors import ELEMENT_BYTES

NETWORK_FILE = Check(id="network-file", source=FROM_ARGUMENTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkTensor:
    """An input or output of a network.

    The type is as spelled in config.pbtxt, such as "TYPE_FP32", otherwise as in the network, such as
    "FLOAT8E4M3FN" or "sequence". Open dimensions are names or None; all are None if their number is unknown.
    """

    name: str
    data_type: str
    dims: Sequence[int | str | None] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """Inputs and outputs of a network, in order."""

    inputs: Sequence[NetworkTensor]
    outputs: Sequence[NetworkTensor]


# ONNX: a protobuf message, ModelProto of onnx.proto (onnx 1.23, read 2026-11-22)

# Numbers of fields: of ModelProto, OperatorSetIdProto, GraphProto, TensorProto, SparseTensorProto,
# ValueInfoProto, TypeProto and its Tensor, TensorShapeProto and its Dimension.
_IR_VERSION, _GRAPH, _OPSET = 1, 7, 8
_DOMAIN, _VERSION = 1, 2
_NODE, _INITIALIZER, _INPUT, _OUTPUT, _SPARSE_INITIALIZER = _GRAPH_PARTS = 1, 5, 11, 12, 15
_TENSOR_DIMS, _TENSOR_ELEMENT, _TENSOR_NAME, _EXTERNAL_DATA, _LOCATION = 1, 2, 8, 13, 14
_KEY, _VALUE = 1, 2
_SPARSE_VALUES = 1
_OPERATOR, _ATTRIBUTE, _ATTRIBUTE_NAME, _INTEGER, _STRING, _STRINGS = 4, 5, 1, 3, 4, 9
_DEFAULT_LOCALE = "en_US.UTF-8"  # of onnxruntime/core/providers/cpu/nn/string_normalizer.cc, read 2026-11-28
_VALUE_NAME, _VALUE_TYPE = 1, 2
_TENSOR_TYPE, _ELEMENT, _SHAPE, _DIMENSION, _SIZE, _SIZE_NAME = 1, 1, 2, 1, 1, 2
_KINDS = {4: "sequence", 5: "map", 8: "sparse_tensor", 9: "optional"}
_DOMAINS, _ML_DOMAIN = frozenset({b"", b"ai.onnx"}), b"ai.onnx.ml"

# ONNX Runtime lets requests override initializers that are inputs as well, from this IR version on.
_OVERRIDABLE_SINCE = 4

# TensorProto.DataType by number, as Triton spells it if it supports the type. Source:
# ConvertOnnxTypeToConfigDataType of onnxruntime_backend (main of 2026-06-29), read on 2026-11-21.
_ELEMENTS = dict(
    enumerate(
        (
            *("TYPE_FP32", "TYPE_UINT8", "TYPE_INT8", "TYPE_UINT16", "TYPE_INT16", "TYPE_INT32"),
            *("TYPE_INT64", "TYPE_STRING", "TYPE_BOOL", "TYPE_FP16", "TYPE_FP64", "TYPE_UINT32"),
            *("TYPE_UINT64", "COMPLEX64", "COMPLEX128", "TYPE_BF16", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ"),
            *("FLOAT8E5M2", "FLOAT8E5M2FNUZ", "UINT4", "INT4", "FLOAT4E2M1", "FLOAT8E8M0", "UINT2", "INT2"),
        ),
        start=1,
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SideData:
    """A weight in another file: the file as the weight names it, and the bytes in it.

    Attributes:
        stated: The length that the weight states; None if it states none.
        size: The bytes of its elements; None for types of another size than whole bytes.
    """

    weight: str
    location: str
    offset: int
    stated: int | None
    size: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxHead:
    """An ONNX file without its operators and weights.

    Attributes:
        opset: The version of ONNX's own operators; 0 if it uses none.
        ml_opset: The same of those in ai.onnx.ml.
        signature: Its inputs and outputs, without weights that old files list as inputs.
        initializers: Its inputs with a value in the file, which a request may override.
        locales: The locales that its operators on text take from the system.
    """

    ir_version: int
    opset: int
    signature: Signature
    initializers: tuple[NetworkTensor, ...]
    side_data: tuple[SideData, ...] = ()
    locales: frozenset[str] = frozenset()
    ml_opset: int = 0

    @property
    def side_files(self) -> tuple[str, ...]:
        """The files with the rest of its weights, relative to its folder."""
        return tuple(sorted({data.location for data in self.side_data}))


def read_onnx_file(path: Path) -> OnnxHead | None:
    """Read the metadata of a file on disk; return None if it is not an ONNX file.

    Raises:
        OSError: The file cannot be read.
    """
    if not path.stat().st_size:
        return None
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content:
        return read_onnx_head(content)


def read_onnx_head(content: Content) -> OnnxHead | None:
    """Read the metadata of a file; return None if it is not an ONNX file."""
    try:
        return _onnx_head(Message.of(content))
    except ValueError:
        return None


def onnx_signature(path: Path) -> Signature:
    """Return the inputs and outputs of an ONNX file."""
    head, why = None, "it is not an ONNX file, or has no outputs"
    try:
        head = read_onnx_file(path)
    except OSError as error:
        why = str(error)
    if head is None:
        fix = "export it again, with torch.onnx.export or another exporter"
        raise NETWORK_FILE.error(what=f"cannot read {path.name} as ONNX: {why}", where=str(path), fix=fix)
    return head.signature


def side_files(path: Path) -> tuple[str, ...]:
    """Return the files with the rest of an ONNX file's weights; none for any other file.

    PyTorch's exporter writes `fraud.onnx.data` next to `fraud.onnx`.

    Raises:
        OSError: The file cannot be read.
    """
    if path.suffix != ".onnx" or not path.is_file():
        return ()
    head = read_onnx_file(path)
    return head.side_files if head else ()


def _onnx_head(model: Message) -> OnnxHead | None:
    opsets = {opset.text(_DOMAIN): opset.number(_VERSION) for opset in model.parts(_OPSET)}
    parts: dict[int, list[Message]] = {}
    for graph in model.parts(_GRAPH):
        for number, _, part, _ in graph.fields():
            if part is not None and number in _GRAPH_PARTS:
                parts.setdefault(number, []).append(part)
    weights = parts.get(_INITIALIZER, [])
    for sparse in parts.get(_SPARSE_INITIALIZER, ()):
        weights += sparse.parts(_SPARSE_VALUES)
    names = {weight.text(_TENSOR_NAME).decode() for weight in weights}
    inputs, outputs = ([_onnx_tensor(part) for part in parts.get(side, ())] for side in (_INPUT, _OUTPUT))
    ir_version = model.number(_IR_VERSION)
    if not (ir_version and outputs):
        return None
    overridable = [tensor for tensor in inputs if tensor.name in names and ir_version >= _OVERRIDABLE_SINCE]
    return OnnxHead(
        ir_version=ir_version,
        opset=max(opsets.get(domain, 0) for domain in _DOMAINS),
        ml_opset=opsets.get(_ML_DOMAIN, 0),
        signature=Signature(inputs=[value for value in inputs if value.name not in names], outputs=outputs),
        initializers=tuple(overridable),
        side_data=tuple(entry for weight in weights for entry in _side_data(weight)),
        locales=frozenset(locale for node in parts.get(_NODE, ()) for locale in _locales(node)),
    )


def _locales(node: Message) -> Iterator[str]:
    """Yield the locale of a StringNormalizer, unless it copies its input."""
    if node.text(_OPERATOR) != b"StringNormalizer":
        return
    attributes = {entry.text(_ATTRIBUTE_NAME): entry for entry in node.parts(_ATTRIBUTE)}
    sensitive, action, words, locale = map(
        attributes.get, (b"is_case_sensitive", b"case_change_action", b"stopwords", b"locale")
    )
    changes = action is not None and action.text(_STRING) != b"NONE"
    if (
        changes
        or sensitive is None
        or not sensitive.number(_INTEGER)
        or (words and any(words.parts(_STRINGS)))
    ):
        yield _DEFAULT_LOCALE if locale is None else locale.text(_STRING).decode(errors="replace")


def _side_data(weight: Message) -> Iterator[SideData]:
    """Yield where a weight's values are, if that is another file."""
    entries = {entry.text(_KEY): entry.text(_VALUE).decode() for entry in weight.parts(_EXTERNAL_DATA)}
    if b"location" not in entries or not weight.number(_LOCATION):
        return
    element = ELEMENT_BYTES.get(_ELEMENTS.get(weight.number(_TENSOR_ELEMENT), ""))
    yield SideData(
        weight=weight.text(_TENSOR_NAME).decode(),
        location=entries[b"location"],
        offset=int(entries.get(b"offset") or 0),
        stated=int(entries[b"length"]) if entries.get(b"length") else None,
        size=math.prod(weight.numbers(_TENSOR_DIMS)) * element if element else None,
    )


def _onnx_tensor(value: Message) -> NetworkTensor:
    name, data_type = value.text(_VALUE_NAME).decode(), "unknown"
    for kind in value.parts(_VALUE_TYPE):
        for tensor in kind.parts(_TENSOR_TYPE):
            shapes = [[*map(_onnx_size, shape.parts(_DIMENSION))] for shape in tensor.parts(_SHAPE)]
            data_type = _ELEMENTS.get(tensor.number(_ELEMENT), data_type)
            return NetworkTensor(name=name, data_type=data_type, dims=shapes[-1] if shapes else None)
        data_type = next((_KINDS[part.number] for part in kind.fields() if part.number in _KINDS), data_type)
    return NetworkTensor(name=name, data_type=data_type, dims=None)


def _onnx_size(dimension: Message) -> int | str | None:
    for number, value, message, _ in dimension.fields():
        if number == _SIZE and message is None:
            return value if value < 1 << 63 else None  # a negative number
    return dimension.text(_SIZE_NAME).decode() or None


# TorchScript: a zip archive with the source of its forward()

_BEGINNING = 1 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """The signature of a forward(): its arguments with their types, in order, and the type that it returns.

    Types are as in the file, such as "Tensor" and "Optional[Tensor]".
    """

    arguments: tuple[tuple[str, str], ...]
    returns: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptCode:
    """The code of a TorchScript file, as far as it can be read.

    Attributes:
        network: The class of the network itself, such as "__torch__.Net"; empty if it is not known.
        modules: The syntax trees of the code, by the names of their modules.
    """

    network: str = ""
    modules: Mapping[str, ast.Module] = field(default_factory=dict)

    @property
    def classes(self) -> dict[str, ast.ClassDef]:
        """The classes by their names, such as "__torch__.Net"."""
        return {
            f"{module}.{node.name}": node
            for module, tree in self.modules.items()
            for node in tree.body
            if isinstance(node, ast.ClassDef)
        }

    @property
    def forward(self) -> Forward | None:
        """What the network takes and returns; None if it cannot be read."""
        network = self.classes.get(self.network)
        for method in () if network is None else network.body:
            if isinstance(method, ast.FunctionDef) and method.name == "forward":
                arguments = (*method.args.args[1:], *method.args.kwonlyargs)
                types = tuple((argument.arg, _type(argument.annotation)) for argument in arguments)
                return Forward(arguments=types, returns=_type(method.returns))
        return None

    @property
    def operators(self) -> list[str]:
        """The operators, other than aten's, that the code calls, such as "torchvision::nms"."""
        names = set()
        for node in (node for tree in self.modules.values() for node in ast.walk(tree)):
            match node:
                case ast.Call(ast.Attribute(ast.Attribute(ast.Name("ops"), namespace), operator)):
                    names.add(f"{namespace}::{operator}")
        return sorted(names)


def read_script(file: Path | IO[bytes]) -> ScriptCode:
    """Return the code of a TorchScript file."""
    network, modules = "", dict[str, ast.Module]()
    with contextlib.suppress(OSError, zipfile.BadZipFile, IndexError), zipfile.ZipFile(file) as archive:
        top = archive.namelist()[0].partition("/")[0]
        with contextlib.suppress(KeyError, ValueError, StopIteration):
            # The first class in the pickle is that of the network itself.
            opcodes = pickletools.genops(archive.read(f"{top}/data.pkl"))
            network = next(str(value) for opcode, value, _ in opcodes if opcode.name == "GLOBAL")
        start = f"{top}/code/"
        for path in archive.namelist():
            if path.startswith(start) and path.endswith(".py"):
                with contextlib.suppress(ValueError, SyntaxError):
                    module = path.removeprefix(start).removesuffix(".py").replace("/", ".")
                    modules[module] = ast.parse(archive.read(path))
    return ScriptCode(network=network.replace(" ", "."), modules=modules)


def unscripted(file: Path | IO[bytes]) -> str:
    """Return what a file has instead of TorchScript, such as "torch.save()"; "" if that is not clear.

    PyTorch reads whole zip archives alone: PyTorchStreamReader in caffe2/serialize/inline_container.cc (2.13,
    read 2026-11-28).
    """
    try:
        with zipfile.ZipFile(file) as archive:
            parts = {name.partition("/")[2].partition("/")[0] for name in archive.namelist()}
    except zipfile.BadZipFile:
        with file.open("rb") if isinstance(file, Path) else contextlib.nullcontext(file) as content:
            content.seek(0)
            beginning = content.read(_BEGINNING)
    except (OSError, ValueError):
        return ""
    else:
        if parts & {"constants.pkl", "code"}:
            return ""
        exported = parts & {"archive_format", "serialized_exported_program.json"}
        other = "torch.export.save()" if exported else "another archive"
        return "torch.save()" if "data.pkl" in parts else other
    if beginning[8:9] == b"{" and beginning[9:].lstrip()[:1] in (b'"', b"}"):
        return "safetensors"
    if not beginning:
        return "0 bytes"
    return next((name for start, name in _BEGINNINGS.items() if beginning.startswith(start)), _OTHERWISE)


_BEGINNINGS = {b"\x80": "an old torch.save()", b"PK": "a cut archive", b"\x89HDF": "HDF5"}
_OTHERWISE = "something else than a zip archive"


def _type(annotation: ast.expr | None) -> str:
    return "Tensor" if annotation is None else ast.unparse(annotation)


# TensorRT's plans

HEADER_BYTES = 28
"""The bytes at the beginning of a plan that contain the version of TensorRT that compiled it.

The layout is what TensorRT's own `trtexec --getPlanVersionOnly` reads (samples/common/sampleEngines.cpp of
NVIDIA/TensorRT, read 2026-11-21): a 32-bit tag, a 32-bit version of the layout that must be 0, 16 bytes that
do not matter here, and four bytes: major, minor, patch and build. Everything is little-endian.
"""

_PLAN_TAG = 0x74727466
_PLAN_LAYOUT = 0
_PLAN_VERSION = slice(24, 28)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanHeader:
    """The header of a plan, readable without loading the plan; its TensorRT version has four numbers."""

    tensorrt: str

    def loads_in(self, tensorrt: str) -> bool:
        """Return True if that version of TensorRT loads the plan, comparing the numbers that both state."""
        numbers = zip(self.tensorrt.split("."), tensorrt.split("."), strict=False)
        return all(own == other for own, other in numbers)


def plan_beginning(tensorrt: str) -> bytes:
    """Return the first bytes of a plan of that version of TensorRT; missing numbers are 0."""
    numbers = [int(number) for number in tensorrt.split(".")]
    return struct.pack("<II16x4B", _PLAN_TAG, _PLAN_LAYOUT, *numbers, *[0] * (4 - len(numbers)))


def read_plan_header(beginning: bytes) -> PlanHeader | None:
    """Read the header in the first 28 bytes of a file, or more; return None if the file is not a plan."""
    if len(beginning) < HEADER_BYTES:
        return None
    tag, layout = struct.unpack_from("<II", beginning)
    if (tag, layout) != (_PLAN_TAG, _PLAN_LAYOUT):
        return None
    return PlanHeader(tensorrt=".".join(str(number) for number in beginning[_PLAN_VERSION]))
