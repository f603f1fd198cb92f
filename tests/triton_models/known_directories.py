"""Model directories whose right answer is known from the sources of the backends, not from this project.

Each row of known_directories.yaml was decided by reading the function that it names, of the backend at r25.09
(read 2026-11-28), before the checks were run on it. The rows below were loaded by the bundled server, whose
core and Python backend are real.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

TABLE = Path(__file__).with_suffix(".yaml")

Content = Callable[[Path], None] | str | bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Directory:
    """A model directory.

    Attributes:
        loads: Whether the real server of release 25.09 loads it, and then answers requests.
        source: What decides that.
        files: The files of the version folder.
        neighbors: The files next to config.pbtxt.
        completes: The backend fills in what is missing, which no stand-in does.
    """

    name: str
    loads: bool
    source: str
    config: str
    files: Mapping[str, Content]
    neighbors: Mapping[str, Content] = field(default_factory=dict)
    completes: bool = False

    def write(self, folder: Path) -> Path:
        """Write the directory below a folder and return its path."""
        model = folder / "model"
        (model / "1").mkdir(parents=True)
        (model / "config.pbtxt").write_bytes(self.config.encode())
        for place, files in ((model / "1", self.files), (model, self.neighbors)):
            for name, content in files.items():
                path = place / name
                path.parent.mkdir(parents=True, exist_ok=True)
                if callable(content):
                    content(path)
                else:
                    path.write_bytes(content.encode() if isinstance(content, str) else content)
        return model


def known_directories() -> list[Directory]:
    """Return all of them; their names differ within a backend."""
    table = yaml.safe_load(TABLE.read_text())
    return [
        *(_of_onnx(row, table["graphs"]) for row in table["onnxruntime"]),
        *_with_side_files(table["graphs"]),
        *(_of_torch(row, table["scripts"]) for row in table["pytorch"]),
        _state_dict(),
        *(_forest(row) for row in table["fil"]),
        *_of_python(),
        *_of_code(),
        *_in_folders(table["graphs"]["rows"], table["scripts"]["one"]),
    ]


def _config(platform: str, batch: int, inputs: Sequence[str], outputs: Sequence[str], more: str = "") -> str:
    """Return a configuration. A tensor is "X FP32 [4] optional: true": name, type, dims and the rest."""
    text = (
        f'name: "model"\n{platform}\nmax_batch_size: {batch}\ninstance_group {{ count: 1 kind: KIND_CPU }}\n'
    )
    for side, tensors in (("input", inputs), ("output", outputs)):
        for tensor in tensors:
            name, data_type, rest = tensor.split(" ", 2)
            dims, _, options = rest.partition("]")
            text += f'{side} {{ name: "{name}" data_type: TYPE_{data_type} dims: {dims}] {options} }}\n'
    return f"{text}{more}\n"


def _write_onnx(graph: str, path: Path) -> None:
    import onnx

    network = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {graph}')
    path.write_bytes(network.SerializeToString())


def _of_onnx(row: Mapping[str, Any], graphs: Mapping[str, str]) -> Directory:
    return Directory(
        name=row["name"],
        loads=row["loads"],
        source=f"onnxruntime_backend, {row['source']}",
        config=_config(
            'backend: "onnxruntime"', row["batch"], row["inputs"], row["outputs"], row.get("more", "")
        ),
        files={"model.onnx": functools.partial(_write_onnx, graphs.get(row["network"], row["network"]))},
        completes=row.get("completes", False),
    )


def _with_side_files(graphs: Mapping[str, str]) -> Iterator[Directory]:
    """Yield networks with weights in another file; ONNX Runtime 1.23.2, of the release, loaded them."""
    for name, location, offset, size, loads in (
        ("weights neighbors the file", "weights.bin", 0, 16, True),
        ("no weights neighbors the file", "weights.bin", 0, 0, False),
        ("weights that are cut off", "weights.bin", 0, 8, False),
        ("weights that begin too late", "weights.bin", 8, 16, False),
        ("weights in the folder above", "../weights.bin", 0, 16, True),
    ):
        content = struct.pack("<4f", 1, 2, 3, 4)[:size]
        network = functools.partial(
            _write_with_side_file, graphs["initializer"].replace(", float[4] W)", ")"), location, offset
        )
        yield Directory(
            name=name,
            loads=loads,
            source="ONNX Runtime 1.23.2, tried",
            config=_config('backend: "onnxruntime"', 8, ["X FP32 [4]"], ["Y FP32 [4]"]),
            files={"model.onnx": network, **({location: content} if size else {})},
        )


def _write_with_side_file(graph: str, location: str, offset: int, path: Path) -> None:
    import onnx

    _write_onnx(graph, path)
    network = onnx.load(str(path))
    (weight,) = network.graph.initializer
    weight.ClearField("float_data")
    weight.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", str(offset)), ("length", "16")):
        weight.external_data.add(key=key, value=value)
    path.write_bytes(network.SerializeToString())


def _write_script(source: str, path: Path) -> None:
    import torch

    class Network(torch.nn.Module):  # a new one for each script
        pass

    network = torch.jit.script(Network())
    network.define(source)
    torch.jit.save(network, path)


_LIBTORCH = 'platform: "pytorch_libtorch"'


def _of_torch(row: Mapping[str, Any], scripts: Mapping[str, str]) -> Directory:
    return Directory(
        name=row["name"],
        loads=row["loads"],
        source=f"pytorch_backend, {row['source']}",
        config=_config(_LIBTORCH, row["batch"], row["inputs"], row["outputs"]),
        files={"model.pt": functools.partial(_write_script, scripts[row["network"]])},
    )


def _state_dict() -> Directory:
    def write(path: Path) -> None:
        import torch

        torch.save({"weight": torch.ones(2, 2)}, path)

    return Directory(
        name="a state_dict",
        loads=False,
        source="torch::jit::load: locating file constants.pkl",
        config=_config(_LIBTORCH, 8, ["INPUT__0 FP32 [4]"], ["OUTPUT__0 FP32 [4]"]),
        files={"model.pt": write},
    )


def _write_forest(objective: str, classes: int, path: Path) -> None:
    """Write a forest of five features."""
    import numpy as np
    import treelite
    import xgboost

    random = np.random.default_rng(0)
    rows = random.standard_normal((60, 5), dtype=np.float32)
    labels = random.integers(0, classes, 60) if classes else rows.sum(axis=1)
    options = {"objective": objective, "max_depth": 2, **({"num_class": classes} if classes > 2 else {})}
    booster = xgboost.train(options, xgboost.DMatrix(rows, label=labels), num_boost_round=2)
    treelite.frontend.from_xgboost(booster).serialize(path)


def _parameters(**values: str) -> str:
    rows = (
        f'parameters {{ key: "{key}" value: {{ string_value: "{value}" }} }}\n'
        for key, value in values.items()
    )
    return "".join(rows)


def _forest(row: Mapping[str, Any]) -> Directory:
    parameters = _parameters(
        model_type=row.get("kind", "treelite_checkpoint"),
        predict_proba=str(row.get("proba", False)).lower(),
        is_classifier=str(row["classes"] > 0).lower(),
        threshold="0.5",
    )
    tensors = [f"input__0 {row['inputs']}"], [f"output__0 {row['outputs']}"]
    return Directory(
        name=row["name"],
        loads=row["loads"],
        source=f"fil_backend, {row['source']}",
        config=_config('backend: "fil"', 8, *tensors, parameters),
        files={"checkpoint.tl": functools.partial(_write_forest, row["objective"], row["classes"])},
    )


_PYTHON = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        rows = [pb_utils.get_input_tensor_by_name(request, "X").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", row)]) for row in rows]
"""
# White space in Python, and not in the language of config.pbtxt.
_SPACES = {
    "a no-break space": "\u00a0",
    "an ideographic space": "\u3000",
    "a narrow no-break space": "\u202f",
    "a line separator": "\u2028",
    "a next line": "\u0085",
}


def _python(
    name: str,
    *,
    loads: bool,
    tensor: str = "FP32 [ -1 ]",
    more: str = "",
    neighbors: Mapping[str, Content] | None = None,
) -> Directory:
    return Directory(
        name=name,
        loads=loads,
        source="the bundled server, tried",
        config=_config('backend: "python"', 0, [f"X {tensor}"], [f"Y {tensor}"], more),
        files={"model.py": _PYTHON},
        neighbors=neighbors or {},
    )


def _warmed(name: str, content: bytes, *, loads: bool, data_type: str = "STRING", size: int = 1) -> Directory:
    data = f'data_type: TYPE_{data_type} dims: [ {size} ] input_data_file: "x"'
    sample = f'model_warmup {{ name: "w" batch_size: 1 inputs {{ key: "X" value {{ {data} }} }} }}'
    return _python(
        name, loads=loads, tensor=f"{data_type} [ -1 ]", more=sample, neighbors={"warmup/x": content}
    )


def _of_python() -> Iterator[Directory]:
    yield _python("a Python model", loads=True)
    environment = _parameters(EXECUTION_ENV_PATH="env.tar.gz")
    yield _python(
        "an environment by its name alone", loads=False, more=environment, neighbors={"env.tar.gz": b""}
    )
    for value, loads in (("no", True), ("yes", True), ("True", False)):
        tensors = _parameters(FORCE_CPU_ONLY_INPUT_TENSORS=value)
        yield _python(f"tensors of the CPU alone: {value}", loads=loads, more=tensors)
    text = struct.pack("<I", 3) + b"abc"
    yield _warmed("a warm-up string", text, loads=True)
    yield _warmed("two warm-up strings for one", text + text, loads=False)
    yield _warmed("warm-up text without lengths", b"plain text", loads=False)
    yield _warmed("a warm-up string that is cut off", text[:-1], loads=False)
    yield _warmed("one warm-up string for two", text, loads=False, size=2)
    yield _warmed("warm-up numbers", b"\0" * 8, loads=True, data_type="FP32", size=2)
    yield _warmed("a warm-up number too few", b"\0" * 4, loads=False, data_type="FP32", size=2)
    plain = _python("a no-break space in a comment", loads=True, more="# a\u00a0b")
    yield plain
    for name, space in {**_SPACES, "a tabulator": "\t"}.items():
        config = plain.config.replace("max_batch_size: ", f"max_batch_size:{space}")
        yield Directory(
            name=f"{name} before a value",
            loads=space == "\t",
            source=plain.source,
            config=config,
            files=plain.files,
        )


def _of_code() -> Iterator[Directory]:
    """Yield Python models that the bundled server loaded, or refused."""
    plain = _python("code", loads=True)
    for name, loads, old, new in (
        ("a class without a colon", False, "PythonModel:", "PythonModel"),
        ("a class of another name", False, "TritonPythonModel", "Model"),
        ("a class inside a function", False, "class", "def f():\n  class"),
        ("a return outside a function", False, "class", "return\nclass"),
        ("an initialize without the argument", False, "    def", "    def initialize(self): pass\n    def"),
        ("a constructor with an argument", False, "    def", "    def __init__(self, path): pass\n    def"),
        ("a constructor with a default", True, "    def", "    def __init__(self, path=''): pass\n    def"),
        ("a static initialize", True, "    def", "    initialize = staticmethod(print)\n    def"),
        (
            "a class with an own base",
            True,
            "TritonPythonModel:",
            "Model: pass\nclass TritonPythonModel(Model):",
        ),
    ):
        code = _PYTHON.replace(old, new)
        if "inside" in name:
            code = code.replace("    ", "      ")
        yield Directory(
            name=name, loads=loads, source=plain.source, config=plain.config, files={"model.py": code}
        )
    for name, code in (
        ("no execute", _PYTHON.replace("execute", "run")),
        ("an execute without the requests", _PYTHON.replace("(self, requests)", "(self)")),
    ):
        source = "ProcessRequests of python_backend: every request fails"
        yield Directory(name=name, loads=False, source=source, config=plain.config, files={"model.py": code})
    base = {"model.py": "from base import TritonPythonModel\n", "base.py": _PYTHON}
    yield Directory(
        name="a class that is imported", loads=True, source=plain.source, config=plain.config, files=base
    )


def _in_folders(graph: str, script: str) -> Iterator[Directory]:
    """Yield models whose file is a folder."""
    network = functools.partial(_write_onnx, graph)
    forest = functools.partial(_write_forest, "reg:squarederror", 0)
    of_onnx = _config('backend: "onnxruntime"', 8, ["X FP32 [4]"], ["Y FP32 [4]"])
    of_torch = _config(_LIBTORCH, 8, ["INPUT__0 FP32 [4]"], ["OUTPUT__0 FP32 [4]"])
    parameters = _parameters(
        model_type="treelite_checkpoint", predict_proba="false", is_classifier="false", threshold="0.5"
    )
    of_forest = _config('backend: "fil"', 8, ["input__0 FP32 [5]"], ["output__0 FP32 [1]"], parameters)
    named = 'default_model_filename: "net"\n'
    onnx, fil = "LoadModel of onnxruntime_backend", "model_file of fil_backend"
    rows: list[tuple[str, bool, str, str, Mapping[str, Content]]] = [
        ("an empty folder model.onnx", False, onnx, of_onnx, {"model.onnx/.keep": b""}),
        ("a folder model.onnx with it", True, onnx, of_onnx, {"model.onnx/model.onnx": network}),
        ("a folder model.onnx with another", False, onnx, of_onnx, {"model.onnx/net.onnx": network}),
        ("a folder with model.onnx", True, onnx, of_onnx + named, {"net/model.onnx": network}),
        ("a folder with net.onnx", False, onnx, of_onnx + named, {"net/net.onnx": network}),
        ("a folder with checkpoint.tl", True, fil, of_forest + named, {"net/checkpoint.tl": forest}),
        ("a folder with net.tl", False, fil, of_forest + named, {"net/net.tl": forest}),
        (
            "a folder model.pt",
            False,
            "torch::jit::load",
            of_torch,
            {"model.pt/model.pt": functools.partial(_write_script, script)},
        ),
        (
            "a folder model.py",
            False,
            "the bundled server, tried",
            _python("x", loads=False).config,
            {"model.py/model.py": _PYTHON},
        ),
    ]
    for name, loads, source, config, files in rows:
        yield Directory(name=name, loads=loads, source=source, config=config, files=files)
