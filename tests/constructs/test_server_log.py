from __future__ import annotations

import re
from pathlib import Path

import pytest

from aws_for_tests.fixture import matcher
from tests.rehearsal import served_models
from tests.rehearsal.aws_for_hosting import ENVIRONMENT
from triton_fleet.parts.metrics.server_log import (
    FAILED_LOADS,
    LOAD_FAILURE_PATTERN,
    MOST_LOADED,
    SLOWEST_UNLOADS,
)
from triton_models.facts.server_log import LOAD_FAILED, LOADED, OUT_OF_MEMORY, UNLOADED
from triton_rehearsal.triton.contract import MultiModelContract
from triton_rehearsal.triton.server import TritonServer


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return a server's log: a model loads and unloads, and another fails to load."""
    folder = tmp_path_factory.mktemp("log")
    good = served_models.write(served_models.python_model(), folder / "good")
    bad = served_models.write(served_models.python_model("raise RuntimeError('no')"), folder / "bad")
    with (
        TritonServer(ENVIRONMENT, folder / "server") as server,
        MultiModelContract(server.socket) as contract,
    ):
        assert contract.load(model_id="a", target_model="minilm-01.tar.gz", folder=str(good)).ok
        assert not contract.load(model_id="b", target_model="broken-02.tar.gz", folder=str(bad)).ok
        assert contract.unload(model_id="a", target_model="minilm-01.tar.gz").ok
        return Path(server.log).read_text().splitlines()


def _parsed(query: tuple[str, ...], log: list[str]) -> list[dict[str, str]]:
    """Return the fields that a query parses; Insights writes named groups as (?<name>...)."""
    (command,) = (line for line in query if line.startswith("parse "))
    pattern = re.compile(command.split("/", 1)[1].rsplit("/", 1)[0].replace("(?<", "(?P<"))
    return [found.groupdict() for line in log if (found := pattern.search(line))]


def test_a_model_that_was_loaded_is_one_line_with_its_name(log: list[str]) -> None:
    assert sum(LOADED in line for line in log) == 1
    assert _parsed(MOST_LOADED, log) == [{"model": "minilm-01.tar.gz"}]


def test_a_model_that_was_unloaded_is_one_line_with_its_name_and_how_long_it_took(log: list[str]) -> None:
    (found,) = _parsed(SLOWEST_UNLOADS, log)

    assert sum(UNLOADED in line for line in log) == 1
    assert found["model"] == "minilm-01.tar.gz"
    assert found["seconds"].isdigit()


def test_a_load_that_failed_is_counted_once_and_says_which_model_and_why(log: list[str]) -> None:
    (found,) = _parsed(FAILED_LOADS, log)

    assert sum(all(term in line for term in LOAD_FAILED) for line in log) == 1
    assert found["model"] == "broken-02.tar.gz"
    assert "RuntimeError: no" in found["reason"]


def test_without_namespaces_a_model_is_found_as_well() -> None:
    assert _parsed(MOST_LOADED, ["successfully loaded 'minilm-01.tar.gz'"]) == [{"model": "minilm-01.tar.gz"}]


def test_without_information_a_failed_load_is_logged_and_counted_and_a_request_is_not(tmp_path: Path) -> None:
    good = served_models.write(served_models.python_model(), tmp_path / "good")
    bad = served_models.write(served_models.python_model("raise RuntimeError('no')"), tmp_path / "bad")
    environment = {**ENVIRONMENT, "SAGEMAKER_TRITON_LOG_INFO": "false"}
    with (
        TritonServer(environment, tmp_path / "server") as server,
        MultiModelContract(server.socket) as contract,
    ):
        assert contract.load(model_id="a", target_model="minilm-01.tar.gz", folder=str(good)).ok
        assert not contract.load(model_id="b", target_model="broken-02.tar.gz", folder=str(bad)).ok
        contract.invoke(model_id="a", target_model="minilm-01.tar.gz", body=b"{}")
        log = Path(server.log).read_text()

    assert sum(map(matcher(LOAD_FAILURE_PATTERN), log.splitlines())) == 1
    assert [each["model"] for each in _parsed(FAILED_LOADS, log.splitlines())] == ["broken-02.tar.gz"]
    assert "minilm-01" not in log


@pytest.mark.parametrize("text", OUT_OF_MEMORY)
def test_a_load_that_ends_for_lack_of_memory_is_not_a_failed_load(text: str) -> None:
    failed = matcher(LOAD_FAILURE_PATTERN)
    line = "failed to load '/opt/ml/models/77ab/model::big.tar.gz' version 1: Internal: {} on GPU 0"
    assert failed(line.format("no such operator"))
    assert not failed(line.format(text))
