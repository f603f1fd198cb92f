"""The container's environment becomes the server's command line, as in the container's own script."""

from tests.rehearsal.aws_for_hosting import ENVIRONMENT
from triton_rehearsal.triton.container import server_environment, server_flags


def test_an_empty_environment_gives_the_defaults_of_the_script():
    assert server_flags({}, repository="/none") == [
        "--allow-sagemaker=true",
        "--allow-http=false",
        "--model-control-mode=explicit",
        "--model-repository=/none",
        "--model-namespacing=true",
        "--allow-grpc=false",
        "--allow-metrics=false",
        "--log-verbose=true",
        "--backend-config=python,shm-default-byte-size=16777216",
        "--backend-config=python,shm-growth-byte-size=1048576",
    ]


def test_the_environment_of_our_endpoint_makes_the_server_quiet_small_and_quick_to_load():
    flags = server_flags(ENVIRONMENT, repository="/none")
    assert "--log-verbose=false" in flags
    assert "--backend-config=python,shm-default-byte-size=1048576" in flags
    assert flags[-1] == "--disable-auto-complete-config"


def test_the_variable_that_says_disable_is_passed_on_as_the_value():
    flags = server_flags({"SAGEMAKER_TRITON_DISABLE_MODEL_NAMESPACING": "true"}, repository="/none")
    assert "--model-namespacing=true" in flags


def test_additional_arguments_come_last_and_are_split_at_blanks():
    environment = {"SAGEMAKER_TRITON_ADDITIONAL_ARGS": "--log-verbose=2  --exit-timeout-secs=5"}
    assert server_flags(environment, repository="/none")[-2:] == ["--log-verbose=2", "--exit-timeout-secs=5"]


def test_a_ping_mode_reaches_the_server_only_if_the_environment_has_one():
    assert "SAGEMAKER_TRITON_PING_MODE" not in server_environment({})
    assert server_environment({"SAGEMAKER_TRITON_PING_MODE": "ready"})["SAGEMAKER_TRITON_PING_MODE"] == "live"


def test_the_server_is_reported_that_it_serves_many_models():
    assert server_environment({})["SAGEMAKER_MULTI_MODEL"] == "true"
