"""Only its user can reach the servers of a rehearsal: no other machine, no other user, no web page."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from aws_for_tests.callers import CODE, foreign, status
from aws_for_tests.fixture import aws_fixture
from embedded_aws import EmbeddedAws
from tests.rehearsal import served_models
from tests.rehearsal.aws_for_hosting import ENVIRONMENT
from triton_rehearsal.hosting.service import Hosting
from triton_rehearsal.triton import command
from triton_rehearsal.triton.server import TritonServer

SYSTEM_PYTHON = shutil.which("python3", path="/usr/bin:/bin")
NO_USER = 65534
LIMIT_S = 60.0

# An address is in hexadecimal, with the bytes of each group of four in reverse order.
_LISTENING = "0A"


@dataclass(frozen=True)
class Listening:
    """The sockets on which a process tree listens."""

    addresses: tuple[str, ...]
    sockets: tuple[Path, ...]


def listening(pid: int) -> Listening:
    """Return the sockets on which a process and its children listen."""
    inodes = {inode for each in _tree(pid) for inode in _inodes(each)}
    addresses = [
        _address(row[1])
        for table in ("tcp", "tcp6")
        for row in _rows(f"/proc/net/{table}")
        if row[3] == _LISTENING and row[9] in inodes
    ]
    accepting = f"{1 << 16:08X}"  # SO_ACCEPTCON
    sockets = [Path(row[7]) for row in _rows("/proc/net/unix") if row[3] == accepting and row[6] in inodes]
    return Listening(tuple(addresses), tuple(sockets))


def _rows(table: str) -> Iterator[list[str]]:
    for line in Path(table).read_text().splitlines()[1:]:
        yield line.split()


def _address(written: str) -> str:
    raw = bytes.fromhex(written.partition(":")[0])
    groups = [raw[start : start + 4][::-1] for start in range(0, len(raw), 4)]
    return str(ip_address(b"".join(groups)))


def _tree(pid: int) -> Iterator[int]:
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            started = children.read_text().split()
        except OSError:  # the process has ended
            continue
        for child in started:
            yield from _tree(int(child))


def _inodes(pid: int) -> Iterator[str]:
    for descriptor in Path(f"/proc/{pid}/fd").glob("*"):
        try:
            target = str(descriptor.readlink())
        except OSError:
            continue
        if target.startswith("socket:["):
            yield target[len("socket:[") : -1]


aws = aws_fixture(scope="module")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TritonServer]:
    with TritonServer(ENVIRONMENT, tmp_path_factory.mktemp("closed") / "server") as server:
        yield server


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return command.install(tmp_path_factory.mktemp("programs")) / command.PROGRAM


def test_a_rehearsal_listens_on_the_loopback_interface_and_sockets_that_only_its_user_can_open(
    aws: EmbeddedAws, server: TritonServer
) -> None:
    with Hosting(aws):
        found = listening(os.getpid())

    assert len(found.addresses) >= 2
    assert all(ip_address(each).is_loopback for each in found.addresses)
    assert listening(server.pid) == Listening((), (server.socket,))
    assert server.socket in found.sockets
    assert {stat.S_IMODE(each.parent.stat().st_mode) for each in found.sockets} == {stat.S_IRWXU}


def test_the_hosting_lets_in_the_key_of_the_run_and_no_page(aws: EmbeddedAws) -> None:
    asked = {"EndpointName": "search", "Body": b"{}"}
    with Hosting(aws) as hosting:
        with pytest.raises(ClientError, match=CODE):
            foreign(hosting.url, "sagemaker-runtime").invoke_endpoint(**asked)
        with pytest.raises(ClientError, match="Endpoint search of account"):
            foreign(hosting.url, "sagemaker-runtime", aws_access_key_id=aws.door.key).invoke_endpoint(**asked)
        page = f"{hosting.url}/endpoints/search/invocations"
        assert status(page, method="POST", Origin="https://evil.example")[0] == 403


def test_every_port_that_an_endpoint_asks_for_is_a_private_socket(tmp_path: Path) -> None:
    flags = "--allow-http=true --http-port=23000 --allow-grpc=true --grpc-port=23001"
    asked = {**ENVIRONMENT, "SAGEMAKER_TRITON_ADDITIONAL_ARGS": flags}
    with TritonServer(asked, tmp_path / "server") as server:
        found = listening(server.pid)

    assert found.addresses == ()
    assert sorted(each.name for each in found.sockets) == ["23000", "23001", "8080"]


def test_a_server_that_a_command_of_a_build_starts_listens_on_the_loopback_interface(
    program: Path, tmp_path: Path
) -> None:
    served_models.write(served_models.python_model(), tmp_path)
    flags = ["--http-address=0.0.0.0", "--http-port=0", "--allow-grpc=false", "--allow-metrics=false"]
    started = subprocess.Popen(
        [program, f"--model-repository={tmp_path}", *flags], stderr=subprocess.PIPE, text=True
    )
    assert started.stderr is not None
    try:
        next(line for line in started.stderr if "Started HTTPService" in line)
        deadline = time.monotonic() + LIMIT_S
        while not (found := listening(started.pid)).addresses:  # it reports the start just before
            assert time.monotonic() < deadline
    finally:
        started.terminate()
        started.communicate(timeout=LIMIT_S)

    assert found == Listening(("127.0.0.1",), ())


# A second user of the machine

_TRY = """
import json, socket, sys, urllib.error, urllib.request
path, address, process = sys.argv[1:]

def tried(call):
    try:
        return call()
    except urllib.error.HTTPError as error:
        return error.code
    except OSError as error:
        return type(error).__name__

print(json.dumps({
    "triton": tried(lambda: socket.socket(socket.AF_UNIX).connect(path)),
    "aws": tried(lambda: urllib.request.urlopen(address).status),
    "key": tried(lambda: len(open(f"/proc/{process}/environ").read())),
}))
"""


@pytest.mark.skipif(os.getuid() != 0 or not SYSTEM_PYTHON, reason="only root can be another user")
def test_another_user_of_the_machine_gets_neither_a_model_loaded_nor_an_answer_of_the_aws(
    aws: EmbeddedAws, server: TritonServer
) -> None:
    holder = subprocess.Popen(["sleep", "60"], env=aws.environment())
    try:
        run = subprocess.run(
            [str(SYSTEM_PYTHON), "-I", "-S", "-c", _TRY, str(server.socket), aws.url, str(holder.pid)],
            user=NO_USER, group=NO_USER, extra_groups=[], cwd="/", env={"no_proxy": "*"},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    finally:
        holder.kill()
        holder.wait()

    assert json.loads(run.stdout) == {"triton": "PermissionError", "aws": 403, "key": "PermissionError"}
