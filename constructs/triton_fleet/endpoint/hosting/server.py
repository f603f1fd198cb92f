"""The options of the Triton server in the container, typed instead of environment variables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from aws_cdk import Size, Tokenization

from triton_fleet.parts.arguments.checks import in_unit, whole_quantity
from triton_fleet.parts.arguments.tokens import deferred, known
from triton_fleet.parts.arguments.typed import typed
from triton_models.base.checks import Check, Report
from triton_models.facts.containers import (
    CONTAINER_BYTES,
    FEWEST_REQUEST_THREADS,
    GRPC_PORT,
    METRICS_PORT,
    REQUEST_THREADS,
    SAFE_PORTS,
    SMALLEST_REGION_BYTES,
    TRITON_PORTS,
    fewest_load_threads,
    load_threads,
)
from triton_models.facts.gpu_memory import SERVER_MIB, default_pool_mib
from triton_models.facts.instances import InstanceType
from triton_models.facts.tensorrt import is_plugin

SERVER_ARGUMENT = Check(
    id="server-argument",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ContainerDefinition.html",
)
SERVER_NUMBER = Check(
    id="server-number", source="triton_models.facts.containers; assumption: the ranges of threads"
)
SERVER_PORT = Check(
    id="server-port",
    source="2026-11-25: triton_models.facts.containers; CheckPortCollision of Triton's server",
)
SERVER_METRICS = Check(
    id="server-metrics", source="2026-11-22: PutMetricData of CloudWatch, Namespace, in botocore 1.44.5"
)


_MIB = Size.mebibytes(1)
# CreateModel: each value of a container's environment, in bytes.
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ContainerDefinition.html, read 2026-11-21.
_LONGEST_VALUE = 1024
_INTERFACE = re.compile(r"--(?:allow-)?(http|grpc|metrics)(?P<port>-port)?=(?P<value>.+)")


class PingMode(str, Enum):
    """The condition under which the container reports itself as healthy."""

    LIVE = "live"
    """The server runs."""
    READY = "ready"
    """No model failed to load, and none is being loaded."""


class InferenceType(str, Enum):
    """The kind of requests of a single-model endpoint."""

    INFER = "infer"
    """A tensor request."""
    GENERATE = "generate"
    """A request of Triton's generate extension of language models, with the answer at once."""
    GENERATE_STREAM = "generate_stream"
    """A request of the generate extension, with the answer as a stream."""


@typed
@dataclass(frozen=True, slots=True, kw_only=True)
class TritonMetrics:
    """Triton's own metrics in CloudWatch: queue times, batch sizes and counts of each loaded model.

    An agent in the container of AWS reads them from the server and writes them into the endpoint's log group,
    from where CloudWatch takes them. On a multi-model endpoint two models of one name in different artifacts
    look the same, and custom metrics of models are not published. It needs a way to CloudWatch, which
    network isolation cuts off. Each metric of each model is billed as a custom metric.

    Attributes:
        namespace: Their CloudWatch namespace, which must not start with "AWS/".
        port: The server's port for them, in the range that SageMaker allows.
    """

    namespace: str = "TritonServer"
    port: int = METRICS_PORT

    def _environment(self, *, log_group: str) -> Mapping[str, bool | int | str]:
        return {
            "SAGEMAKER_TRITON_ALLOW_METRICS": True,
            "SAGEMAKER_TRITON_PUBLISH_METRICS_TO_CLOUDWATCH": True,
            "SAGEMAKER_TRITON_CLOUDWATCH_LOG_GROUP": log_group,
            "SAGEMAKER_TRITON_CLOUDWATCH_METRIC_NAMESPACE": self.namespace,
            "SAGEMAKER_TRITON_METRICS_PORT": self.port,
        }


@typed
@dataclass(frozen=True, slots=True, kw_only=True)
class TritonServer:
    """Options of the Triton server, with the defaults that a multi-model endpoint needs.

    The container's start script reads them from variables named SAGEMAKER_TRITON_*; what each does was read
    in docker/sagemaker/serve of triton-inference-server/server and tried on server 2.51.

    Variables that are not offered, because setting them helps no one:

    * SAGEMAKER_TRITON_MODEL_LOAD_GPU_LIMIT: the server refuses a load over that limit with status 400 where
      SageMaker evicts only upon 507, so a full GPU would refuse models instead of making room.
    * SAGEMAKER_MULTI_MODEL, SAGEMAKER_BIND_TO_PORT and SAGEMAKER_SAFE_PORT_RANGE: SageMaker sets them.
    * SAGEMAKER_TRITON_DEFAULT_MODEL_NAME: `Variant.default_model` of a single-model endpoint.
    * SAGEMAKER_TRITON_OVERRIDE_PING_MODE: the script reads it and then forgets to pass it on.
    * SAGEMAKER_TRITON_TENSORFLOW_VERSION: the TensorFlow backend is gone since release 25.03.

    Attributes:
        ping_mode: The condition under which /ping reports a healthy container. With READY, one broken model
            takes an instance of a multi-model endpoint out of service. Set although LIVE is the start
            script's default too: the script forgets to export it.
        log_verbose: Log every step of every request: about 4 KB a request, and half the throughput of small
            models. The container's own default is true.
        log_info: Log each load, unload and request, with the model's name. None is Triton's default, on. With
            False, only the dashboard's tables of the models loaded most often and the slowest to unload are
            missing: loads and evictions are counted by metrics, and failed loads are errors.
        log_warning: Log warnings. None is Triton's default, on.
        log_error: Log errors. None is Triton's default, on: without them a failed load says nothing.
        shared_memory: Shared memory that each instance of a Python model reserves when it starts. The
            container's 16 MiB are 8 GB for 500 models, and /dev/shm is finite; regions grow when needed.
        shared_memory_growth: The growth of a region if a tensor does not fit.
        auto_complete_config: Let Triton fill in what a config.pbtxt leaves out. Off: it starts every Python
            model a second time, which makes a cold load about ten times slower, and the configs that are
            published here are complete. Declarations with `auto_complete` need it, as `fleet adopt
            --auto-complete` writes them.
        request_threads: Threads that take requests in, each of which a load or unload of a model occupies
            while it lasts. If as many models load at the same time, pings and invocations wait for them. With
            Triton's default, 8, that happens when a new instance of a large fleet receives its first
            requests.
        load_threads: Threads that load models. None is four for each request thread: a model that calls
            others waits in one while these load, and with Triton's default, 4, four such models that load at
            the same time stop the server from loading anything again.
        cuda_memory_pool: The server's pool on each GPU; nothing without a GPU. All forests take their memory
            from it, and so do tensors that stay on the GPU and inputs of batches; it cannot grow, and is
            taken from other models. None is 1 GiB, and 512 MiB on GPUs of less than 20 GiB. Triton's default
            is 64 MiB.
        buffer_manager_threads: Threads that copy tensors. None is Triton's default, 0, which copies in the
            thread of the model instance: more help with large tensors on a machine with idle cores.
        metrics: Publish Triton's own metrics to CloudWatch. None by default: they are billed by model, and a
            fleet has thousands.
        inference_type: The kind of requests of a single-model endpoint; None for Triton's default, INFER.
            For releases from 25.03 on; a multi-model endpoint ignores it.
        allow_grpc: Open Triton's gRPC interface inside the container, for models that call other models
            through it. SageMaker itself speaks HTTP only. Off, as in the container.
        grpc_port: The port of that, in the range that SageMaker allows. None is 23001.
        model_namespacing: Let models of one name in different artifacts live side by side. None is the
            container's default, on for a multi-model endpoint. The script's variable for it is called
            DISABLE_MODEL_NAMESPACING and works the other way round; here False is off.
        tensorrt_plugins: The libraries of `TensorRt(plugins=...)`, by their path in the image. The server
            opens them when it starts. If one is missing, it starts too, and plans that need it fail to load.
        extra_arguments: Further tritonserver arguments, such as
            "--backend-config=tensorrt,coalesce-request-input=true". The start script splits them at spaces,
            and the last of two equal ones wins.
    """

    ping_mode: PingMode = PingMode.LIVE
    log_verbose: bool = False
    log_info: bool | None = None
    log_warning: bool | None = None
    log_error: bool | None = None
    shared_memory: Size = _MIB
    shared_memory_growth: Size = _MIB
    auto_complete_config: bool = False
    request_threads: int = REQUEST_THREADS
    load_threads: int | None = None
    cuda_memory_pool: Size | None = None
    buffer_manager_threads: int | None = None
    metrics: TritonMetrics | None = None
    inference_type: InferenceType | None = None
    allow_grpc: bool = False
    grpc_port: int | None = None
    model_namespacing: bool | None = None
    tensorrt_plugins: tuple[str, ...] = ()
    extra_arguments: tuple[str, ...] = ()

    def _environment(
        self, *, log_group: str = "", machines: Sequence[InstanceType] = ()
    ) -> Mapping[str, str]:
        environment = {
            "SAGEMAKER_TRITON_PING_MODE": self.ping_mode.value,
            "SAGEMAKER_TRITON_LOG_VERBOSE": _text(self.log_verbose),
            "SAGEMAKER_TRITON_SHM_DEFAULT_BYTE_SIZE": _text(self.shared_memory.to_bytes()),
            "SAGEMAKER_TRITON_SHM_GROWTH_BYTE_SIZE": _text(self.shared_memory_growth.to_bytes()),
            "SAGEMAKER_TRITON_THREAD_COUNT": _text(self.request_threads),
        }
        optional = self._optional(log_group).items()
        environment |= {variable: _text(value) for variable, value in optional if value is not None}
        arguments = " ".join(self._arguments(machines))
        if arguments:
            environment["SAGEMAKER_TRITON_ADDITIONAL_ARGS"] = arguments
        return environment

    def _pool(self, machines: Sequence[InstanceType]) -> Size | None:
        """The pool on each GPU of these instance types; None without a GPU."""
        gpus = [each.gpu for each in machines if each.gpu is not None]
        if not gpus:
            return None
        return self.cuda_memory_pool or Size.mebibytes(min(default_pool_mib(each) for each in gpus))

    def _check_machine(self, report: Report, instance: InstanceType) -> None:
        if self._length() <= _LONGEST_VALUE:  # otherwise it is too long on any type
            self._check_length(report, [instance])
        size = None if self.cuda_memory_pool is None else in_unit(self.cuda_memory_pool, "bytes")
        if size is None or instance.gpu is None:
            return
        most = (instance.gpu.memory_mib - SERVER_MIB) << 20
        if not 0 < size < most:
            report(
                SERVER_NUMBER,
                f"cuda_memory_pool is {size / (1 << 20):g} MiB on {instance.name}",
                fix=f"use less than the {most >> 20} MiB of its GPU, or leave cuda_memory_pool out",
                why="the server would not start, or load no forest on the GPU",
            )

    def _check(self, report: Report) -> None:
        """Report problems of values that the start script would silently misread."""
        self._check_threads(report)
        self._check_shared_memory(report)
        self._check_metrics(report)
        self._check_ports(report)
        self._check_length(report, ())
        for plugin in self.tensorrt_plugins:
            if known(plugin) is not None and not is_plugin(plugin):
                report(
                    SERVER_ARGUMENT,
                    f"the plugin {plugin!r}",
                    fix="name the library by its path in the image, such as /opt/plugins/libscale.so",
                    why="the server splits the paths at semicolons, and the start script at spaces",
                )
        for argument in self.extra_arguments:
            if argument.split() != [argument]:
                report(
                    SERVER_ARGUMENT,
                    f"the server argument {argument!r} holds a space or is empty",
                    fix="give each argument as an element of its own, and values without spaces",
                    why="the container's start script splits its arguments at spaces and keeps quotes",
                )

    def _length(self, machines: Sequence[InstanceType] = ()) -> int:
        return len(" ".join(self._arguments(machines)).encode())

    def _check_length(self, report: Report, machines: Sequence[InstanceType]) -> None:
        length = self._length(machines)
        if length > _LONGEST_VALUE:
            report(
                SERVER_ARGUMENT,
                f"the server arguments are {length} bytes long",
                fix=f"leave arguments at their defaults out: at most {_LONGEST_VALUE} bytes together",
                why="SageMaker refuses a longer environment variable",
            )

    def _optional(self, log_group: str) -> Mapping[str, bool | int | str | None]:
        """Variables that are left to the container where nothing is said."""
        return {
            "SAGEMAKER_TRITON_LOG_INFO": self.log_info,
            "SAGEMAKER_TRITON_LOG_WARNING": self.log_warning,
            "SAGEMAKER_TRITON_LOG_ERROR": self.log_error,
            "SAGEMAKER_TRITON_BUFFER_MANAGER_THREAD_COUNT": self.buffer_manager_threads,
            "SAGEMAKER_TRITON_INFERENCE_TYPE": self.inference_type.value if self.inference_type else None,
            "SAGEMAKER_TRITON_ALLOW_GRPC": self.allow_grpc or None,
            "SAGEMAKER_TRITON_GRPC_PORT": self._grpc_port if self.allow_grpc else None,
            "SAGEMAKER_TRITON_DISABLE_MODEL_NAMESPACING": self.model_namespacing,
            **(self.metrics._environment(log_group=log_group) if self.metrics else {}),
        }

    def _check_threads(self, report: Report) -> None:
        exits = "the server would exit, and the deployment fail once the container start times out"
        occupied = "each load occupies one, and without a free one no ping is answered"
        for option, value, least, why in (
            ("request_threads", self.request_threads, FEWEST_REQUEST_THREADS, occupied),
            ("buffer_manager_threads", self.buffer_manager_threads, 0, exits),
        ):
            given = known(value)
            if given is not None and given < least:
                fix = f"set {option} to {least} or more, or leave it out"
                report(SERVER_NUMBER, f"{option} is {given}", fix=fix, why=why)
        request_threads = known(self.request_threads)
        if request_threads is None and self.load_threads is None:
            report(
                SERVER_NUMBER,
                "request_threads is known only at deployment, and load_threads is left out",
                fix="set load_threads",
                why="by default it is four times request_threads",
            )
        loading = known(self.load_threads)
        fewest = None if request_threads is None else fewest_load_threads(request_threads)
        if loading is not None and fewest is not None and loading < fewest:
            report(
                SERVER_NUMBER,
                f"load_threads is {loading}, with {request_threads} request threads",
                fix=f"set load_threads to {fewest} or more, or leave it out",
                why="models that call others could occupy all threads, and no model would load again",
            )

    def _check_shared_memory(self, report: Report) -> None:
        given, growth = in_unit(self.shared_memory, "bytes"), in_unit(self.shared_memory_growth, "bytes")
        for name in ("shared_memory", "shared_memory_growth", "cuda_memory_pool"):
            whole_quantity(report, getattr(self, name), name=name, unit="bytes")
        if growth == 0:
            report(
                SERVER_NUMBER,
                "shared_memory_growth is 0",
                fix="leave shared_memory_growth out",
                why="the server would exit, and the deployment fail once the container start times out",
            )
        if given is not None and not SMALLEST_REGION_BYTES <= given <= CONTAINER_BYTES:
            report(
                SERVER_NUMBER,
                f"shared_memory is {given:.0f} bytes",
                fix=f"use {SMALLEST_REGION_BYTES} (1 MiB) to {CONTAINER_BYTES} (64 MiB, for all models), or "
                "leave it out: regions grow when needed",
                why="the endpoint would be in service, and every Python model fail to load",
            )

    def _check_metrics(self, report: Report) -> None:
        namespace = known(self.metrics.namespace) if self.metrics else None
        if namespace is not None and (not namespace or namespace.startswith("AWS/")):
            report(
                SERVER_METRICS,
                f"the metrics' namespace is {namespace!r}",
                fix="use a name that does not begin with AWS/, such as TritonServer",
                why="CloudWatch refuses metrics of others in AWS's namespaces",
            )

    def _check_ports(self, report: Report) -> None:
        taken: dict[int, str] = {}
        for option, given in self._ports():
            port = known(given)
            if port is None:
                continue
            if port not in SAFE_PORTS:
                report(
                    SERVER_PORT,
                    f"{option} is port {port}",
                    fix=f"set {option} to a port from {SAFE_PORTS[0]} to {SAFE_PORTS[-1]}",
                    why="SageMaker allows no other: the server would exit, and no instance start",
                )
            elif port in taken:
                report(
                    SERVER_PORT,
                    f"{taken[port]} and {option} are both port {port}",
                    fix="choose another port for one of them",
                    why="the server would exit, and no instance start",
                )
            taken.setdefault(port, option)
        if self.grpc_port is not None and not self.allow_grpc:
            report(
                SERVER_PORT,
                f"grpc_port is {self.grpc_port}, and allow_grpc is off",
                fix="set allow_grpc, or leave the port out",
                why="nothing would listen there",
            )

    @property
    def _grpc_port(self) -> int:
        return GRPC_PORT if self.grpc_port is None else self.grpc_port

    def _ports(self) -> Iterator[tuple[str, int]]:
        """Yield the open ports and what sets them. Of an option and an argument, the argument wins."""
        ports = {name: (f"--{name}-port", port) for name, port in TRITON_PORTS.items()}
        opened = {"grpc": self.allow_grpc, "metrics": self.metrics is not None}
        if self.allow_grpc:
            ports["grpc"] = ("grpc_port", self._grpc_port)
        if self.metrics:
            ports["metrics"] = ("metrics.port", self.metrics.port)
        for found in filter(None, map(_INTERFACE.fullmatch, self.extra_arguments)):
            name, value = found[1], found["value"]
            if not found["port"]:
                opened[name] = value.lower() in {"true", "1"}
            elif value.isdecimal():
                ports[name] = (f"--{name}-port", int(value))
        yield from (ports[name] for name in ports if opened.get(name))

    def _arguments(self, machines: Sequence[InstanceType] = ()) -> tuple[str, ...]:
        found = [] if self.auto_complete_config else ["--disable-auto-complete-config"]
        threads = self.load_threads or load_threads(self.request_threads)
        found.append(f"--model-load-thread-count={_text(threads)}")
        size = self._pool(machines)
        if size is not None:
            bytes_each, gpus = _text(size.to_bytes()), max(each.gpu_count for each in machines)
            found += [f"--cuda-memory-pool-byte-size={gpu}:{bytes_each}" for gpu in range(gpus)]
        if self.tensorrt_plugins:
            found.append(f"--backend-config=tensorrt,plugins={';'.join(self.tensorrt_plugins)}")
        return (*found, *self.extra_arguments)


def _text(value: bool | float | str) -> str:  # noqa: FBT001 -- whatever a variable holds
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)) and deferred(value):
        return Tokenization.stringify_number(value)
    return str(value)
