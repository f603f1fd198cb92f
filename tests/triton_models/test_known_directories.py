"""`fleet check` and the stand-ins decide as the backends' sources do, and the real server where it is one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from tests.rehearsal.model_server import contract_of
from tests.triton_models.known_directories import Directory, known_directories
from triton_models.check.check import check_path
from triton_models.check.target import PLAIN
from triton_models.facts.releases import RELEASES
from triton_rehearsal.triton.contract import NoAnswerError

TARGET = replace(PLAIN, release=RELEASES["25.09"])
DIRECTORIES = known_directories()
# What loads, and then fails its requests or answers what its memory held.
LOADED = ("every request fails", "writes past a vector", "pointers", "get_input", "get_output")


@pytest.mark.parametrize("directory", DIRECTORIES, ids=lambda directory: directory.name)
def test_check_accepts_what_loads(directory: Directory, tmp_path):
    problems = check_path(directory.write(tmp_path), target=TARGET)
    assert (not problems) == directory.loads, problems


class Server:
    """A server that is started again if a model ends it, as a cut warm-up string may."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._stack, self._count = folder, ExitStack(), 0
        self._start()

    def _start(self) -> None:
        self._count += 1
        folder = self._folder / str(self._count)
        folder.mkdir()
        self._contract = self._stack.enter_context(contract_of(folder))

    def loads(self, model: Path) -> tuple[bool, str]:
        try:
            answer = self._contract.load(model_id=model.name, target_model=model.name, folder=str(model))
        except NoAnswerError as error:
            self._start()
            return False, str(error)
        if answer.ok:
            self._contract.unload(model_id=model.name, target_model=model.name)
        return answer.ok, answer.text

    def close(self) -> None:
        self._stack.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("known"))
    yield server
    server.close()


@pytest.mark.skipif(os.environ.get("FLEET_FUZZ") != "1", reason="loads a hundred models: make fuzz")
@pytest.mark.parametrize(
    "directory",
    [
        directory
        for directory in DIRECTORIES
        if not directory.completes and not any(reason in directory.source for reason in LOADED)
    ],
    ids=lambda directory: directory.name,
)
def test_a_server_loads_what_loads(directory: Directory, tmp_path, server):
    directory.write(tmp_path)
    loads, said = server.loads(tmp_path)
    assert loads == directory.loads, said
