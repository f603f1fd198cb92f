"""What a declaration in `models/<name>/build.py` is written with.

Reading a declaration takes milliseconds: frameworks are imported by the functions that it names, never by
the module.
"""

from __future__ import annotations

from triton_models.builds.job import BuildJob
from triton_models.declare.backends import Dali, LibTorch, OnnxRuntime, PythonBackend, TensorFlow, TensorRt
from triton_models.declare.declaration import Example, ModelBuild, Tensors
from triton_models.declare.environments import PackedEnvironment, Wheels
from triton_models.declare.models import (
    DaliPipeline,
    Ensemble,
    Model,
    OnnxFile,
    PythonModel,
    PyTorchNetwork,
    Step,
    TensorFlowGraph,
)
from triton_models.declare.reading import (
    MODELS,
    blame,
    folder_of,
    forms_of,
    load_build,
    load_builds,
    model_names,
)
from triton_models.declare.serving import DynamicBatching, Instances, WarmUp
from triton_models.declare.tensors import OpenSize, ShapeRange, Tensor
from triton_models.declare.weights import (
    HubWeights,
    LocalWeights,
    PackageWeights,
    S3Weights,
    SeededWeights,
    Weights,
    weights_at,
)

__all__ = [
    "MODELS",
    "BuildJob",
    "Dali",
    "DaliPipeline",
    "DynamicBatching",
    "Ensemble",
    "Example",
    "HubWeights",
    "Instances",
    "LibTorch",
    "LocalWeights",
    "Model",
    "ModelBuild",
    "OnnxFile",
    "OnnxRuntime",
    "OpenSize",
    "PackageWeights",
    "PackedEnvironment",
    "PyTorchNetwork",
    "PythonBackend",
    "PythonModel",
    "S3Weights",
    "SeededWeights",
    "ShapeRange",
    "Step",
    "Tensor",
    "TensorFlow",
    "TensorFlowGraph",
    "TensorRt",
    "Tensors",
    "WarmUp",
    "Weights",
    "Wheels",
    "blame",
    "folder_of",
    "forms_of",
    "load_build",
    "load_builds",
    "model_names",
    "weights_at",
]
