from __future__ import annotations

from typing import Any

import pytest
from aws_cdk import CfnParameter, Size, Stack

from tests.reported import problems_of
from triton_fleet import InferenceType, PingMode, TritonMetrics, TritonServer
from triton_models.facts.instances import INSTANCE_TYPES

STRICT, THREADS = "--disable-auto-complete-config", "--model-load-thread-count=256"


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        ({}, f"{STRICT} {THREADS}"),
        ({"auto_complete_config": True}, THREADS),
        # Threads that load models outnumber those that take requests.
        ({"request_threads": 16}, f"{STRICT} --model-load-thread-count=64"),
        ({"request_threads": 16, "load_threads": 49}, f"{STRICT} --model-load-thread-count=49"),
        (
            {"tensorrt_plugins": ("/opt/a.so", "/opt/b.so.1")},
            f"{STRICT} {THREADS} --backend-config=tensorrt,plugins=/opt/a.so;/opt/b.so.1",
        ),
        # Further ones come last, so that they win.
        (
            {"extra_arguments": ("--model-load-retry-count=2", "--log-warning=false")},
            f"{STRICT} {THREADS} --model-load-retry-count=2 --log-warning=false",
        ),
    ],
)
def test_the_server_gets_arguments_for_what_has_no_variable(options: dict[str, Any], arguments: str) -> None:
    assert TritonServer(**options)._environment()["SAGEMAKER_TRITON_ADDITIONAL_ARGS"] == arguments


def test_threads_that_load_models_are_required_if_request_threads_are_known_later() -> None:
    later = CfnParameter(Stack(), "Threads", type="Number").value_as_number

    (problem,) = problems_of(TritonServer(request_threads=later)._check)
    assert problem.rule == "server-number"
    assert not problems_of(TritonServer(request_threads=later, load_threads=9)._check)


@pytest.mark.parametrize("plugin", ["a.so", "/opt/a b.so", "/opt/a;b.so", "/opt/*.so"])
def test_a_path_of_a_plugin_that_would_not_arrive_is_a_problem(plugin: str) -> None:
    (problem,) = problems_of(TritonServer(tensorrt_plugins=(plugin,))._check)

    assert problem.rule == "server-argument"
    assert repr(plugin) in problem.what


@pytest.mark.parametrize(
    "arguments",
    [
        ("--allow-http=true", "--http-port=23999"),
        ("--http-port=8000",),
        ("--allow-grpc=true", "--grpc-port=23000", "--allow-grpc=false"),
    ],
)
def test_an_argument_may_open_a_port_that_sagemaker_allows_and_name_one_that_stays_closed(
    arguments: tuple[str, ...],
) -> None:
    assert problems_of(TritonServer(extra_arguments=arguments)._check) == ()


@pytest.mark.parametrize("argument", ["", " ", "--log-format=a b", "--x=1\n"])
def test_an_argument_that_the_start_script_would_split_is_a_problem(argument: str) -> None:
    (problem,) = problems_of(TritonServer(extra_arguments=(argument,))._check)

    assert problem.rule == "server-argument"
    assert repr(argument) in problem.what


def test_more_arguments_than_an_environment_variable_holds_are_a_problem() -> None:
    (problem,) = problems_of(TritonServer(extra_arguments=("--x=" + "1" * 1024,))._check)

    assert "1024 bytes" in problem.fix


@pytest.mark.parametrize(
    ("options", "variable", "value"),
    [
        ({"log_verbose": True}, "LOG_VERBOSE", "true"),
        ({"ping_mode": PingMode.READY}, "PING_MODE", "ready"),
        ({"shared_memory": Size.mebibytes(4)}, "SHM_DEFAULT_BYTE_SIZE", "4194304"),
        ({"shared_memory_growth": Size.bytes(2)}, "SHM_GROWTH_BYTE_SIZE", "2"),
        ({"log_info": False}, "LOG_INFO", "false"),
        ({"log_warning": False}, "LOG_WARNING", "false"),
        ({"log_error": True}, "LOG_ERROR", "true"),
        ({"request_threads": 16}, "THREAD_COUNT", "16"),
        ({"buffer_manager_threads": 0}, "BUFFER_MANAGER_THREAD_COUNT", "0"),
        ({"inference_type": InferenceType.GENERATE}, "INFERENCE_TYPE", "generate"),
        ({"allow_grpc": True}, "ALLOW_GRPC", "true"),
        ({"allow_grpc": True}, "GRPC_PORT", "23001"),
        ({"allow_grpc": True, "grpc_port": 23011}, "GRPC_PORT", "23011"),
        # The script passes the value on as that of --model-namespacing, so false is off.
        ({"model_namespacing": False}, "DISABLE_MODEL_NAMESPACING", "false"),
    ],
)
def test_an_option_becomes_the_variable_that_the_start_script_reads(
    options: dict[str, Any], variable: str, value: str
) -> None:
    server = TritonServer(**options)

    assert server._environment()[f"SAGEMAKER_TRITON_{variable}"] == value
    assert problems_of(server._check) == ()


def test_metrics_need_five_variables() -> None:
    server = TritonServer(metrics=TritonMetrics(namespace="Search", port=23002))

    assert {
        name.removeprefix("SAGEMAKER_TRITON_"): value
        for name, value in server._environment(log_group="/logs").items()
        if "METRIC" in name or "CLOUDWATCH" in name
    } == {
        "ALLOW_METRICS": "true",
        "PUBLISH_METRICS_TO_CLOUDWATCH": "true",
        "CLOUDWATCH_LOG_GROUP": "/logs",
        "CLOUDWATCH_METRIC_NAMESPACE": "Search",
        "METRICS_PORT": "23002",
    }


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"request_threads": 1}, "server-number"),
        ({"load_threads": 192}, "server-number"),
        ({"request_threads": 16, "load_threads": 48}, "server-number"),
        ({"buffer_manager_threads": -1}, "server-number"),
        ({"shared_memory_growth": Size.bytes(0)}, "server-number"),
        ({"shared_memory": Size.bytes((1 << 20) - 1)}, "server-number"),
        ({"shared_memory": Size.bytes((64 << 20) + 1)}, "server-number"),
        ({"grpc_port": 23011}, "server-port"),
        ({"allow_grpc": True, "grpc_port": 8001}, "server-port"),
        ({"allow_grpc": True, "grpc_port": 24000}, "server-port"),
        ({"allow_grpc": True, "grpc_port": 23000, "metrics": TritonMetrics()}, "server-port"),
        ({"extra_arguments": ("--allow-http=true",)}, "server-port"),
        ({"extra_arguments": ("--allow-metrics=1", "--metrics-port=8002")}, "server-port"),
        ({"allow_grpc": True, "extra_arguments": ("--grpc-port=22999",)}, "server-port"),
        ({"shared_memory": Size.bytes(2**20 + 0.5)}, "whole-size"),
        ({"shared_memory_growth": Size.bytes(1.5)}, "whole-size"),
        ({"metrics": TritonMetrics(port=8002)}, "server-port"),
        ({"metrics": TritonMetrics(namespace="AWS/Triton")}, "server-metrics"),
        ({"metrics": TritonMetrics(namespace="")}, "server-metrics"),
    ],
)
def test_an_option_that_the_server_would_exit_on_is_a_problem(options: dict[str, Any], rule: str) -> None:
    (problem,) = problems_of(TritonServer(**options)._check)

    assert problem.rule == rule


def pools(*types: str, **options: Any) -> list[str]:
    machines = [INSTANCE_TYPES[each] for each in types]
    arguments = TritonServer(**options)._environment(machines=machines)["SAGEMAKER_TRITON_ADDITIONAL_ARGS"]
    flag = "--cuda-memory-pool-byte-size="
    return [each.removeprefix(flag) for each in arguments.split() if each.startswith(flag)]


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        (["ml.g5.xlarge"], ["0:1073741824"]),
        (["ml.g4dn.xlarge"], ["0:536870912"]),
        (["ml.g5.xlarge", "ml.g4dn.xlarge"], ["0:536870912"]),
        (["ml.g4dn.12xlarge"], [f"{gpu}:536870912" for gpu in range(4)]),
        (["ml.c5.xlarge"], []),
        ([], []),
    ],
)
def test_every_gpu_gets_a_pool_of_a_size_for_the_smallest(types: list[str], expected: list[str]) -> None:
    assert pools(*types) == expected


def test_a_pool_can_be_larger() -> None:
    assert pools("ml.g5.xlarge", cuda_memory_pool=Size.gibibytes(4)) == ["0:4294967296"]
    assert pools("ml.c5.xlarge", cuda_memory_pool=Size.gibibytes(4)) == []


@pytest.mark.parametrize(
    ("mib", "instance_type", "rules"),
    [
        (0, "ml.g5.xlarge", ["server-number"]),
        (22926, "ml.g5.xlarge", []),
        (22927, "ml.g5.xlarge", ["server-number"]),
        (99999, "ml.c5.xlarge", []),
    ],
)
def test_a_pool_is_smaller_than_the_gpu(mib: int, instance_type: str, rules: list[str]) -> None:
    server = TritonServer(cuda_memory_pool=Size.mebibytes(mib))
    found = problems_of(server._check_machine, INSTANCE_TYPES[instance_type])
    assert [each.rule for each in found] == rules


def test_arguments_that_are_too_long_only_with_the_pools_are_refused_too() -> None:
    server = TritonServer(extra_arguments=("--x=" + "1" * 900,))
    assert problems_of(server._check) == ()
    found = problems_of(server._check_machine, INSTANCE_TYPES["ml.g4dn.12xlarge"])
    assert [each.rule for each in found] == ["server-argument"]
