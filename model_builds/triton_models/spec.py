"""The public names for declarations in `models/<name>/build.py`.

Reading a declaration takes milliseconds, because frameworks are imported by its functions, never by the
module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from triton_models.base.removed import refuse_removed
from triton_models.declare.backends import (
    Dali,
    Fil,
    LibTorch,
    OnnxRuntime,
    PythonBackend,
    TensorFlow,
    TensorRt,
)
from triton_models.declare.declaration import Example, ModelDefinition, Tensors, Trial
from triton_models.declare.environments import PackedEnvironment, Wheels
from triton_models.declare.families import Family, Member
from triton_models.declare.job import BuildJob
from triton_models.declare.models import (
    DaliPipeline,
    Ensemble,
    EnsembleStep,
    Forest,
    Model,
    OnnxFile,
    PythonModel,
    PyTorchNetwork,
    TensorFlowGraph,
)
from triton_models.declare.reading import (
    blame,
    folder_of,
    forms_of,
    load_build,
    load_builds,
    model_names,
    models_folder,
)
from triton_models.declare.scheduling import Control, DynamicBatching, Instances, SequenceBatching, WarmUp
from triton_models.declare.tensors import Between, DynamicDim, ShapeRange, Tensor
from triton_models.declare.weights import (
    HubWeights,
    LocalWeights,
    PackageWeights,
    RandomWeights,
    RegistryWeights,
    S3Weights,
    Weights,
    weights_at,
)

__all__ = [
    "Between",
    "BuildJob",
    "Control",
    "Dali",
    "DaliPipeline",
    "DynamicBatching",
    "DynamicDim",
    "Ensemble",
    "EnsembleStep",
    "Example",
    "Family",
    "Fil",
    "Forest",
    "HubWeights",
    "Instances",
    "LibTorch",
    "LocalWeights",
    "Member",
    "Model",
    "ModelDefinition",
    "OnnxFile",
    "OnnxRuntime",
    "PackageWeights",
    "PackedEnvironment",
    "PyTorchNetwork",
    "PythonBackend",
    "PythonModel",
    "RandomWeights",
    "RegistryWeights",
    "S3Weights",
    "SequenceBatching",
    "ShapeRange",
    "Tensor",
    "TensorFlow",
    "TensorFlowGraph",
    "TensorRt",
    "Tensors",
    "Trial",
    "WarmUp",
    "Weights",
    "Wheels",
    "blame",
    "folder_of",
    "forms_of",
    "load_build",
    "load_builds",
    "model_names",
    "models_folder",
    "weights_at",
]

if not TYPE_CHECKING:
    __getattr__ = refuse_removed(
        __name__,
        {
            "AotInductor": "OnnxRuntime(), TensorRt() or LibTorch()",
            "OpenVino": 'OnnxRuntime(), with instances=Instances(kind="KIND_CPU")',
        },
    )
