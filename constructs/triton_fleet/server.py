"""How the Triton server in the container is started, as typed options instead of environment variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from triton_models.errors import Problem

_MIB = 1024 * 1024
# CreateModel: each value of a container's environment, in bytes.
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ContainerDefinition.html, read 2026-11-21.
_LONGEST_VALUE = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class TritonServer:
    """Options of the Triton server, with the defaults that a multi-model endpoint needs.

    The container's start script reads them from variables named SAGEMAKER_TRITON_*; what each does was read
    in docker/sagemaker/serve of triton-inference-server/server and tried on server 2.51.

    SAGEMAKER_TRITON_MODEL_LOAD_GPU_LIMIT is not offered: the server refuses a load over that limit with
    status 400 where SageMaker evicts only upon 507, so a full GPU would refuse models instead of making room.

    Attributes:
        ping_mode: What /ping tells. "live": the server runs. "ready": no load failed and none is under way;
            on a multi-model endpoint one broken model would then take the whole instance out of service.
            Set although the start script means "live" too: the script forgets to export it.
        log_verbose: Log every step of every request: about 4 KB a request, and half the throughput of small
            models. The container's own default is true.
        shared_memory_bytes: Shared memory that each instance of a Python model reserves when it starts. The
            container's 16 MiB are 8 GB for 500 models, and /dev/shm is finite; regions grow when needed.
        shared_memory_growth_bytes: What a region grows by when a tensor does not fit.
        auto_complete_config: Let Triton fill in what a config.pbtxt leaves out. Off: it starts every Python
            model a second time, which makes a cold load about ten times slower, and the configs that are
            published here are complete.
        extra_arguments: Further tritonserver arguments, such as "--pinned-memory-pool-byte-size=0". The start
            script splits them at spaces, and the last of two equal ones wins.
    """

    ping_mode: Literal["live", "ready"] = "live"
    log_verbose: bool = False
    shared_memory_bytes: int = _MIB
    shared_memory_growth_bytes: int = _MIB
    auto_complete_config: bool = False
    extra_arguments: tuple[str, ...] = ()

    def environment(self) -> Mapping[str, str]:
        """The container's environment: variable to value."""
        environment = {
            "SAGEMAKER_TRITON_PING_MODE": self.ping_mode,
            "SAGEMAKER_TRITON_LOG_VERBOSE": str(self.log_verbose).lower(),
            "SAGEMAKER_TRITON_SHM_DEFAULT_BYTE_SIZE": str(self.shared_memory_bytes),
            "SAGEMAKER_TRITON_SHM_GROWTH_BYTE_SIZE": str(self.shared_memory_growth_bytes),
        }
        arguments = " ".join(self._arguments())
        if arguments:
            environment["SAGEMAKER_TRITON_ADDITIONAL_ARGS"] = arguments
        return environment

    def problems(self, *, where: str) -> Iterator[Problem]:
        """What the start script would silently misread."""
        for argument in self.extra_arguments:
            if argument.split() != [argument]:
                yield Problem(
                    what=f"the server argument {argument!r} holds a space or is empty",
                    where=where,
                    expected="one argument without spaces, such as --name=value",
                    why="the container's start script splits its arguments at spaces and knows no quotes",
                    fix="give each argument as an element of its own, and values without spaces",
                    rule="server-argument",
                )
        length = len(" ".join(self._arguments()).encode())
        if length > _LONGEST_VALUE:
            yield Problem(
                what=f"the server arguments are {length} bytes long",
                where=where,
                expected=f"at most {_LONGEST_VALUE} bytes together",
                why="SageMaker refuses a longer environment variable",
                fix="leave arguments at their defaults out",
                rule="server-argument",
            )

    def _arguments(self) -> tuple[str, ...]:
        ours = () if self.auto_complete_config else ("--disable-auto-complete-config",)
        return ours + self.extra_arguments
