"""A real server starts and, however it ends, leaves nothing behind."""

import json
import os
import select
import signal
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.rehearsal import served_models
from tests.rehearsal.aws_for_hosting import ENVIRONMENT
from tests.rehearsal.traces import SHARED_MEMORY, TEMPORARY, traces
from triton_fleet import TritonServer as Options
from triton_models.base.errors import FleetError
from triton_rehearsal.triton.contract import MultiModelContract
from triton_rehearsal.triton.runtime import find_runtime
from triton_rehearsal.triton.server import TritonServer

LIMIT_S = 60.0


def load_identity(server, folder):
    root = served_models.write(served_models.python_model(), folder / "model")
    with MultiModelContract(server.socket) as contract:
        answer = contract.load(model_id="m", target_model="m.tar.gz", folder=str(root))
    assert answer.ok, answer.text


@pytest.fixture
def server(tmp_path):
    with TritonServer(ENVIRONMENT, tmp_path / "server") as server:
        load_identity(server, tmp_path)
        yield server


def test_a_loaded_model_makes_traces_for_its_user_alone_and_closing_removes_them_all(server):
    found = traces(server.mark, server.pid, server.directory)
    marked = [place for place in found if isinstance(place, Path) and place.name.startswith(server.mark)]
    regions = [place for place in marked if str(place.parent) == SHARED_MEMORY]
    assert {str(place.parent) for place in marked} == {SHARED_MEMORY, TEMPORARY}
    assert {stat.S_IMODE(each.stat().st_mode) for each in regions} == {0o600}
    server.close()
    assert not traces(server.mark, server.pid, server.directory)


def test_a_killed_server_leaves_neither_its_stubs_nor_its_shared_memory(server):
    os.kill(server.pid, signal.SIGKILL)
    assert server.wait_for_end(LIMIT_S)
    assert not server.alive
    assert traces(server.mark, server.pid, server.directory) == [server.directory]


def test_a_killed_guard_takes_the_server_along_and_closing_removes_the_rest(server):
    guard = int(Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()[1])
    stubs = os.pidfd_open(server.pid)
    os.kill(guard, signal.SIGKILL)
    assert select.select([stubs], [], [], LIMIT_S)[0]
    os.close(stubs)
    server.close()
    assert not [
        trace for trace in traces(server.mark, server.pid, server.directory) if isinstance(trace, Path)
    ]


HELD = """
import time
from pathlib import Path

class TritonPythonModel:
    def initialize(self, args):
        Path({folder!r}, args["model_name"]).touch()
        while not Path({folder!r}, "go").exists():
            time.sleep(0.02)
"""


@pytest.mark.story
def test_models_that_load_stop_neither_pings_nor_models_that_are_loaded(tmp_path):
    held, count = tmp_path / "held", 10  # more than Triton's default of request threads
    held.mkdir()
    code = HELD.format(folder=str(held))
    options = {**ENVIRONMENT, **Options()._environment()}
    with (
        TritonServer(options, tmp_path / "server") as server,
        MultiModelContract(server.socket) as contract,
        ThreadPoolExecutor(count) as pool,
    ):
        load_identity(server, tmp_path)

        def load(name):
            root = served_models.write(served_models.python_model(code, name=name), tmp_path / name)
            return contract.load(model_id=name, target_model=name, folder=str(root))

        loads = [pool.submit(load, f"held{number}") for number in range(count)]
        try:
            deadline = time.monotonic() + 60
            while len(list(held.iterdir())) < count and time.monotonic() < deadline:
                time.sleep(0.05)
            with MultiModelContract(server.socket) as other:  # a new connection
                assert other.ping()
            with MultiModelContract(server.socket, invocation_limit_s=LIMIT_S) as other:
                assert other.invoke(model_id="m", target_model="m.tar.gz", body=served_models.FLOATS).ok
            assert not any(each.done() for each in loads)
        finally:
            (held / "go").touch()
    assert [each.result().status for each in loads] == [200] * count


PARENT = """
import json, pathlib, sys
from triton_rehearsal.triton.server import TritonServer
from tests.rehearsal.test_triton import ENVIRONMENT, load_identity
folder = pathlib.Path(sys.argv[1])
server = TritonServer(ENVIRONMENT, folder / "server")
load_identity(server, folder)
print(json.dumps([server.mark, server.pid, str(server.directory)]), flush=True)
sys.stdin.read()
"""


def test_nothing_stays_when_the_parent_is_killed(tmp_path):
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    mark, pid, directory = json.loads(parent.stdout.readline())
    guard = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    ended = os.pidfd_open(guard)
    assert traces(mark, pid, Path(directory))
    parent.kill()
    parent.wait()
    assert select.select([ended], [], [], LIMIT_S)[0]
    os.close(ended)
    parent.stdin.close()
    parent.stdout.close()
    assert not traces(mark, pid, Path(directory))


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("SAGEMAKER_TRITON_ADDITIONAL_ARGS", "--no-such-flag=1", "unrecognized option '--no-such-flag=1'"),
        # The words on record for release 25.04 are these, with this range.
        (
            "SAGEMAKER_TRITON_ALLOW_METRICS",
            "true",
            "cannot listen to metrics requests at port 8002, allowed port range is [23000, 23999]",
        ),
    ],
)
def test_a_server_that_does_not_start_shows_the_end_of_its_log(variable, value, words, tmp_path):
    with pytest.raises(FleetError, match="did not become ready") as error:
        TritonServer({**ENVIRONMENT, variable: value}, tmp_path / "server")
    assert words in str(error.value)
    assert not (tmp_path / "server").exists()


def environment_that_says(folder, **changes):
    """Create a virtual environment whose Python reports the facts of the real one, with changes."""
    real = find_runtime()
    facts = {
        "version": [3, 11],
        "base": str(folder / "base"),
        "pytriton": str(real.server.parents[2]),
        "numpy": "numpy",
        "libdir": str(folder / "base" / "lib"),
        "arch": "",
        **changes,
    }
    python = folder / "bin" / "python"
    python.parent.mkdir()
    python.write_text(f"#!/bin/sh\necho '{json.dumps(facts)}'\n")
    python.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, r"the package libpython3\.11"),
        ({"numpy": None}, r"has no numpy(.|\n)*make rehearse"),
        ({"version": [3, 14]}, r"with Python 3\.14"),
    ],
    ids=["no shared library", "no NumPy", "no stub"],
)
def test_an_environment_that_cannot_run_models_is_refused_with_what_it_lacks(changes, said, tmp_path):
    with pytest.raises(FleetError, match="make rehearse"):
        find_runtime(tmp_path / "none")
    with pytest.raises(FleetError, match=said):
        find_runtime(environment_that_says(tmp_path, **changes))


def test_the_shared_library_is_found_beside_the_interpreter(tmp_path):
    library = tmp_path / "base" / "lib" / "libpython3.11.so.1.0"
    library.parent.mkdir(parents=True)
    library.touch()
    assert library.parent in find_runtime(environment_that_says(tmp_path, libdir="/install/lib")).libraries
