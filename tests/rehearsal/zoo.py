"""A zoo: the build of a small model of each kind, trained by its own framework."""

from __future__ import annotations

import json
import pickle
import tarfile
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from triton_models.cli.main import main

ROWS = np.random.default_rng(0).normal(size=(120, 3)).astype(np.float32)

_HEAD = """\
import pickle
from pathlib import Path

from triton_models.builds.export.forests import forest_reference
from triton_models.builds.export.pretrained import load_pretrained
from triton_models.builds.export.reference import network_reference
from triton_models.spec import *

HERE = Path(__file__).parent

def rows(name="X"):
    import numpy as np
    values = np.random.default_rng({seed}).normal(size=(4, 3))
    return [Example(name="rows", inputs={{name: values.astype("f4")}})]

def network():
    import torch
    torch.manual_seed({seed})
    return torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).eval()

"""
_FOREST = """
def estimator():
    return pickle.loads((HERE / "forest.pkl").read_bytes())

BUILD = ModelDefinition(
    name={name!r}, description="a forest", models=[Forest(name={name!r}, max_batch_size=64, {given})],
    examples=lambda: rows("input__0"), reference=forest_reference({of}), output="output__0", tolerance=1e-4,
)
"""
_NETWORK = """
BUILD = ModelDefinition(
    name={name!r}, description="a network",
    models=[PyTorchNetwork(
        name={name!r}, network=network, backend={backend}, outputs=["{y}"],
        {inputs},
    )],
    examples=lambda: rows("{x}"), reference=network_reference(network, outputs=["{y}"]), output="{y}",
    tolerance={tolerance},
)
"""
_TOTALS = """
def parts():
    import numpy as np
    values = np.random.default_rng({seed}).normal(size=(4, 1, 3)).astype("f4")
    return [Example(name="four parts", inputs={{"X": values}}, sequence=True)]

BUILD = ModelDefinition(
    name={name!r}, description="the total of a sequence",
    models=[PythonModel(
        name={name!r}, code="model.py", max_batch_size=1,
        inputs=[Tensor("X", "FP32", [3])], outputs=[Tensor("Y", "FP32", [3])],
        batching=SequenceBatching(controls=[Control(name="START", says="start")], max_idle_us=60_000_000),
    )],
    examples=parts, reference=lambda inputs: {{"Y": inputs["X"].cumsum(axis=0)}}, output="Y", tolerance=1e-5,
)
"""
_TOTALS_CODE = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        x, start = (pb_utils.get_input_tensor_by_name(request, name).as_numpy() for name in ("X", "START"))
        self.total = x if start.any() else self.total + x
        return pb_utils.InferenceResponse([pb_utils.Tensor("Y", self.total)])
"""
_CHECKPOINT = """
def scores():
    import torch
    from transformers import BertForSequenceClassification

    class Scores(torch.nn.Module):
        def __init__(self):
            super().__init__()
            weights = LocalWeights(path=str(HERE / "checkpoint"))
            self.network = load_pretrained(BertForSequenceClassification, weights)

        def forward(self, ids):
            return self.network(ids).logits

    return Scores()

def tokens():
    import numpy as np
    return [Example(name="tokens", inputs={{"ids": np.arange(8)[None].astype(np.int64)}})]

BUILD = ModelDefinition(
    name={name!r}, description="a fine-tuned network",
    models=[PyTorchNetwork(name={name!r}, network=scores, max_batch_size=4, outputs=["scores"])],
    examples=tokens, reference=network_reference(scores, outputs=["scores"]), output="scores", tolerance=1e-4,
)
"""
_PYTHON = """
BUILD = ModelDefinition(
    name={name!r}, description="code",
    models=[
        PythonModel(
            name="{step}", code="model.py", max_batch_size=8,
            inputs=[Tensor("X", "FP32", [3])], outputs=[Tensor("{y}", "FP32", [3])],
        ),
        {more}
    ],
    examples=rows, reference={reference}, output="Y", tolerance=1e-4,
)
"""
_CODE = """\
import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        taken = [pb.get_input_tensor_by_name(each, "X").as_numpy() for each in requests]
        return [pb.InferenceResponse([pb.Tensor("{y}", x * {factor}.0)]) for x in taken]
"""
_CALLER = """
BUILD = ModelDefinition(
    name={name!r}, description="code that calls a network",
    models=[
        PyTorchNetwork(
            name="{name}_network", network=network, max_batch_size=8, instances=Instances(kind="KIND_CPU"),
            inputs=[Tensor("X", "FP32", [3])], outputs=["Y"],
        ),
        PythonModel(
            name="{name}_code", code="model.py", calls=["{name}_network"], max_batch_size=8,
            inputs=[Tensor("X", "FP32", [3])], outputs=[Tensor("Y", "FP32", [2])],
        ),
        Ensemble(name={name!r}, steps=["{name}_code"]),
    ],
    examples=rows, reference=network_reference(network, outputs=["Y"]), output="Y", tolerance=1e-4,
)
"""
_CALLER_CODE = """\
import triton_python_backend_utils as pb
from called_models import CalledModels


class TritonPythonModel:
    def initialize(self, args):
        self.models = CalledModels(args)

    def execute(self, requests):
        return [self.answer(each) for each in requests]

    def answer(self, request):
        taken = pb.get_input_tensor_by_name(request, "X").as_numpy()
        answer = self.models.infer("{name}_network", {{"X": taken}}, outputs=["Y"])
        return pb.InferenceResponse([pb.Tensor("Y", answer["Y"])])

    def finalize(self):
        self.models.unload()
"""
_DIRECTORY = """\
platform: "onnxruntime_onnx"
max_batch_size: 8
input [ { name: "X" data_type: TYPE_FP32 dims: [ 3 ] } ]
output [ { name: "Y" data_type: TYPE_FP32 dims: [ 2 ] } ]
instance_group [ { kind: KIND_GPU } ]
"""

Kind = Callable[[Path, str, int], object]


def write(models: Path, kind: str, name: str, seed: int) -> None:
    """Write the build of a model.

    Args:
        models: The folder of model builds.
        kind: One of KINDS.
        name: The model's name.
        seed: Makes models of a kind differ.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        KINDS[kind](models, name, seed)


def _declare(models: Path, name: str, text: str, *, seed: int) -> Path:
    folder = models / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "build.py").write_text(_HEAD.format(seed=seed) + text)
    return folder


def _of_file(
    models: Path, name: str, seed: int, *, file: str, member: str = "", requires: str = "xgboost-cpu"
) -> Path:
    """Declare a forest in a file next to build.py, with the framework that computes the reference."""
    inside = f", file={member!r}" if member else ""
    weights = f'LocalWeights(path=str(HERE / "{file}"){inside})'
    text = _FOREST.format(name=name, given=f"weights={weights}", of=weights)
    folder = _declare(models, name, text, seed=seed)
    (folder / "requirements.txt").write_text(f"{requires}\n")
    return folder


def _of_xgboost(objective: str, target: Any, **given: Any) -> Any:
    import xgboost

    return xgboost.train({"objective": objective, "nthread": 1, **given}, xgboost.DMatrix(ROWS, target), 3)


def _xgboost_file(models: Path, name: str, seed: int) -> None:
    folder = _of_file(models, name, seed, file="forest.json")
    _of_xgboost("reg:squarederror", ROWS[:, seed % 3]).save_model(folder / "forest.json")


def _xgboost_job(models: Path, name: str, seed: int) -> None:
    folder = _of_file(models, name, seed, file="model.tar.gz", member="xgboost-model")
    path = folder / "xgboost-model.ubj"
    _of_xgboost("binary:logistic", ROWS[:, seed % 3] > 0).save_model(path)
    with tarfile.open(folder / "model.tar.gz", "w:gz") as archive:
        archive.add(path, arcname="xgboost-model")
    path.unlink()


def _lightgbm_file(models: Path, name: str, seed: int) -> None:
    import lightgbm

    folder = _of_file(models, name, seed, file="forest.txt", requires="lightgbm")
    options = {"objective": "binary", "verbose": -1, "num_threads": 1}
    data = lightgbm.Dataset(ROWS, (ROWS[:, seed % 3] > 0).astype(int))
    lightgbm.train(options, data, 3).save_model(folder / "forest.txt")


def _of_sklearn(make: Callable[[Any], Any], *, classes: bool) -> Kind:
    """Return what declares a fitted estimator."""

    def declare(models: Path, name: str, seed: int) -> None:
        text = _FOREST.format(name=name, given="estimator=estimator", of="estimator=estimator")
        target = (ROWS[:, seed % 3] > 0).astype(int) if classes else ROWS[:, seed % 3]
        fitted = make(seed).fit(ROWS, target)
        (_declare(models, name, text, seed=seed) / "forest.pkl").write_bytes(pickle.dumps(fitted))

    return declare


def _sklearn(kind: str, **given: Any) -> Callable[[int], Any]:
    def make(seed: int) -> Any:
        from sklearn import ensemble

        return getattr(ensemble, kind)(random_state=seed, **given)

    return make


def _of_network(backend: str, *, x: str = "X", y: str = "Y", tolerance: float = 1e-4) -> Kind:
    inputs = f'max_batch_size=8, inputs=[Tensor("{x}", "FP32", [3])]'

    def declare(models: Path, name: str, seed: int) -> None:
        text = _NETWORK.format(name=name, backend=backend, x=x, y=y, inputs=inputs, tolerance=tolerance)
        _declare(models, name, text, seed=seed)

    return declare


def _network(seed: int) -> Any:
    import torch

    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(3, 300), torch.nn.ReLU(), torch.nn.Linear(300, 2)).eval()


def _exported(folder: Path, seed: int, *, dynamo: bool) -> Path:
    """Export a network with one of PyTorch's exporters; the newer one writes a side file."""
    import torch

    folder.mkdir(exist_ok=True)
    path = folder / f"{folder.name}-{seed}.onnx"
    shapes: Any = (
        {"dynamic_shapes": ({0: "rows"},)} if dynamo else {"dynamic_axes": {n: {0: "rows"} for n in "XY"}}
    )
    torch.onnx.export(
        _network(seed),
        (torch.ones(2, 3),),
        path,
        input_names=["X"],
        output_names=["Y"],
        dynamo=dynamo,
        verbose=False,
        **shapes,
    )
    return path


def _scripted(folder: Path, seed: int) -> Path:
    from tests.rehearsal.scripted_network import write_scripted

    folder.mkdir(exist_ok=True)
    write_scripted(path := folder / f"scripted-{seed}.onnx")
    return path


def _of_onnx(export: Callable[[Path, int], Path]) -> Kind:
    """Return what declares an ONNX file with `fleet new`."""

    def declare(models: Path, name: str, seed: int) -> None:
        path = export(models.parent / "exported", seed)
        assert main(["new", name, "--onnx", str(path), "--models", str(models), "--json"]) == 0

    return declare


def _minimal(models: Path, name: str, seed: int) -> None:
    assert main(["new", name, "--minimal", "--models", str(models), "--json"]) == 0


def _checkpoint(models: Path, name: str, seed: int) -> None:
    import torch
    import transformers

    folder = _declare(models, name, _CHECKPOINT.format(name=name), seed=seed)
    torch.manual_seed(seed)
    sizes = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8, "vocab_size": 20}
    config = transformers.BertConfig(num_hidden_layers=1, **sizes)
    transformers.BertForSequenceClassification(config).save_pretrained(folder / "checkpoint")


def _python(models: Path, name: str, seed: int) -> None:
    text = _PYTHON.format(
        name=name, step=name, y="Y", more="", reference=f'lambda inputs: {{"Y": inputs["X"] * {seed + 2}}}'
    )
    (_declare(models, name, text, seed=seed) / "model.py").write_text(_CODE.format(y="Y", factor=seed + 2))


def _sequences(models: Path, name: str, seed: int) -> None:
    folder = _declare(models, name, _TOTALS.format(name=name, seed=seed), seed=seed)
    (folder / "model.py").write_text(_TOTALS_CODE)


def _ensemble(models: Path, name: str, seed: int) -> None:
    more = f"""PyTorchNetwork(
            name="{name}_network", network=network, max_batch_size=8, backend=TensorRt(),
            inputs=[Tensor("scaled", "FP32", [3])], outputs=["Y"],
        ),
        Ensemble(name="{name}", steps=["{name}_code", "{name}_network"]),"""
    reference = f'lambda inputs: network_reference(network, outputs=["Y"])({{"X": inputs["X"] * {seed + 2}}})'
    text = _PYTHON.format(name=name, step=f"{name}_code", y="scaled", more=more, reference=reference)
    folder = _declare(models, name, text, seed=seed)
    (folder / "model.py").write_text(_CODE.format(y="scaled", factor=seed + 2))


def _caller(models: Path, name: str, seed: int) -> None:
    folder = _declare(models, name, _CALLER.format(name=name), seed=seed)
    (folder / "model.py").write_text(_CALLER_CODE.format(name=name))


def _adopted(models: Path, name: str, seed: int) -> None:
    import torch

    source = models.parent / "directories" / name
    (source / "1").mkdir(parents=True)
    (source / "config.pbtxt").write_text(_DIRECTORY)
    path = _exported(models.parent / "older", seed, dynamo=False)
    (source / "1" / "model.onnx").write_bytes(path.read_bytes())
    with torch.inference_mode():
        answer = _network(seed)(torch.from_numpy(ROWS[:1])).numpy()
    record = {
        part: [{"name": tensor, "datatype": "FP32", "shape": list(values.shape), "data": values.tolist()}]
        for part, tensor, values in (("inputs", "X", ROWS[:1]), ("outputs", "Y", answer))
    }
    requests = source.with_suffix(".jsonl")
    requests.write_text(json.dumps(record))
    adopt = ["adopt", str(source), "--requests", str(requests), "--models", str(models), "--json"]
    assert main(adopt) == 0


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "xgboost_file": _xgboost_file,
        "xgboost_job": _xgboost_job,
        "lightgbm_file": _lightgbm_file,
        "random_forest": _of_sklearn(_sklearn("RandomForestClassifier", n_estimators=5), classes=True),
        "extra_trees": _of_sklearn(_sklearn("ExtraTreesRegressor", n_estimators=5), classes=False),
        "gradient_boosting": _of_sklearn(
            _sklearn("GradientBoostingClassifier", n_estimators=5), classes=True
        ),
        "isolation_forest": _of_sklearn(_sklearn("IsolationForest", n_estimators=5), classes=False),
        "torch_onnx": _of_network("OnnxRuntime()"),
        "torch_plan": _of_network("TensorRt()"),
        "torch_script": _of_network("LibTorch()", x="X__0", y="Y__0"),
        "torch_minimal": _minimal,
        "onnx_with_side_file": _of_onnx(lambda folder, seed: _exported(folder, seed, dynamo=True)),
        "onnx_of_older_exporter": _of_onnx(
            lambda folder, seed: _exported(folder.with_name("older"), seed, dynamo=False)
        ),
        "onnx_script": _of_onnx(_scripted),
        "checkpoint": _checkpoint,
        "python": _python,
        "sequences": _sequences,
        "ensemble": _ensemble,
        "caller": _caller,
        "adopted": _adopted,
    }
)
"""What declares a model of a kind: by the folder of model builds, the model's name and a seed."""
