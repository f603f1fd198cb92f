"""The command line that SageMaker's Triton container derives from its environment."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from triton_models.base.errors import FleetError
from triton_models.facts.containers import SAFE_PORT_RANGE

SAFE_PORTS = "SAGEMAKER_SAFE_PORT_RANGE"

# docker/sagemaker/serve of triton-inference-server/server, read 2026-08-19. The value of the variable with
# DISABLE in its name is passed on unchanged, so only "false" turns namespacing off.
FLAGS: Mapping[str, tuple[str, str | None]] = MappingProxyType(
    {
        "SAGEMAKER_TRITON_DISABLE_MODEL_NAMESPACING": ("--model-namespacing={}", "true"),
        "SAGEMAKER_BIND_TO_PORT": ("--sagemaker-port={}", None),
        SAFE_PORTS: ("--sagemaker-safe-port-range={}", None),
        "SAGEMAKER_TRITON_ALLOW_GRPC": ("--allow-grpc={}", "false"),
        "SAGEMAKER_TRITON_ALLOW_METRICS": ("--allow-metrics={}", "false"),
        "SAGEMAKER_TRITON_METRICS_PORT": ("--metrics-port={}", None),
        "SAGEMAKER_TRITON_GRPC_PORT": ("--grpc-port={}", None),
        "SAGEMAKER_TRITON_BUFFER_MANAGER_THREAD_COUNT": ("--buffer-manager-thread-count={}", None),
        "SAGEMAKER_TRITON_THREAD_COUNT": ("--sagemaker-thread-count={}", None),
        "SAGEMAKER_TRITON_LOG_VERBOSE": ("--log-verbose={}", "true"),
        "SAGEMAKER_TRITON_LOG_INFO": ("--log-info={}", None),
        "SAGEMAKER_TRITON_LOG_WARNING": ("--log-warning={}", None),
        "SAGEMAKER_TRITON_LOG_ERROR": ("--log-error={}", None),
        "SAGEMAKER_TRITON_SHM_DEFAULT_BYTE_SIZE": (
            "--backend-config=python,shm-default-byte-size={}",
            "16777216",
        ),
        "SAGEMAKER_TRITON_SHM_GROWTH_BYTE_SIZE": (
            "--backend-config=python,shm-growth-byte-size={}",
            "1048576",
        ),
        "SAGEMAKER_TRITON_TENSORFLOW_VERSION": ("--backend-config=tensorflow,version={}", None),
    }
)
"""The flag and the default of each variable that the script reads. A flag without a value is omitted."""

GPU_LIMIT = "SAGEMAKER_TRITON_MODEL_LOAD_GPU_LIMIT"
ADDITIONAL_ARGUMENTS = "SAGEMAKER_TRITON_ADDITIONAL_ARGS"
PING_MODE = "SAGEMAKER_TRITON_PING_MODE"
DEFAULT_MODEL = "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME"

_FIXED_FLAGS = ("--allow-sagemaker=true", "--allow-http=false", "--model-control-mode=explicit")


def server_flags(environment: Mapping[str, str], *, repository: str, model: str | None = None) -> list[str]:
    """Return the flags with which the container starts the server, in the script's order.

    The additional arguments override those before them. A multi-model server, without a model, has an empty
    repository: there, every model has its own.
    """
    flags = [*_FIXED_FLAGS, f"--model-repository={repository}"]
    environment = {**environment, SAFE_PORTS: SAFE_PORT_RANGE}
    for variable, (flag, default) in FLAGS.items():
        value = environment.get(variable) or default
        if value is not None:
            flags.append(flag.format(value))
    if limit := environment.get(GPU_LIMIT):
        flags += [f"--model-load-gpu-limit={index}:{limit}" for index in range(_gpu_count())]
    flags += environment.get(ADDITIONAL_ARGUMENTS, "").split()
    return flags if model is None else [*flags, f"--load-model={model}"]


def only_model(environment: Mapping[str, str], folder: Path) -> str:
    """Return the model that the script loads from /opt/ml/model, or raise the error with which it ends."""
    if (folder / "config.pbtxt").is_file():
        raise _refused(
            "Incorrect directory structure: Model directory needs to contain the top level folder",
            "pack the folder of the model, not what it contains",
        )
    names = sorted(path.name for path in folder.iterdir() if path.is_dir())
    given = environment.get(DEFAULT_MODEL)
    if given and given not in names:
        message = f"Directory with provided {DEFAULT_MODEL} {given} does not exist"
        raise _refused(message, f"name one of {names}" if names else "pack the folder of that model")
    if given:
        return given
    if not names:
        raise _refused("No model found in model repository", "name model data that contain a model's folder")
    if len(names) > 1:
        message = f"More than 1 model directory found in model repository: {' '.join(names)}"
        raise _refused(message, f"set {DEFAULT_MODEL} to the ensemble's name")
    return names[0]


def _refused(message: str, fix: str) -> FleetError:
    return FleetError.of(
        what=f"the start script of the Triton container ends: ERROR: {message}",
        where="/opt/ml/model of a single-model endpoint",
        fix=fix,
    )


def server_environment(environment: Mapping[str, str], *, model: str | None = None) -> dict[str, str]:
    """Return the variables that reach the server process, those that SageMaker sets among them.

    The script sets the ping mode "live" for every multi-model server but does not export it. Such a server
    sees the ping mode only if the variable comes from outside, whatever its value there.
    """
    environment = {**environment, SAFE_PORTS: SAFE_PORT_RANGE}
    if model is not None:
        return {**environment, "SAGEMAKER_MULTI_MODEL": "false", DEFAULT_MODEL: model}
    variables = {**environment, "SAGEMAKER_MULTI_MODEL": "true"}
    if PING_MODE in variables:
        variables[PING_MODE] = "live"
    return variables


def _gpu_count() -> int:
    """Return the number of GPUs that `nvidia-smi -L` lists; 0 if it is missing, as in the script."""
    if not shutil.which("nvidia-smi"):
        return 0
    listing = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    return len(listing.stdout.splitlines()) if listing.returncode == 0 else 0
