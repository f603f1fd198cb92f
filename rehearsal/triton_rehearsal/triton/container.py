"""The command line that SageMaker's Triton container makes of its environment."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from triton_rehearsal.assumptions import holds


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """One environment variable that the container's start script reads.

    Attributes:
        variable: Its name.
        template: The flag it becomes, with `{}` for its value.
        default: The value used when the variable is unset or empty. None leaves the flag out.
    """

    variable: str
    template: str
    default: str | None = None


# docker/sagemaker/serve of triton-inference-server/server, read 2026-08-19. The variable that is named
# DISABLE is handed on as the value, so only "false" turns namespacing off.
FLAGS = (
    Flag(
        variable="SAGEMAKER_TRITON_DISABLE_MODEL_NAMESPACING",
        template="--model-namespacing={}",
        default="true",
    ),
    Flag(variable="SAGEMAKER_BIND_TO_PORT", template="--sagemaker-port={}"),
    Flag(variable="SAGEMAKER_SAFE_PORT_RANGE", template="--sagemaker-safe-port-range={}"),
    Flag(variable="SAGEMAKER_TRITON_ALLOW_GRPC", template="--allow-grpc={}", default="false"),
    Flag(variable="SAGEMAKER_TRITON_ALLOW_METRICS", template="--allow-metrics={}", default="false"),
    Flag(variable="SAGEMAKER_TRITON_METRICS_PORT", template="--metrics-port={}"),
    Flag(variable="SAGEMAKER_TRITON_GRPC_PORT", template="--grpc-port={}"),
    Flag(
        variable="SAGEMAKER_TRITON_BUFFER_MANAGER_THREAD_COUNT", template="--buffer-manager-thread-count={}"
    ),
    Flag(variable="SAGEMAKER_TRITON_THREAD_COUNT", template="--sagemaker-thread-count={}"),
    Flag(variable="SAGEMAKER_TRITON_LOG_VERBOSE", template="--log-verbose={}", default="true"),
    Flag(variable="SAGEMAKER_TRITON_LOG_INFO", template="--log-info={}"),
    Flag(variable="SAGEMAKER_TRITON_LOG_WARNING", template="--log-warning={}"),
    Flag(variable="SAGEMAKER_TRITON_LOG_ERROR", template="--log-error={}"),
    Flag(
        variable="SAGEMAKER_TRITON_SHM_DEFAULT_BYTE_SIZE",
        template="--backend-config=python,shm-default-byte-size={}",
        default="16777216",
    ),
    Flag(
        variable="SAGEMAKER_TRITON_SHM_GROWTH_BYTE_SIZE",
        template="--backend-config=python,shm-growth-byte-size={}",
        default="1048576",
    ),
    Flag(variable="SAGEMAKER_TRITON_TENSORFLOW_VERSION", template="--backend-config=tensorflow,version={}"),
)

GPU_LIMIT = "SAGEMAKER_TRITON_MODEL_LOAD_GPU_LIMIT"
ADDITIONAL_ARGUMENTS = "SAGEMAKER_TRITON_ADDITIONAL_ARGS"
PING_MODE = "SAGEMAKER_TRITON_PING_MODE"

_OPTION = re.compile(r"SAGEMAKER_TRITON_(?!ADDITIONAL_ARGS)")

# What the script passes whatever the environment says.
FIXED_FLAGS = ("--allow-sagemaker=true", "--allow-http=false", "--model-control-mode=explicit")


def server_flags(environment: Mapping[str, str], *, repository: str) -> list[str]:
    """The flags that the container starts a multi-model server with.

    Args:
        environment: The container's environment variables.
        repository: The empty folder that stands for the model repository: every model of a multi-model
            server brings a repository of its own.

    Returns:
        The flags in the script's order. The additional arguments come last and win over the others.
    """
    flags = [*FIXED_FLAGS, f"--model-repository={repository}"]
    if not holds("start_script_variables"):
        environment = {name: value for name, value in environment.items() if not _OPTION.match(name)}
    for flag in FLAGS:
        value = environment.get(flag.variable) or flag.default
        if value is not None:
            flags.append(flag.template.format(value))
    if limit := environment.get(GPU_LIMIT):
        flags += [f"--model-load-gpu-limit={index}:{limit}" for index in range(_gpu_count())]
    return flags + environment.get(ADDITIONAL_ARGUMENTS, "").split()


def server_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that reach the server process.

    The script picks "live" as ping mode for every multi-model server but does not export it: a server
    sees it only if the variable came from outside, with whatever value.
    """
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
