"""The backends that run models, and their options.

Sources, read on 2026-11-21: README.md and src/onnxruntime.cc of onnxruntime_backend (main of 2026-06-29),
README.md of tensorrt_backend and NVIDIA's ModelConfig schema; README.md and src/pt/model_state.cc of
pytorch_backend (main of 2026-05-13) and src/libtorch.cc of its branches r23.12 to r25.09. On 2026-11-22, for
TF32: src/onnxruntime.cc of onnxruntime_backend, branches r23.12 to r26.06. On 2026-11-24:
docs/model_config.md, src/shared_state.h, src/tl_model.h and src/gpu_forest_model.h of fil_backend, branches
r24.03 to r26.06.

FP32 is exact unless a declaration says otherwise, whatever the library's own default. So an artifact gives
the same answers on every GPU and on the CPU, and verification compares the answers that applications get.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from triton_models.declare.mistakes import Mistake
from triton_models.declare.scheduling import Batching, DynamicBatching
from triton_models.facts.tensorrt import PLUGIN_RULE, SMALL_BATCH, Hardware, Precision, is_plugin

# Values of optimization.graph.level. Without a level, all optimizations are on.
_LEVELS = {"basic": -1, "extended": 1, "off": 2}
_SEARCHES = {"exhaustive": 0, "heuristic": 1, "default": 2}
_EXTENSIONS = {"next_power_of_two": 0, "same_as_requested": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxRuntime:
    """ONNX Runtime, on the CPU or with its CUDA provider. None leaves an option to ONNX Runtime.

    ```python
    OnnxRuntime(graph_optimization="extended", convolution_search="heuristic")
    ```

    Attributes:
        intra_op_threads: Threads within an operator on the CPU. By default one per core for a model on the
            CPU, and one for a model on a GPU, where hundreds of models would start as many threads.
        inter_op_threads: Threads across operators, with parallel execution.
        execution: "parallel" runs branches of the graph at the same time on the CPU.
        graph_optimization: Fewer optimizations, for faster loading but slower requests.
        cpu_arena: False returns memory to the system instead of keeping it for the next request.
        memory_pattern: False if input shapes differ so much that planning memory in advance does not pay.
        arena_shrinkage: Arenas that are shrunk after each run, such as "cpu:0;gpu:0".
        device_initializers: True keeps weights out of the arena, which grows in powers of two.
        convolution_search: The search for cuDNN's algorithm, by default "heuristic". "exhaustive", the
            backend's own, tries all of them on the first request of each shape.
        gpu_memory_limit: The limit of the CUDA arena in bytes.
        arena_extension: The growth of the CUDA arena. "same_as_requested" takes less memory if all shapes are
            equal, also the batch sizes. Otherwise the arena keeps a block for each shape that is larger than
            those before it: do not use it with dynamic batching or sizes that vary.
        copy_in_default_stream: True if copies share the stream of the computation.
        prefer_nhwc: True lets CUDA run convolutions with the channels last, for which tensor cores are built.
            Since release 25.03. Images belong on TensorRT: this, and the next option, narrow the gap, and
            were not measured here.
        fuse_conv_bias: True lets cuDNN add the bias, and apply the activation, within the convolution. Since
            release 24.12.
        precision: The precision on a GPU. A file keeps its own by default. A network of PyTorch is in "fp16"
            where the tolerance has one for it and the build finds the network within it on the CPU, otherwise
            in "fp32"; the build says which layer is too coarse. "fp16" makes that an error. Inputs and
            outputs keep their types. "tf32" lets Ampere and
            newer GPUs round the FP32 inputs of convolutions and matrix products to 10 bits of mantissa:
            faster, but up to a hundred times less accurate than FP32. It needs a tolerance for "tf32", and is
            for networks that FP16 cannot hold; ONNX Runtime's own default is TF32, so that answers differ
            between GPUs and from the CPU. Releases before 24.06 lack the switch: endpoints and verification
            then disable TF32 for all models of the server, with NVIDIA_TF32_OVERRIDE=0.
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
    prefer_nhwc: bool | None = None
    fuse_conv_bias: bool | None = None
    precision: Literal["fp32", "tf32", "fp16"] | None = None

    backend: ClassVar[str] = "onnxruntime"
    LEAST: ClassVar[Mapping[str, int]] = {"intra_op_threads": 0, "inter_op_threads": 0, "gpu_memory_limit": 0}
    CONVOLUTION_OPTIONS: ClassVar[Mapping[str, str]] = {"prefer_nhwc": "25.03", "fuse_conv_bias": "24.12"}
    """Options of CUDA's convolutions, with the first release whose ONNX Runtime has them."""

    def configure_gpu(
        self, config: Any, *, switches_tf32: bool, half: bool = False, strict_norms: bool = False
    ) -> None:
        """Write the defaults of a model on a GPU, and the options of CUDA if the release passes them.

        The backend passes all options of the accelerator on, except those that `configure` writes. A file in
        FP16 gets no switch for TF32: without TF32, ONNX Runtime since 1.20 takes no tensor cores for any
        convolution, whatever its type (conv.cc of 1.21.0, read 2026-11-28).
        """
        threads = 1 if self.intra_op_threads is None else None
        search = _SEARCHES["heuristic"] if self.convolution_search is None else None
        _set_parameters(config, {"intra_op_thread_count": threads, "cudnn_conv_algo_search": search})
        options = {"enable_skip_layer_norm_strict_mode": 1} if strict_norms else {}
        if not half:
            options["use_tf32"] = int(self.precision == "tf32")
        for option in self.CONVOLUTION_OPTIONS:
            if getattr(self, option) is not None:
                options[option] = int(getattr(self, option))
        if switches_tf32 and options:
            cuda = config.optimization.execution_accelerators.gpu_execution_accelerator.add(name="cuda")
            cuda.parameters.update({name: str(value) for name, value in options.items()})

    def configure(self, config: Any) -> None:
        """Write the options that are not None into a ModelConfig.

        The CUDA options are parameters, although the README calls that deprecated: the backend sets defaults
        for those missing there, which override `gpu_execution_accelerator`.
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

    Many models may load at the same time, and up to release 25.12 the server holds a plan twice in host
    memory while it loads (pull request 118 of tensorrt_backend, in r26.01): there, plans of more than a
    gigabyte need an instance type with more memory than the 16 GiB of an xlarge.

    ```python
    TensorRt(precision="fp16", opt_batch=8)
    ```

    Attributes:
        precision: Of a file, by default "fp32". Of a network of PyTorch, "fp16" if the declaration has a
            tolerance for it and the build finds the network within it on the CPU, otherwise "fp32". "fp32"
            keeps FP32 arithmetic. "tf32" lets TensorRT use TF32 on Ampere and newer. "fp16" and "bf16"
            (Ampere and newer) let it choose kernels of that type; since TensorRT 11 the network is first
            converted. "int8" and "fp8" (Ada, Hopper and newer) are for quantized networks, with
            QuantizeLinear and DequantizeLinear in the ONNX file, as NVIDIA's Model Optimizer writes them.
            Operators that are not quantized run in FP16 until TensorRT 10, and in the file's type since 11,
            so quantize an FP16 file: FP32 next to INT8 may be slower than "fp16". These, and "bf16", since
            TensorRT 10.
        hardware: The GPUs that the plan runs on. "this-gpu" is the model that compiled it, and gives the
            fastest plan. "same-compute-capability" adds other models with its compute capability, such as
            L40S for L4, since TensorRT 10.9. "ampere+" is every GPU of compute capability 8.0 or newer.
        opt_batch: The batch size for which TensorRT tunes its kernels. By default the largest that the
            batching prefers, otherwise a size between 1 and max_batch_size: 4 of 8, 8 of 32, 16 of 128.
        small_batch: The largest batch of a second profile, which is tuned for a batch of 1; 0 for none. By
            default 4 if `opt_batch` is larger, since release 25.05. Triton runs a batch in the profile that
            is tuned for the closer size. Each instance has an execution context per profile; before release
            25.05 each takes as much memory as the largest, so set it there only after a measurement.
        workspace_mb: The maximum GPU memory in MiB that a kernel of the plan may use; by default all of it.
            A lower limit excludes fast kernels, but leaves memory to other models.
        optimization_level: From 0, fastest to compile, to 5, fastest to run; trtexec's default is 3. One more
            level may double the build time.
        context_memory: "on_profile_change" gives an execution context the memory that its profile needs,
            "static" that of the largest profile. By default the former for plans of two profiles. Since
            release 25.05.
        cuda_graphs: True records CUDA graphs when the model loads, for each batch up to `small_batch` (4 by
            default) with the usual sizes of open dimensions, and replays them: fewer launches, more memory.
            Other shapes run as without graphs. While a graph is recorded, work of other models on the same
            GPU may fail, so use it where models are loaded once, before the first request. Releases up to
            26.07 replay none if max_batch_size is 0.
        busy_wait_events: True waits for the GPU without releasing the CPU core: lower latency, one busy core.
        plugins: The libraries of the network's own operators, such as "/opt/plugins/libscale.so". They are in
            the image of the builds and of the endpoint, whose server opens them:
            `TritonServer(tensorrt_plugins=[...])`. ONNX Runtime has none of these operators, so the model is
            built only on a GPU.
    """

    precision: Precision | None = None
    hardware: Hardware = "this-gpu"
    opt_batch: int | None = None
    small_batch: int | None = None
    workspace_mb: int | None = None
    optimization_level: Literal[0, 1, 2, 3, 4, 5] | None = None
    context_memory: Literal["static", "on_profile_change"] | None = None
    cuda_graphs: bool = False
    busy_wait_events: bool = False
    plugins: Sequence[str] = ()

    backend: ClassVar[str] = "tensorrt"
    LEAST: ClassVar[Mapping[str, int]] = {"workspace_mb": 1, "small_batch": 0}

    def mistakes(self) -> Iterator[Mistake]:
        """Check that plugins are libraries that every process finds."""
        for plugin in self.plugins:
            if not is_plugin(plugin):
                fix = f"name the library by {PLUGIN_RULE}, such as /opt/plugins/libscale.so"
                yield Mistake("plugins", f"the plugin {plugin!r}", fix=fix)

    def tuned_batch(self, max_batch_size: int, batching: Batching | None) -> int:
        """Return the batch size to tune for."""
        if self.opt_batch is not None:
            return self.opt_batch
        preferred = batching.preferred if isinstance(batching, DynamicBatching) else ()
        middle = 1 << (max_batch_size.bit_length() + 1) // 2  # of 2 and the largest, as factors
        return max(preferred, default=min(middle, max_batch_size))

    def configure(self, config: Any) -> None:
        """Write the options that differ from the backend's defaults into a ModelConfig."""
        strategy = self.context_memory and self.context_memory.upper()
        _set_parameters(config, {"execution_context_allocation_strategy": strategy})
        if self.cuda_graphs:
            config.optimization.cuda.graphs = True
            for size in range(1, min(self.small_batch or SMALL_BATCH, config.max_batch_size) + 1):
                config.optimization.cuda.graph_spec.add(batch_size=size)
        if self.busy_wait_events:
            config.optimization.cuda.busy_wait_events = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LibTorch:
    """TorchScript, run by PyTorch's C++ library. None leaves an option to the backend.

    The backend identifies tensors by position: inputs and outputs are named `<word>__<index>`, such as
    INPUT__0 and OUTPUT__0.

    ```python
    LibTorch(export="script", weight_sharing=True)
    ```

    Attributes:
        export: "trace" records the operations of one example; "script" compiles forward() with its branches.
        intra_op_threads: Threads within an operator on the CPU; by default one per core. Since release 24.05.
            There is one number per server, set by the first model that has one.
        inter_op_threads: Threads across operators. Since release 24.05, and one number per server too.
        inference_mode: False for networks that InferenceMode slows down, or that need autograd.
        optimized_execution: False skips profiling and its optimizations. Profiling may add seconds to the
            first requests, so skip it for networks whose requests differ in shape.
        cudnn: False runs without cuDNN, which uses less memory and is usually slower. Since release 24.06.
        weight_sharing: True lets instances of the model on one GPU share its weights; not for networks with
            state.
        cache_cleaning: True frees a request's GPU memory after each request: slower, but leaves room for many
            models.
        jit_executor: False uses the executor without profiling.
        jit_profiling: False disables profiling.
        tensor_fuser: False does not fuse operators.
        tf32: True lets cuDNN's convolutions use TF32 on Ampere and newer GPUs, as PyTorch does by default:
            faster, but up to a hundred times less accurate than FP32. It needs a tolerance for "tf32". False
            is written into the exported network, which works for the convolutions of a trace. Scripts, LSTMs
            and GRUs ignore it and follow the server: such networks need tf32=True or cudnn=False. Matrix
            products are exact either way.
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

    backend: ClassVar[str] = "pytorch"
    LEAST: ClassVar[Mapping[str, int]] = {"intra_op_threads": 1, "inter_op_threads": 1}

    @property
    def precision(self) -> Precision:
        """The precision on a GPU."""
        return "tf32" if self.tf32 else "fp32"

    def configure(self, config: Any) -> None:
        """Write the options that are not None into a ModelConfig.

        The platform is written too, because the backend has another one since release 26.03, for archives
        compiled from torch.export.
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

    ```python
    PythonBackend(host_inputs=False)
    ```

    Attributes:
        host_inputs: False passes tensors on the GPU to the model directly, without a copy to host memory.
            They are in the server's pool (`TritonServer.cuda_memory_pool`): if it is full, requests get
            empty outputs, with status 200 (server issue 8177). A fleet whose pool is smaller than a full
            batch is refused; leave room for batches that wait.
        environment: The packed environment it runs in, such as "$$TRITON_MODEL_DIRECTORY/environment.tar.gz".
    """

    host_inputs: bool = True
    environment: str | None = None

    backend: ClassVar[str] = "python"

    def configure(self, config: Any) -> None:
        """Write the options that differ from the backend's defaults into a ModelConfig."""
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

    ```python
    Dali(num_threads=2)
    ```

    Attributes:
        num_threads: CPU threads per model instance. By default the vCPUs of a GPU of the smallest instance
            type that has it, at most 8, and 4 for CPUs: on an H200, 4 threads decoded 2.3 times as many as
            one, and 8 threads 2.6. They exist as long as the model is loaded, even if it is idle, so use few
            threads for many models on a machine.
    """

    num_threads: int | None = None

    backend: ClassVar[str] = "dali"
    LEAST: ClassVar[Mapping[str, int]] = {"num_threads": 1}

    def configure(self, config: Any) -> None:
        """Write the number of threads, which Triton's backend reads here, not in the pipeline."""
        _set_parameters(config, {"num_threads": self.num_threads})


@dataclass(frozen=True, slots=True, kw_only=True)
class Fil:
    """NVIDIA's Forest Inference Library, for forests of decision trees. None leaves an option to the backend.

    ```python
    Fil(cpu_threads=1)
    ```

    Attributes:
        cpu_threads: Threads of a request on the CPU; by default one per core, for each model.
        transfer_threshold: The largest number of rows that are computed on the CPU although the model is on a
            GPU: copying few rows may take longer than computing them. By default 0.
        chunk_size: Rows that a block of the GPU takes at a time. Since release 25.09.
        layout: The order of the trees' nodes in memory: "depth_first", the default, suits deep trees, and
            "breadth_first" those of up to 3 levels. "layered" interleaves the trees. Since release 25.09.
    """

    cpu_threads: int | None = None
    transfer_threshold: int | None = None
    chunk_size: Literal[1, 2, 4, 8, 16, 32] | None = None
    layout: Literal["depth_first", "breadth_first", "layered"] | None = None

    backend: ClassVar[str] = "fil"
    LEAST: ClassVar[Mapping[str, int]] = {"cpu_threads": 1, "transfer_threshold": 0}

    def configure(self, config: Any) -> None:
        """Write the options that are not None into a ModelConfig."""
        _set_parameters(
            config,
            {
                "cpu_nthread": self.cpu_threads,
                "transfer_threshold": self.transfer_threshold,
                "chunk_size": self.chunk_size,
                "layout": self.layout,
            },
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorFlow:
    """TensorFlow, for a frozen graph. Triton supports it up to release 25.02.

    ```python
    TensorFlow()
    ```
    """

    backend: ClassVar[str] = "tensorflow"

    def configure(self, config: Any) -> None:
        """Write the platform for a frozen graph, which the backend's name alone does not imply."""
        config.platform = "tensorflow_graphdef"


def _set_parameters(config: Any, values: dict[str, str | int | bool | None]) -> None:
    for name, value in values.items():
        if value is not None:
            text = str(int(value)) if isinstance(value, bool) else str(value)
            config.parameters[name].string_value = text
