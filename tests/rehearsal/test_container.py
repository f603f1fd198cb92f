"""The container's environment becomes the server's command line, as in the container's own script."""

import pytest

from triton_models.base.errors import FleetError
from triton_rehearsal.triton.container import only_model, server_environment, server_flags


def test_an_empty_environment_gives_the_defaults_of_the_script():
    assert server_flags({}, repository="/none") == [
        "--allow-sagemaker=true",
        "--allow-http=false",
        "--model-control-mode=explicit",
        "--model-repository=/none",
        "--model-namespacing=true",
        "--sagemaker-safe-port-range=23000-23999",
        "--allow-grpc=false",
        "--allow-metrics=false",
        "--log-verbose=true",
        "--backend-config=python,shm-default-byte-size=16777216",
        "--backend-config=python,shm-growth-byte-size=1048576",
    ]


def test_a_ping_mode_reaches_the_server_only_if_the_environment_has_one():
    assert "SAGEMAKER_TRITON_PING_MODE" not in server_environment({})
    assert server_environment({"SAGEMAKER_TRITON_PING_MODE": "ready"})["SAGEMAKER_TRITON_PING_MODE"] == "live"


def test_additional_arguments_are_split_at_blanks_and_come_last_but_for_the_only_model():
    environment = {"SAGEMAKER_TRITON_ADDITIONAL_ARGS": "--log-verbose=2  --exit-timeout-secs=5"}
    flags = server_flags(environment, repository="/opt/ml/model", model="m")
    assert flags[-3:] == ["--log-verbose=2", "--exit-timeout-secs=5", "--load-model=m"]


def test_a_server_with_one_model_is_told_its_name_and_keeps_its_ping_mode():
    variables = server_environment({"SAGEMAKER_TRITON_PING_MODE": "ready"}, model="m")
    assert variables == {
        "SAGEMAKER_TRITON_PING_MODE": "ready",
        "SAGEMAKER_MULTI_MODEL": "false",
        "SAGEMAKER_SAFE_PORT_RANGE": "23000-23999",
        "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME": "m",
    }


def folder_with(folder, *names):
    for name in names:
        (folder / name).mkdir()
    return folder


def test_the_only_folder_is_the_model_and_of_several_the_environment_names_it(tmp_path):
    (tmp_path / "LICENSE").write_text("free")
    assert only_model({}, folder_with(tmp_path, "m")) == "m"
    named = {"SAGEMAKER_TRITON_DEFAULT_MODEL_NAME": "b"}
    assert only_model(named, folder_with(tmp_path, "b")) == "b"


@pytest.mark.parametrize(
    ("names", "default", "said"),
    [
        ((), "", "No model found in model repository"),
        (("a", "b"), "", "More than 1 model directory found in model repository: a b"),
        (("a",), "b", "Directory with provided SAGEMAKER_TRITON_DEFAULT_MODEL_NAME b does not exist"),
    ],
)
def test_the_container_ends_if_its_folders_do_not_name_one_model(tmp_path, names, default, said):
    with pytest.raises(FleetError, match=f"ERROR: {said}"):
        only_model({"SAGEMAKER_TRITON_DEFAULT_MODEL_NAME": default}, folder_with(tmp_path, *names))


def test_the_container_ends_if_the_model_is_not_in_a_folder(tmp_path):
    (tmp_path / "config.pbtxt").write_text("")
    with pytest.raises(FleetError, match="ERROR: Incorrect directory structure"):
        only_model({}, folder_with(tmp_path, "1"))
