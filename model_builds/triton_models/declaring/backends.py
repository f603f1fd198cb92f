"""The backends that run exported networks, with the options that their parameters spell.

Sources, read on 2026-11-21: README.md and src/onnxruntime.cc of onnxruntime_backend (main of 2026-06-29),
README.md of tensorrt_backend and NVIDIA's ModelConfig schema.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from triton_models.declaring.mistakes import Mistake
from triton_models.tensorrt import Precision

# optimization.graph.level. All optimisations are on without it.
_LEVELS = {"basic": -1, "extended": 1, "off": 2}
_SEARCHES = {"exhaustive": 0, "heuristic": 1, "default": 2}
_EXTENSIONS = {"next_power_of_two": 0, "same_as_requested": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxRuntime:
    """ONNX Runtime, on the CPU or with its CUDA provider. What is None is left to ONNX Runtime.

    Attributes:
        intra_op_threads: Threads within an operator on the CPU; by default one for each core, of every model.
        inter_op_threads: Threads across operators, in parallel execution.
        execution: "parallel" runs branches of the graph at the same time on the CPU.
        graph_optimization: Less than all optimisations make loading faster and running slower.
        cpu_arena: False gives memory back to the system instead of keeping it for the next request.
        memory_pattern: False where input shapes differ so much that planning memory ahead is a waste.
        arena_shrinkage: Arenas that are shrunk after each run, such as "cpu:0;gpu:0".
        device_initializers: Keep weights out of the arena, which grows in powers of two.
        convolution_search: How cuDNN's algorithm is chosen: "exhaustive" (the default) tries all of them on
            the first request of each shape.
        gpu_memory_limit: Bytes of the CUDA arena.
        arena_extension: How the CUDA arena grows: "same_as_requested" leaves more memory to other models.
        copy_in_default_stream: Whether copies share the stream of the computation.
    """

    intra_op_threads: int | None = None
    inter_op_threads: int | None = None
    execution: Literal["sequential", "parallel"] | None = None
    graph_optimization: Literal["basic", "extended", "off"] | None = None
    cpu_arena: bool | None = None
    memory_pattern: bool | None = None
    arena_shrinkage: str | None = None
    device_initializers: bool | None = None
    convolution_search: Literal["exhaustive", "heuristic", "default"] | None = None
    gpu_memory_limit: int | None = None
    arena_extension: Literal["next_power_of_two", "same_as_requested"] | None = None
    copy_in_default_stream: bool | None = None

    @property
    def backend(self) -> str:
        """The backend's name."""
        return "onnxruntime"

    def mistakes(self) -> Iterator[Mistake]:
        """Numbers are not negative."""
        for name in ("intra_op_threads", "inter_op_threads", "gpu_memory_limit"):
            value = getattr(self, name)
            if value is not None and value < 0:
                yield Mistake(field=name, what=f"{name} is {value}", expected="0 or more", fix="leave it out")

    def configure(self, config: Any) -> None:
        """Write what is not left to ONNX Runtime into a ModelConfig.

        The CUDA options stand among the parameters, though the README calls that place deprecated: the
        backend fills what is missing there with defaults, over what `gpu_execution_accelerator` said.
        """
        if self.graph_optimization is not None:
            config.optimization.graph.level = _LEVELS[self.graph_optimization]
        _set_parameters(
            config,
            {
                "intra_op_thread_count": self.intra_op_threads,
                "inter_op_thread_count": self.inter_op_threads,
                "execution_mode": None if self.execution is None else self.execution == "parallel",
                "enable_mem_arena": self.cpu_arena,
                "enable_mem_pattern": self.memory_pattern,
                "memory.enable_memory_arena_shrinkage": self.arena_shrinkage,
                "session.use_device_allocator_for_initializers": self.device_initializers,
                "cudnn_conv_algo_search": self.convolution_search and _SEARCHES[self.convolution_search],
                "gpu_mem_limit": self.gpu_memory_limit,
                "arena_extend_strategy": self.arena_extension and _EXTENSIONS[self.arena_extension],
                "do_copy_in_default_stream": self.copy_in_default_stream,
            },
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorRt:
    """TensorRT: the network is compiled into a plan by a GPU build, and stays ONNX in a portable one.

    Attributes:
        precision: "fp32" keeps FP32 arithmetic, "tf32" lets TensorRT use TF32 on Ampere and newer, "fp16"
            lets it choose FP16 kernels.
        opt_batch: The batch size that TensorRT tunes its kernels for; by default the largest.
        context_memory: "on_profile_change" allocates an execution context's memory when it is used, not when
            the model loads. From release 25.05 on.
        cuda_graphs: Record a CUDA graph for each shape and replay it: fewer launches, more memory.
        busy_wait_events: Wait for the GPU without giving the CPU core away: lower latency, a core in use.
    """

    precision: Precision = "fp32"
    opt_batch: int | None = None
    context_memory: Literal["static", "on_profile_change"] | None = None
    cuda_graphs: bool = False
    busy_wait_events: bool = False

    @property
    def backend(self) -> str:
        """The backend's name."""
        return "tensorrt"

    def configure(self, config: Any) -> None:
        """Write what differs from the backend's defaults into a ModelConfig."""
        strategy = self.context_memory and self.context_memory.upper()
        _set_parameters(config, {"execution_context_allocation_strategy": strategy})
        if self.cuda_graphs:
            config.optimization.cuda.graphs = True
        if self.busy_wait_events:
            config.optimization.cuda.busy_wait_events = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonBackend:
    """Triton's Python backend. Its shared memory is a setting of the server, not of a model.

    Attributes:
        host_inputs: False gives the model a GPU's tensors as they are, not copied to host memory.
        environment: The packed environment it runs in, such as "$$TRITON_MODEL_DIRECTORY/environment.tar.gz".
    """

    host_inputs: bool = True
    environment: str | None = None

    @property
    def backend(self) -> str:
        """The backend's name."""
        return "python"

    def configure(self, config: Any) -> None:
        """Write what differs from the backend's defaults into a ModelConfig."""
        _set_parameters(
            config,
            {
                "FORCE_CPU_ONLY_INPUT_TENSORS": None if self.host_inputs else "no",
                "EXECUTION_ENV_PATH": self.environment,
            },
        )


def _set_parameters(config: Any, values: dict[str, str | int | bool | None]) -> None:
    for name, value in values.items():
        if value is not None:
            text = str(int(value)) if isinstance(value, bool) else str(value)
            config.parameters[name].string_value = text
