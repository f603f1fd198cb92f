"""The backends that run exported networks, with the options that their parameters spell.

Sources, read on 2026-11-21: README.md and src/onnxruntime.cc of onnxruntime_backend (main of 2026-06-29),
README.md of tensorrt_backend and NVIDIA's ModelConfig schema; README.md and src/pt/model_state.cc of
pytorch_backend (main of 2026-05-13) and src/libtorch.cc of its branches r23.12 to r25.09. On 2026-11-22, for
TF32: src/onnxruntime.cc of onnxruntime_backend, branches r23.12 to r26.06.

FP32 is exact unless a declaration says otherwise, whatever the library's own default: an artifact then
answers alike on every GPU and on the CPU, and a verification compares what applications get.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from triton_models.declare.mistakes import Mistake
from triton_models.facts.tensorrt import Hardware, Precision

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
        convolution_search: The choice of cuDNN's algorithm: "exhaustive" (the default) tries all of them on
            the first request of each shape.
        gpu_memory_limit: Bytes of the CUDA arena.
        arena_extension: The growth of the CUDA arena: "same_as_requested" leaves more memory to other models.
        copy_in_default_stream: Whether copies share the stream of the computation.
        tf32: Let GPUs from Ampere on round the FP32 inputs of convolutions and matrix products to TF32, with
            10 bits of mantissa: faster, and up to a hundred times further from FP32. It needs a tolerance for
            "tf32". ONNX Runtime's own default is True; here it is False, because answers would otherwise
            differ between GPUs and from the CPU. Releases before 24.06 lack the switch: endpoints and
            verification then turn TF32 off for all models of the server, with NVIDIA_TF32_OVERRIDE=0.
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
    tf32: bool = False

    @property
    def backend(self) -> str:
        """The backend's name."""
        return "onnxruntime"

    def mistakes(self) -> Iterator[Mistake]:
        """Numbers are not negative."""
        for name in ("intra_op_threads", "inter_op_threads", "gpu_memory_limit"):
            value = getattr(self, name)
            if value is not None and value < 0:
                yield Mistake(field=name, what=f"{name} is {value}", expected="0 or more", fix="remove it")

    @property
    def precision(self) -> Precision:
        """The precision on a GPU."""
        return "tf32" if self.tf32 else "fp32"

    def configure_cuda(self, config: Any) -> None:
        """Write what only a GPU and a release with `switches_tf32` have.

        The backend passes every option of this accelerator on, but for those that `configure` writes.
        """
        cuda = config.optimization.execution_accelerators.gpu_execution_accelerator.add(name="cuda")
        cuda.parameters["use_tf32"] = str(int(self.tf32))

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
            lets it choose FP16 kernels. From TensorRT 11 on the network is converted to FP16 before.
        hardware: The GPUs that the plan runs on: "this-gpu" the model that compiled it, which gives the
            fastest; "same-compute-capability" others of its compute capability too, such as L4 and L40S, from
            TensorRT 10.9 on; "ampere+" every GPU from compute capability 8.0 on.
        opt_batch: The batch size that TensorRT tunes its kernels for; by default the largest.
        workspace_mb: The most GPU memory that a kernel of the plan may ask for, in MiB; by default all there
            is. Less excludes fast kernels, and leaves memory to other models.
        optimization_level: From 0, compiled fast, to 5, fastest when it runs; trtexec's default is 3. A level
            more may double the time that a build takes.
        context_memory: "on_profile_change" allocates an execution context's memory when it is used, not when
            the model loads. From release 25.05 on.
        cuda_graphs: Record a CUDA graph for each shape and replay it: fewer launches, more memory.
        busy_wait_events: Wait for the GPU without giving the CPU core away: lower latency, a core in use.
    """

    precision: Precision = "fp32"
    hardware: Hardware = "this-gpu"
    opt_batch: int | None = None
    workspace_mb: int | None = None
    optimization_level: Literal[0, 1, 2, 3, 4, 5] | None = None
    context_memory: Literal["static", "on_profile_change"] | None = None
    cuda_graphs: bool = False
    busy_wait_events: bool = False

    @property
    def backend(self) -> str:
        """The backend's name."""
        return "tensorrt"

    def mistakes(self) -> Iterator[Mistake]:
        """A workspace has a size."""
        if self.workspace_mb is not None and self.workspace_mb < 1:
            yield Mistake(
                field="workspace_mb",
                what=f"a workspace of {self.workspace_mb} MiB",
                expected="at least 1",
                fix="omit it to use all memory",
            )

    def configure(self, config: Any) -> None:
        """Write what differs from the backend's defaults into a ModelConfig."""
        strategy = self.context_memory and self.context_memory.upper()
        _set_parameters(config, {"execution_context_allocation_strategy": strategy})
        if self.cuda_graphs:
            config.optimization.cuda.graphs = True
        if self.busy_wait_events:
            config.optimization.cuda.busy_wait_events = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LibTorch:
    """TorchScript, by PyTorch's C++ library. What is None is left to the backend.

    The backend identifies tensors by position: inputs and outputs are named `<word>__<index>`, such as
    INPUT__0 and OUTPUT__0.

    Attributes:
        export: "trace" records what one example runs; "script" compiles forward() with its branches.
        intra_op_threads: Threads within an operator on the CPU; by default one for each core. One number for
            the whole server: the first model that says one decides. So it is with the next.
        inter_op_threads: Threads across operators. Both from release 24.05 on.
        inference_mode: False for networks that InferenceMode makes slower, or that need autograd.
        optimized_execution: False skips the profiling of the first requests, which may take seconds, and what
            it wins: for networks whose requests differ in shape.
        cudnn: False runs without cuDNN, with less memory and usually slower. From release 24.06 on.
        weight_sharing: Let instances of the model on one GPU share its weights. Not for networks with state.
        cache_cleaning: Give the GPU memory that a request took back after each: slower, for many models.
        jit_executor: False for the executor without profiling.
        jit_profiling: False profiles nothing.
        tensor_fuser: False does not fuse operators.
        tf32: Let cuDNN's convolutions use TF32 on GPUs from Ampere on, as PyTorch does by default: faster,
            and up to a hundred times further from FP32. It needs a tolerance for "tf32". False is written
            into the exported network, which works for the convolutions of a trace. A script, and an LSTM or
            GRU, leave it to the server: such a network needs tf32=True or cudnn=False. Matrix products are
            exact either way.
    """

    export: Literal["trace", "script"] = "trace"
    intra_op_threads: int | None = None
    inter_op_threads: int | None = None
    inference_mode: bool | None = None
    optimized_execution: bool | None = None
    cudnn: bool | None = None
    weight_sharing: bool | None = None
    cache_cleaning: bool | None = None
    jit_executor: bool | None = None
    jit_profiling: bool | None = None
    tensor_fuser: bool | None = None
    tf32: bool = False

    @property
    def backend(self) -> str:
        """The backend's name."""
        return "pytorch"

    @property
    def precision(self) -> Precision:
        """The precision on a GPU."""
        return "tf32" if self.tf32 else "fp32"

    def mistakes(self) -> Iterator[Mistake]:
        """Numbers of threads are 1 or more: the backend leaves others out with a warning."""
        for name in ("intra_op_threads", "inter_op_threads"):
            value = getattr(self, name)
            if value is not None and value < 1:
                yield Mistake(field=name, what=f"{name} is {value}", expected="1 or more", fix="remove it")

    def configure(self, config: Any) -> None:
        """Write what is not left to the backend into a ModelConfig.

        The platform is written too: since release 26.03 the backend has another, for archives that
        torch.export compiled.
        """
        config.platform = "pytorch_libtorch"
        optimized = self.optimized_execution
        switches = {
            "INFERENCE_MODE": self.inference_mode,
            "DISABLE_OPTIMIZED_EXECUTION": None if optimized is None else not optimized,
            "DISABLE_CUDNN": None if self.cudnn is None else not self.cudnn,
            "ENABLE_WEIGHT_SHARING": self.weight_sharing,
            "ENABLE_CACHE_CLEANING": self.cache_cleaning,
            "ENABLE_JIT_EXECUTOR": self.jit_executor,
            "ENABLE_JIT_PROFILING": self.jit_profiling,
            "ENABLE_TENSOR_FUSER": self.tensor_fuser,
        }
        _set_parameters(
            config,
            {
                **{name: None if on is None else str(on).lower() for name, on in switches.items()},
                "INTRA_OP_THREAD_COUNT": self.intra_op_threads,
                "INTER_OP_THREAD_COUNT": self.inter_op_threads,
            },
        )


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Dali:
    """NVIDIA DALI, which decodes and prepares images, video and audio.

    Attributes:
        num_threads: CPU threads of each instance. A model has them from its load on, whether it is asked or
            not: many models on one instance want few.
    """

    num_threads: int = 4

    @property
    def backend(self) -> str:
        """The backend's name."""
        return "dali"

    def mistakes(self) -> Iterator[Mistake]:
        """At least one thread."""
        if self.num_threads < 1:
            yield Mistake(
                field="num_threads",
                what=f"{self.num_threads} threads",
                expected="at least 1",
                fix="omit it for 4",
            )

    def configure(self, config: Any) -> None:
        """Write the number of threads, which Triton's backend takes from here and not from the pipeline."""
        _set_parameters(config, {"num_threads": self.num_threads})


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorFlow:
    """TensorFlow, for a frozen graph. Triton has it up to release 25.02."""

    @property
    def backend(self) -> str:
        """The backend's name."""
        return "tensorflow"

    def configure(self, config: Any) -> None:
        """Say that the file is a frozen graph: the backend's name alone leaves that open."""
        config.platform = "tensorflow_graphdef"


def _set_parameters(config: Any, values: dict[str, str | int | bool | None]) -> None:
    for name, value in values.items():
        if value is not None:
            text = str(int(value)) if isinstance(value, bool) else str(value)
            config.parameters[name].string_value = text
