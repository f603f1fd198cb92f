"""A zoo: the build of a small model of each kind, trained by its own framework."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np

from triton_models.cli.main import main

ROWS = np.random.default_rng(0).normal(size=(120, 3)).astype(np.float32)

_HEAD = """\
import pickle
from pathlib import Path

from triton_models.builds.export.forests import forest_reference
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

Kind = Callable[[Path, str, int], object]


def write(models: Path, kind: str, name: str, seed: int) -> None:
    """Write the build of a model of a kind. Models with other seeds differ."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        KINDS[kind](models, name, seed)


def _declare(models: Path, name: str, text: str, *, seed: int) -> Path:
    folder = models / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "build.py").write_text(_HEAD.format(seed=seed) + text)
    return folder


def _xgboost_file(models: Path, name: str, seed: int) -> None:
    import xgboost

    weights = 'LocalWeights(path=str(HERE / "forest.json"))'
    text = _FOREST.format(name=name, given=f"weights={weights}", of=weights)
    folder = _declare(models, name, text, seed=seed)
    (folder / "requirements.txt").write_text("xgboost-cpu\n")
    data = xgboost.DMatrix(ROWS, ROWS[:, seed % 3])
    trained = xgboost.train({"objective": "reg:squarederror", "nthread": 1}, data, 3)
    trained.save_model(folder / "forest.json")


def _random_forest(models: Path, name: str, seed: int) -> None:
    from sklearn.ensemble import RandomForestClassifier

    text = _FOREST.format(name=name, given="estimator=estimator", of="estimator=estimator")
    fitted = RandomForestClassifier(5, random_state=seed).fit(ROWS, (ROWS[:, seed % 3] > 0).astype(int))
    (_declare(models, name, text, seed=seed) / "forest.pkl").write_bytes(pickle.dumps(fitted))


def _of_network(backend: str, *, x: str = "X", y: str = "Y", tolerance: float = 1e-4) -> Kind:
    batches = f'max_batch_size=8, inputs=[Tensor("{x}", "FP32", [3])]'
    rows = f'max_batch_size=0, inputs=[Tensor("{x}", "FP32", [DynamicDim(name="rows", max=8), 3])]'

    def declare(models: Path, name: str, seed: int) -> None:
        inputs = rows if backend == "OpenVino()" else batches
        text = _NETWORK.format(name=name, backend=backend, x=x, y=y, inputs=inputs, tolerance=tolerance)
        _declare(models, name, text, seed=seed)

    return declare


def _onnx_with_side_file(models: Path, name: str, seed: int) -> None:
    import torch

    torch.manual_seed(seed)
    network = torch.nn.Sequential(torch.nn.Linear(3, 300), torch.nn.ReLU(), torch.nn.Linear(300, 2)).eval()
    folder = models.parent / "exported"
    folder.mkdir(exist_ok=True)
    torch.onnx.export(
        network,
        (torch.ones(2, 3),),
        path := folder / f"{name}.onnx",
        input_names=["X"],
        output_names=["Y"],
        dynamo=True,
        verbose=False,
        dynamic_shapes=({0: "rows"},),
    )
    assert main(["new", name, "--onnx", str(path), "--models", str(models), "--json"]) == 0


def _minimal(models: Path, name: str, seed: int) -> None:
    assert main(["new", name, "--minimal", "--models", str(models), "--json"]) == 0


def _python(models: Path, name: str, seed: int) -> None:
    text = _PYTHON.format(
        name=name, step=name, y="Y", more="", reference=f'lambda inputs: {{"Y": inputs["X"] * {seed + 2}}}'
    )
    (_declare(models, name, text, seed=seed) / "model.py").write_text(_CODE.format(y="Y", factor=seed + 2))


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


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "xgboost_file": _xgboost_file,
        "random_forest": _random_forest,
        "torch_onnx": _of_network("OnnxRuntime()"),
        "torch_plan": _of_network("TensorRt()"),
        "torch_openvino": _of_network("OpenVino()", tolerance=2e-2),
        "torch_script": _of_network("LibTorch()", x="X__0", y="Y__0"),
        "torch_minimal": _minimal,
        "onnx_with_side_file": _onnx_with_side_file,
        "python": _python,
        "ensemble": _ensemble,
        "caller": _caller,
    }
)
"""What declares a model of a kind: by the folder of model builds, the model's name and a seed."""
