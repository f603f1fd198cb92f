"""The `tritonserver` on PATH of a rehearsed build: the bundled server, which leaves nothing behind."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from aws_for_tests.fixture import aws_fixture
from embedded_aws import EmbeddedAws
from tests.rehearsal import served_models
from tests.rehearsal.traces import traces
from triton_models.deliver.verify.server import local_server, server_environment
from triton_rehearsal.builds.processing_job import run_job
from triton_rehearsal.triton import command

LIMIT_S = 60.0
PREFIX = "--backend-config=python,shm-region-prefix-name="


@dataclass(frozen=True)
class Running:
    """A running program that has started a server with a model."""

    program: subprocess.Popen[str]
    folder: Path
    server: int

    @property
    def guard(self) -> int:
        return int(Path(f"/proc/{self.server}/stat").read_text().rpartition(")")[2].split()[1])

    @property
    def prefix(self) -> str:
        arguments = Path(f"/proc/{self.server}/cmdline").read_text().split("\0")
        return next(each.removeprefix(PREFIX) for each in arguments if each.startswith(PREFIX))

    def traces(self, prefix: str) -> list[str | Path]:
        """Return the server's existing processes, shared memory and temporary files."""
        return [*traces(prefix, self.server, self.folder / "none"), *(self.folder / "tmp").iterdir()]

    def after(self, end: Callable[[], None]) -> list[str | Path]:
        """End the program and return the remaining traces."""
        prefix = self.prefix
        assert self.traces(prefix)
        guard = os.pidfd_open(self.guard)
        end()
        self.program.wait(LIMIT_S)
        assert select.select([guard], [], [], LIMIT_S)[0]
        os.close(guard)
        return self.traces(prefix)


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return command.install(tmp_path_factory.mktemp("a blank's") / "b in") / command.PROGRAM


@pytest.fixture
def running(program: Path, tmp_path: Path) -> Iterator[Running]:
    """The program, started like a build's command: with a relative path and another Python's variables."""
    served_models.write(served_models.python_model(), tmp_path / "models")
    (tmp_path / "tmp").mkdir()
    environment = {
        **os.environ,
        "TMPDIR": str(tmp_path / "tmp"),
        "PYTHONHOME": "/none",
        "PYTHONPATH": "/none",
    }
    process = subprocess.Popen(
        [program, "--model-repository=models", "--allow-grpc=false", "--allow-http=false",
         "--allow-metrics=true", "--metrics-address=127.0.0.1", "--metrics-port=0"],
        cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    for line in process.stderr:
        if "Started Metrics Service" in line:
            break
    (guard,) = children(process.pid)
    yield Running(program=process, folder=tmp_path, server=children(guard)[0])
    process.kill()
    process.wait()
    process.stderr.close()


@pytest.mark.parametrize(
    ("end", "status"),
    [
        (lambda running: running.program.terminate(), 0),
        (lambda running: running.program.kill(), -signal.SIGKILL),
        (lambda running: os.kill(running.server, signal.SIGKILL), 128 + signal.SIGKILL),
    ],
    ids=["stopped", "killed", "server killed"],
)
def test_nothing_stays_of_a_program_however_it_ends(
    running: Running, end: Callable[[Running], None], status: int
) -> None:
    assert running.after(lambda: end(running)) == []
    assert running.program.returncode == status


def test_the_servers_own_words_and_status_are_the_programs(program: Path) -> None:
    run = subprocess.run([program, "--no-such-flag"], capture_output=True, text=True, check=False)
    assert "unrecognized option '--no-such-flag'" in run.stderr
    assert run.returncode == 1


def test_a_machine_without_the_server_is_reported_to_set_it_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from triton_rehearsal.triton.runtime import find_runtime

    monkeypatch.setattr(command, "find_runtime", lambda: find_runtime(Path("/none")))
    assert command.main([]) == 1
    assert "make rehearse" in capsys.readouterr().err


def test_a_server_has_the_pythonpath_of_the_image_and_no_other_setting_of_the_builds_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE"):
        monkeypatch.setenv(name, "/of-the-image")
    kept = {name: value for name, value in server_environment().items() if name.startswith("PYTHON")}
    assert kept == {"PYTHONPATH": "/of-the-image", "PYTHONNOUSERSITE": "1", "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.mark.story
def test_a_model_does_not_run_in_the_folder_of_the_build(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The image's PYTHONPATH ends with a colon, so files in the working directory could be imported."""
    (tmp_path / "of_the_build.py").touch()
    monkeypatch.chdir(tmp_path)
    looks = "import os\nassert not os.path.exists('of_the_build.py')\n"
    root = served_models.write(served_models.python_model(looks + served_models.IDENTITY), tmp_path / "root")

    with local_server(program) as server, server.loaded(root, "identity"):
        answer = server.infer("identity", {"X": np.ones((1, 2), np.float32)}, where="a request")
    assert answer["Y"].tolist() == [[1, 1]]


# The environment of builds


aws = aws_fixture(scope="module")


def test_the_command_of_a_processing_job_finds_it_on_path(aws: EmbeddedAws) -> None:
    request = {
        "ProcessingJobName": "finds",
        "AppSpecification": {
            "ImageUri": "image",
            "ContainerEntrypoint": ["bash", "-c", "tritonserver --help 2>&1 | grep -- --model-repository"],
        },
        "ProcessingResources": {"ClusterConfig": {"InstanceType": "ml.g4dn.xlarge"}},
    }
    assert run_job(aws, request) is None
