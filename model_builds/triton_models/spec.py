"""What a declaration in `models/<name>/build.py` is written with.

Reading a declaration takes milliseconds: frameworks are imported by the functions that it names, never by
the module.
"""

from __future__ import annotations

from triton_models.declaring.backends import OnnxRuntime, PythonBackend, TensorRt
from triton_models.declaring.declaration import Example, ModelBuild, Tensors
from triton_models.declaring.models import Ensemble, Model, OnnxFile, PythonModel, PyTorchNetwork, Step
from triton_models.declaring.reading import MODELS, blame, load_build, load_builds, model_names
from triton_models.declaring.serving import DynamicBatching, Instances, WarmUp
from triton_models.declaring.tensors import OpenSize, Tensor
from triton_models.declaring.weights import (
    HubWeights,
    LocalWeights,
    PackageWeights,
    S3Weights,
    SeededWeights,
    Weights,
    weights_at,
)
from triton_models.job import BuildJob
from triton_models.tensorrt import ShapeRange

__all__ = [
    "MODELS",
    "BuildJob",
    "DynamicBatching",
    "Ensemble",
    "Example",
    "HubWeights",
    "Instances",
    "LocalWeights",
    "Model",
    "ModelBuild",
    "OnnxFile",
    "OnnxRuntime",
    "OpenSize",
    "PackageWeights",
    "PyTorchNetwork",
    "PythonBackend",
    "PythonModel",
    "S3Weights",
    "SeededWeights",
    "ShapeRange",
    "Step",
    "Tensor",
    "TensorRt",
    "Tensors",
    "WarmUp",
    "Weights",
    "blame",
    "load_build",
    "load_builds",
    "model_names",
    "weights_at",
]
