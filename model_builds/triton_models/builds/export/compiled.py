"""Compilation of PyTorch networks to machine code with AOTInductor, for the GPU of the build or for CPUs.

A compiled network runs in other versions of PyTorch than the one that compiled it: 2.10.0, 2.12.0 and 2.13.0
answered alike in all nine pairs (tried 2026-11-24 on a CPU). Equal networks do not give equal bytes, because
the code has the paths of its compilation.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triton_models.artifact.networks import Signature
from triton_models.base.errors import FleetError
from triton_models.builds.export.observed import Observed, examples_of
from triton_models.builds.locked import cxx
from triton_models.declare.tensors import DynamicDim, Tensor

if TYPE_CHECKING:
    import torch

# Every CPU of SageMaker's instance types has AVX2; AVX-512 is missing in the AMD ones, such as ml.g5. Without
# these options the compiler writes for the CPU of the build machine.
_FOR_EVERY_CPU = {"cpp.march": "x86-64-v3", "cpp.simdlen": 256}

# Operators that call cuDNN, which asks the server whether it may use TF32: native/Convolution.cpp of
# PyTorch 2.13, read 2026-11-24.
_ASK_THE_SERVER = ("conv", "lstm", "gru", "rnn")

_CACHE = "TORCHINDUCTOR_CACHE_DIR"


def compile_network(
    module: torch.nn.Module,
    path: Path,
    *,
    name: str,
    inputs: Sequence[Tensor],
    outputs: Sequence[str],
    device: str = "cpu",
    tf32: bool = False,
    max_autotune: bool = False,
) -> Signature:
    """Compile a network to `model.pt2`, and determine its outputs.

    Args:
        module: The network; it is set to evaluation mode. Its `forward` takes the inputs in order.
        path: The file to write, which ends with .pt2.
        name: The model's name, for errors.
        inputs: The inputs, with all dimensions.
        outputs: The names of its outputs, in order.
        device: "cuda" for the GPU of this machine, or "cpu".
        tf32: True if a GPU may use TF32.
        max_autotune: True to measure more kernels.

    Raises:
        FleetError: The network cannot be exported or compiled, answers differently once compiled, or would
            use TF32 against its declaration; or this machine lacks a compiler or the GPU.
    """
    import torch
    from torch.export.passes import move_to_device_pass

    network = Observed(
        name=name, inputs=inputs, outputs=outputs, rule="aoti-export", instead="serve it with LibTorch()"
    )
    examples = list(examples_of(inputs, batches=False))
    with warnings.catch_warnings(), torch.no_grad(), _settings(tf32=tf32, max_autotune=max_autotune):
        warnings.simplefilter("ignore")  # of deprecation inside PyTorch
        program = _exported(module.eval(), examples[0], network)
        if device == "cuda" and not tf32:
            _refuse_tf32(program, network)
        _check_machine(network, device)
        if device != "cpu":
            program = move_to_device_pass(program, device)
            examples = [[each.to(device) for each in example] for example in examples]
        compiled = _compiled(program, path, network)
        answers = network.answers(module.to(device), compiled, examples)
    return network.signature(answers, batches=False)


def _check_machine(network: Observed, device: str) -> None:
    import torch

    if shutil.which(cxx()) is None:
        raise network.bad(
            f"this machine has no {cxx()}, with which AOTInductor compiles",
            fix="install it: `apt-get install g++`; or name another compiler with OpenMP in CXX",
        )
    if device == "cuda" and not torch.cuda.is_available():
        raise network.bad(
            f"PyTorch {torch.__version__} finds no GPU to compile for",
            fix="install it: FLEET_GPU=1 python -m triton_models.builds.locked build NAME",
        )


@contextmanager
def _settings(*, tf32: bool, max_autotune: bool) -> Iterator[None]:
    """Compile in a folder that is removed, in this process, for every CPU, at the declared precision."""
    import torch
    import torch._inductor.config as inductor

    changes = {**_FOR_EVERY_CPU, "compile_threads": 1, "max_autotune": max_autotune}
    precision, cache = torch.get_float32_matmul_precision(), os.environ.get(_CACHE)
    with (
        tempfile.TemporaryDirectory(prefix="fleet-inductor-") as folder,
        inductor.patch(changes),
        torch.backends.cudnn.flags(enabled=True, allow_tf32=tf32),
    ):
        torch.set_float32_matmul_precision("high" if tf32 else "highest")
        os.environ[_CACHE] = folder
        try:
            yield
        finally:
            torch.set_float32_matmul_precision(precision)
            os.environ.pop(_CACHE)
            if cache is not None:
                os.environ[_CACHE] = cache


def _exported(module: torch.nn.Module, example: Sequence[torch.Tensor], network: Observed) -> Any:
    import torch

    sizes: dict[str, Any] = {}
    for size in (size for tensor in network.inputs for size in tensor.dims if isinstance(size, DynamicDim)):
        sizes.setdefault(size.name, torch.export.Dim(size.name, min=size.min, max=size.max))
    shapes = tuple(
        {axis: sizes[size.name] for axis, size in enumerate(tensor.dims) if isinstance(size, DynamicDim)}
        for tensor in network.inputs
    )
    try:
        return torch.export.export(module, tuple(example), dynamic_shapes=shapes)
    except Exception as error:  # PyTorch raises many types for networks that it cannot export
        raise _failed("exported", error, network) from error


def _compiled(program: Any, path: Path, network: Observed) -> Any:
    import torch

    try:
        torch._inductor.aoti_compile_and_package(program, package_path=str(path))
        return torch._inductor.aoti_load_package(str(path))
    except Exception as error:  # the compiler's and the loader's are of many types too
        raise _failed("compiled", error, network) from error


def _failed(what: str, error: Exception, network: Observed) -> FleetError:
    reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return network.bad(
        f"it cannot be {what}: {reason}",
        fix="fix the network's forward() or its DynamicDims, or serve it with LibTorch() or OnnxRuntime()",
    )


def _refuse_tf32(program: Any, network: Observed) -> None:
    called = {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
    found = sorted(each for each in called if any(word in each for word in _ASK_THE_SERVER))
    if found:
        raise network.bad(
            f"it must use FP32, but the server may choose TF32 for {', '.join(found)}",
            fix='declare AotInductor(tf32=True) and a tolerance for "tf32", or serve it with LibTorch()',
        )
