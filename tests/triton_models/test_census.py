"""`fleet census`: what built models take, by a real server and an nvidia-smi that counts what is loaded."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.triton_models.declared_models import declare
from triton_models.artifact.layout import read_layout
from triton_models.artifact.profile import LEAST, LIKELY, MIB, MOST
from triton_models.base.errors import FleetError
from triton_models.builds.build import build
from triton_models.check.estimate import of_layout
from triton_models.cli.main import main
from triton_models.deliver.census import Usage, leaks, measure, measured_profile
from triton_models.deliver.verify.server import Server, local_server
from triton_models.deliver.verify.verify import declaration_of, examples_of
from triton_rehearsal.triton import command


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    declare(folder, "twice", rows=4)
    declare(folder, "broken", code="import os\n\nos._exit(1)\n")
    return folder


@pytest.fixture(scope="module")
def roots(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("roots")
    for each in ("twice", "broken"):
        build(each, output=folder, models=models)
    return folder


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return command.install(tmp_path_factory.mktemp("bin")) / command.PROGRAM


@pytest.fixture
def server(program: Path) -> Iterator[Server]:
    with local_server(program) as server:
        yield server


def with_gpu(folder: Path, used_mib: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put an nvidia-smi on the path whose memory is an expression of the shell."""
    program = folder / "nvidia-smi"
    program.write_text(
        "#!/bin/sh\n"
        f'case "$1" in *memory*) echo "$(({used_mib})) MiB";; *driver*) echo "Tesla T4, 535";; '
        "*) echo Tesla T4;; esac\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_a_copy_shows_what_each_further_model_takes_besides_the_libraries_of_the_first(
    roots: Path, models: Path, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = f"$(ls {server.repository} | wc -l)"
    with_gpu(tmp_path, f"165 + {loaded} * 300 + ({loaded} > 0) * 660", monkeypatch)
    root = roots / "twice"
    found = measure(root, examples_of(declaration_of(root, models)), server=server)
    assert found.first.gpu == (300 + 660) * MIB
    assert found.each.gpu == 300 * MIB
    assert found.each.host > 10 * MIB  # a Python process
    assert found.each.shared == 1 * MIB
    assert len(found.load_s) == 3
    assert sorted(found.busy_s) == [1, 4]
    assert found.leaks == {}
    estimated = of_layout(read_layout(root))
    profile = found.profile(estimated)
    assert profile.memory.values == (300 * MIB, 300 * MIB, 300 * MIB)
    assert profile.memory.source == "measured on Tesla T4, driver 535, Triton 2.51.0"
    assert profile.load_s.values[LEAST] <= profile.load_s.values[LIKELY] <= profile.load_s.values[MOST]
    assert profile.fetch_s == estimated.fetch_s


def test_without_a_gpu_the_estimate_of_its_memory_stays(roots: Path, models: Path, server: Server) -> None:
    root = roots / "twice"
    found = measure(root, examples_of(declaration_of(root, models)), server=server, cycles=2)
    estimated = of_layout(read_layout(root))
    assert found.profile(estimated) == estimated


@pytest.mark.parametrize("why", ["a GPU build", "a rehearsal", "a CPU build", "a stand-in", "no GPU"])
def test_build_jobs_measure_only_what_runs_on_their_gpu(  # noqa: PLR0917  fixtures
    why: str, roots: Path, models: Path, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "twice"
    shutil.copytree(roots / "twice", root)
    if why != "no GPU":
        with_gpu(tmp_path, "100", monkeypatch)
    if why == "a rehearsal":
        monkeypatch.setenv("FLEET_PORTABLE", "1")
    if why == "a stand-in":
        record = json.loads((root / "build.json").read_text())
        (root / "build.json").write_text(json.dumps({**record, "left_out": ["the plan of twice"]}))
    examples = examples_of(declaration_of(root, models))
    found = measured_profile(root, examples, server=server, cpu=why == "a CPU build")
    assert (found is not None) == (why == "a GPU build")
    assert server.alive == (why == "a GPU build")  # what is not measured takes no time


def test_the_command_measures_each_and_one_that_fails_stops_no_other(
    roots: Path, models: Path, program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["census", *map(str, (roots / "broken", roots / "twice")), "--models", str(models)]
    assert main([*given, "--tritonserver", str(program), "--here", "--cycles", "2", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)["paths"]
    assert [each["rule"] for each in found[str(roots / "broken")]["problems"]] == ["not-served"]
    assert found[str(roots / "twice")]["on"] == "CPU"
    assert found[str(roots / "twice")]["each_mib"]["host"] > 10


def test_without_a_gpu_it_has_to_be_asked_for(roots: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["census", str(roots / "twice")]) == 1
    assert "[census]" in capsys.readouterr().err


def test_a_model_without_examples_is_refused(roots: Path, server: Server) -> None:
    with pytest.raises(FleetError) as raised:
        measure(roots / "twice", [], server=server)
    assert [each.rule for each in raised.value.problems] == ["census"]


@pytest.mark.parametrize(
    ("host_mib", "leaking"),
    [
        ([100 + 2 * cycle for cycle in range(12)], ["host"]),
        ([100, 180, *(200 + 3 * (cycle % 2) for cycle in range(10))], []),
        ([100, 150, 200], []),
    ],
)
def test_what_grows_with_each_cycle_leaks_and_what_settles_does_not(
    host_mib: list[int], leaking: list[str]
) -> None:
    found = leaks([Usage(gpu=0, host=each * MIB, shared=0) for each in host_mib])
    assert sorted(found) == leaking
    if leaking:
        assert found["host"] == pytest.approx(2 * MIB)
