"""`fleet check` and the stand-ins decide as the backends' sources do, and the real server where it is one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.rehearsal.model_server import contract_of
from tests.triton_models.known_directories import Directory, known_directories
from triton_models.check.check import check_path
from triton_models.check.target import PLAIN
from triton_models.facts.releases import RELEASES
from triton_rehearsal.triton.contract import MultiModelContract

TARGET = replace(PLAIN, release=RELEASES["25.09"])
DIRECTORIES = known_directories()
# Whether they answer: the load alone does not show it.
ANSWERED = ("every request fails", "writes past a vector", "pointers")


@pytest.mark.parametrize("directory", DIRECTORIES, ids=lambda directory: directory.name)
def test_check_accepts_what_loads(directory: Directory, tmp_path):
    problems = check_path(directory.write(tmp_path), target=TARGET)
    assert (not problems) == directory.loads, problems


@pytest.fixture(scope="module")
def contract(tmp_path_factory) -> Iterator[MultiModelContract]:
    with contract_of(tmp_path_factory.mktemp("known")) as contract:
        yield contract


@pytest.mark.skipif(os.environ.get("FLEET_FUZZ") != "1", reason="loads a hundred models: make fuzz")
@pytest.mark.parametrize(
    "directory",
    [directory for directory in DIRECTORIES if not directory.completes],
    ids=lambda directory: directory.name,
)
def test_a_server_loads_what_loads(directory: Directory, tmp_path, contract):
    directory.write(tmp_path)
    answer = contract.load(model_id=tmp_path.name, target_model=tmp_path.name, folder=str(tmp_path))
    assert answer.ok == directory.loads, answer.text
    if answer.ok:
        contract.unload(model_id=tmp_path.name, target_model=tmp_path.name)
