from __future__ import annotations

import pytest

from triton_fleet import TritonServer


def test_auto_complete_can_be_left_to_triton() -> None:
    environment = TritonServer(auto_complete_config=True).environment()

    assert "SAGEMAKER_TRITON_ADDITIONAL_ARGS" not in environment


def test_further_arguments_come_after_ours_so_that_they_win() -> None:
    server = TritonServer(extra_arguments=("--model-load-thread-count=8", "--log-warning=false"))

    assert server.environment()["SAGEMAKER_TRITON_ADDITIONAL_ARGS"] == (
        "--disable-auto-complete-config --model-load-thread-count=8 --log-warning=false"
    )


def test_shared_memory_and_logging_are_passed_on_as_the_start_script_reads_them() -> None:
    server = TritonServer(
        log_verbose=True, shared_memory_bytes=4, shared_memory_growth_bytes=2, ping_mode="ready"
    )

    assert dict(server.environment()) | {"SAGEMAKER_TRITON_ADDITIONAL_ARGS": ""} == {
        "SAGEMAKER_TRITON_PING_MODE": "ready",
        "SAGEMAKER_TRITON_LOG_VERBOSE": "true",
        "SAGEMAKER_TRITON_SHM_DEFAULT_BYTE_SIZE": "4",
        "SAGEMAKER_TRITON_SHM_GROWTH_BYTE_SIZE": "2",
        "SAGEMAKER_TRITON_ADDITIONAL_ARGS": "",
    }


@pytest.mark.parametrize("argument", ["", " ", "--log-format=a b", "--x=1\n"])
def test_an_argument_that_the_start_script_would_split_is_a_problem(argument: str) -> None:
    (problem,) = TritonServer(extra_arguments=(argument,)).problems(where="here")

    assert problem.rule == "server-argument"
    assert repr(argument) in problem.what


def test_more_arguments_than_an_environment_variable_holds_are_a_problem() -> None:
    (problem,) = TritonServer(extra_arguments=("--x=" + "1" * 1024,)).problems(where="here")

    assert "1024 bytes" in problem.expected


def test_the_defaults_have_no_problem() -> None:
    assert list(TritonServer().problems(where="here")) == []
