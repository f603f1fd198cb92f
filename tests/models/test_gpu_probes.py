"""`fleet probe gpu` in a scripted image: every belief true and false, and where nothing can be asked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scripted_image import DECLARATION, Scripted

from triton_models.builds.tensorrt.machine import IMAGE_TRTEXEC
from triton_models.cli.main import main
from triton_models.deliver.worker import Worker
from triton_models.probe.gpu.machine import IMAGE_VARIABLE, ran
from triton_models.probe.gpu.making import ask_python
from triton_models.probe.gpu.probes import PROBES
from triton_rehearsal.triton import command

pytestmark = pytest.mark.story

Probe = Callable[..., dict[str, Any]]

RIGHT = Scripted()
SMALL = ("minilm", "bert_tensorrt", "resnet50", "roberta_onnx", "t5_translation", "dali_inception")
ROOT = Path(__file__).parents[2]

# Replaces what it has written by something else.
NO_PLAN = 'for each; do case $each in --saveEngine=*) echo no plan > "${each#*=}";; esac; done'

# Each belief with what makes it false: an image or a machine that answers otherwise, and the environment.
FALSE: dict[str, tuple[Scripted, dict[str, str]]] = {
    "gpu-compute-capability": (RIGHT.but(gpu=("NVIDIA A10G", "580.82.07", "8.9", "23028")), {}),
    "gpu-memory": (RIGHT.but(gpu=("NVIDIA A10G", "580.82.07", "8.6", "16384")), {}),
    "cuda-min-driver": (RIGHT.but(python=("3.12.3", "35", "1.26.4 /n", "1.51.2 /d")), {}),
    "cuda-per-release": (RIGHT, {"CUDA_VERSION": "12.9.1"}),
    "python-per-release": (RIGHT.but(python=("3.10.12", "0", "1.26.4 /n", "1.51.2 /d")), {}),
    "image-python-path": (RIGHT, {"PYTHONPATH": ""}),
    "numpy-location": (RIGHT.but(python=("3.12.3", "0", "1.26.4 /usr/lib/numpy.py", "1.51.2 /d")), {}),
    "numpy-per-release": (
        RIGHT.but(python=("3.10.12", "0", "2.1.0 /n", "1.39.0 /d"), variables={IMAGE_VARIABLE: "24.09"}),
        {},
    ),
    "dali-in-image": (RIGHT.but(python=("3.12.3", "0", "1.26.4 /n", "1.50.0 {dali}/d.py")), {}),
    "server-in-image": (RIGHT.but(server=()), {}),
    "backends-in-image": (RIGHT.but(backends=("python", "tensorflow")), {}),
    "python-model-numpy": (RIGHT.but(model_numpy="/usr/lib/numpy/__init__.py"), {}),
    "forward-compatibility-in-image": (RIGHT.but(compat=()), {}),
    "onnxruntime-per-release": (RIGHT.but(onnxruntime="1.22.0"), {}),
    "agents-in-image": (RIGHT.but(agents=()), {}),
    "tensorrt-per-release": (RIGHT.but(packages="libnvinfer10 10.13.2.6-1+cuda13.0"), {}),
    "image-variables": (RIGHT, {"TRT_VERSION": "10.13.2.6"}),
    "trtexec-banner": (RIGHT.but(machine={"banner": "&&&& RUNNING TensorRT.trtexec"}), {}),
    "trtexec-options": (RIGHT.but(machine={"version": (11, 0, 0, 0)}), {}),
    "unknown-operator-message": (RIGHT.but(machine={"ending": "echo '[E] no idea'; exit 1"}), {}),
    "timing-cache-used": (RIGHT.but(machine={"ending": "exit 0"}), {}),
    "plan-compiles": (RIGHT.but(machine={"ending": "exit 1"}), {}),
    "plan-equals-reference": (RIGHT, {"REFUSED": "minilm_network"}),
    "plan-header-layout": (RIGHT.but(machine={"ending": NO_PLAN}), {}),
    "kind-auto-placement": (RIGHT.but(placed="CPU"), {}),
    "plan-version-refused": (RIGHT, {"LENIENT": "1"}),
    "same-compute-capability-turing": (
        RIGHT.but(gpu=("Tesla T4", "580.82.07", "7.5", "16384"), machine={"ending": "exit 1"}),
        {},
    ),
}
# More that makes one of these false.
ALSO_FALSE: dict[str, tuple[str, Scripted]] = {
    "a server only on PATH": ("server-in-image", RIGHT.but(server=("PATH",))),
    "a server only in its place": ("server-in-image", RIGHT.but(server=("place",))),
    "the right DALI in another folder": (
        "dali-in-image",
        RIGHT.but(python=("3.12.3", "0", "1.26.4 /n", "1.51.2 /usr/lib/d.py")),
    ),
    "a Python step on the GPU": ("kind-auto-placement", RIGHT.but(steps="GPU")),
}
# Those that a model decides by its answers.
OF_MODELS = {
    "bert_tensorrt": "bert-fp16-tolerance",
    "roberta_onnx": "onnxruntime-tf32",
    "dali_inception": "dali-gpu-decoding",
    "resnet50_torchscript": "libtorch-loads-newer-files",
    "t5_translation": "t5-on-cuda",
    "minilm": "every-model-verifies",
}


@pytest.fixture
def declared(models: Path) -> Path:
    """Small networks under the names of the repository's models."""
    for name in SMALL:
        (models / name).mkdir()
        (models / name / "build.py").write_text(DECLARATION.format(name=name))
    return models


@pytest.fixture
def probe(
    declared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Probe:
    """Run `fleet probe gpu` in a scripted image; returns its JSON document."""

    def run(
        scripted: Scripted, *only: str, arguments: tuple[str, ...] = (), **variables: str
    ) -> dict[str, Any]:
        scripted.install(tmp_path, monkeypatch)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        (tmp_path / "temporary").mkdir()
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
        given = ["--models", str(declared), "--transcript", str(tmp_path / "transcript.json"), *arguments]
        given += ["--only", *only] if only else []
        main(["probe", "gpu", *given, "--json"])
        assert list((tmp_path / "temporary").iterdir()) == []
        document: dict[str, Any] = json.loads(capsys.readouterr().out)
        return document

    return run


def outcomes(document: dict[str, Any]) -> dict[str, str]:
    return {each["belief"]: each["outcome"] for each in document["verdicts"]}


# Verdicts


def test_in_the_right_image_on_the_right_gpu_every_belief_is_true(probe: Probe) -> None:
    document = probe(RIGHT)
    found = outcomes(document)
    others = {belief: outcome for belief, outcome in found.items() if outcome != "true"}
    assert others == {"same-compute-capability-turing": "undecided"}  # an A10G is not the oldest
    assert set(found) == {belief for each in PROBES for belief in each.decides}
    assert (document["place"], document["release"], document["kind"]) == ("A10G", "25.09", "gpu")


def test_the_oldest_gpu_compiles_for_its_compute_capability(probe: Probe, tmp_path: Path) -> None:
    oldest = RIGHT.but(gpu=("Tesla T4", "580.82.07", "7.5", "16384"))
    document = probe(oldest, "hardware-level")
    assert outcomes(document) == {"same-compute-capability-turing": "true"}
    (verdict,) = document["verdicts"]
    assert "sameComputeCapability" in verdict["evidence"]


def test_an_error_of_another_kind_says_nothing_about_the_level(probe: Probe) -> None:
    unfinished = RIGHT.but(gpu=("Tesla T4", "580.82.07", "7.5", "16384"), machine={"ending": NO_PLAN})
    document = probe(unfinished, "hardware-level")
    assert outcomes(document) == {"same-compute-capability-turing": "undecided"}
    (verdict,) = document["verdicts"]
    assert "[not-a-plan]" in verdict["evidence"]


@pytest.mark.parametrize("belief", FALSE)
def test_a_belief_that_is_false_is_found_to_be(belief: str, probe: Probe) -> None:
    scripted, variables = FALSE[belief]
    assert outcomes(probe(scripted, belief, **variables))[belief] == "false"


@pytest.mark.parametrize("found", ALSO_FALSE)
def test_each_half_of_a_belief_can_make_it_false(found: str, probe: Probe) -> None:
    belief, scripted = ALSO_FALSE[found]
    assert outcomes(probe(scripted, belief))[belief] == "false"


def test_beliefs_that_rest_on_a_model_are_false_when_the_server_refuses_it(probe: Probe) -> None:
    refused = " ".join(f"{name}_network" for name in OF_MODELS)
    document = probe(RIGHT, *OF_MODELS.values(), REFUSED=refused)
    assert set(outcomes(document).values()) == {"false"}
    (every,) = (each for each in document["verdicts"] if each["belief"] == "every-model-verifies")
    assert "minilm [not-served]" in every["evidence"]


def test_a_missing_trtexec_is_found(probe: Probe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scripted, "install", _without_trtexec(Scripted.install))
    found = outcomes(probe(RIGHT, "tensorrt", "options"))
    assert found["trtexec-in-image"] == "false"
    assert found["trtexec-banner"] == found["trtexec-options"] == "undecided"


def _without_trtexec(install: Callable[..., Path]) -> Callable[..., Path]:
    def installed(*given: Any) -> Path:
        programs = install(*given)
        (programs / "trtexec").unlink()
        return programs

    return installed


def test_the_model_that_is_asked_for_its_numpy_is_served_by_a_real_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{command.install(tmp_path / 'bin')}:{os.environ['PATH']}")
    with Worker() as worker:
        ended = worker.do(ask_python, tmp_path / "root", name="python-model", seconds=120.0)
    assert ended.answer is not None, ended.problems
    assert Path(ended.answer["file"]).parts[-2:] == ("numpy", "__init__.py")


# Where nothing can be asked


def test_without_a_gpu_the_image_is_asked_all_the_same(probe: Probe) -> None:
    found = outcomes(probe(RIGHT.but(gpu=None), "gpus", "driver", "minilm", "numpy", "tensorrt"))
    assert {found[each] for each in ("gpu-memory", "cuda-min-driver", "plan-compiles")} == {"undecided"}
    assert {found[each] for each in ("numpy-location", "tensorrt-per-release")} == {"true"}


# Images and machines, and the probes that cannot decide anything there.
NOTHING_TO_ASK = {
    "a release without the level": (
        RIGHT.but(
            gpu=("Tesla T4", "580.82.07", "7.5", "16384"),
            variables={IMAGE_VARIABLE: "24.09"},
            machine={"version": (10, 4, 0, 0)},
        ),
        ("hardware-level",),
    ),
    "a GPU that the table lacks": (
        RIGHT.but(gpu=("NVIDIA Quadro 1", "580.82.07", "8.6", "23028")),
        ("gpus", "minilm"),
    ),
    "a driver that is too old": (RIGHT.but(gpu=("NVIDIA A10G", "470.256.02", "8.6", "23028")), ("driver",)),
    "no image": (RIGHT.but(variables={IMAGE_VARIABLE: ""}), ("release", "numpy", "tensorrt")),
}


@pytest.mark.parametrize("place", NOTHING_TO_ASK)
def test_where_nothing_can_be_asked_every_belief_is_undecided(place: str, probe: Probe) -> None:
    scripted, probes = NOTHING_TO_ASK[place]
    assert set(outcomes(probe(scripted, *probes)).values()) == {"undecided"}


def test_a_model_that_could_not_be_tried_leaves_its_beliefs_undecided(probe: Probe, declared: Path) -> None:
    path = declared / "minilm" / "build.py"
    path.write_text(path.read_text().replace("import onnx\n", "import no_such_package\n"))
    document = probe(RIGHT, "minilm", "other-plan", "models", arguments=("minilm", "resnet50"))
    assert set(outcomes(document).values()) == {"undecided"}


def test_where_no_model_is_declared_nothing_is_said_about_models(probe: Probe, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    document = probe(RIGHT, "minilm", "models", "cuda", arguments=("--models", str(tmp_path / "empty")))
    found = outcomes(document)
    assert (found["plan-compiles"], found["every-model-verifies"]) == ("undecided", "undecided")
    assert found["cuda-per-release"] == "true"


def test_with_names_only_those_models_are_built(probe: Probe) -> None:
    found = outcomes(probe(RIGHT, "minilm", "models", arguments=("bert_tensorrt",)))
    assert (found["plan-compiles"], found["every-model-verifies"]) == ("undecided", "true")


def test_what_the_image_shows_is_asked_without_a_package_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, declared: Path
) -> None:
    RIGHT.install(tmp_path, monkeypatch)
    arguments = ["--models", str(declared), "--transcript", str(tmp_path / "t.json"), "--json"]
    arguments += ["--only", "python", "tensorrt-per-release", "operator"]
    run = subprocess.run(
        [sys.executable, "-S", "-m", "triton_models", "probe", "gpu", *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT / "model_builds")},
        capture_output=True,
        text=True,
        check=False,
    )
    found = outcomes(json.loads(run.stdout))
    assert (found["python-per-release"], found["tensorrt-per-release"]) == ("true", "true")
    assert found["unknown-operator-message"] == "undecided"


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        (("--release", "25.04"), "other-release"),
        (("--gpu", "T4"), "gpu-absent"),
        (("minilmm",), "unknown-model"),
        (("--only", "minilmm"), "unknown-probe"),
    ],
)
def test_what_does_not_fit_is_one_error_before_anything_is_begun(
    arguments: tuple[str, ...], rule: str, probe: Probe, tmp_path: Path
) -> None:
    document = probe(RIGHT, arguments=arguments)
    assert [each["rule"] for each in document["error"]] == [rule]
    assert not (tmp_path / "transcript.json").exists()


def test_a_command_that_hangs_is_ended() -> None:
    assert ran("sleep", "1000", seconds=0.05).status == 124
    assert ran("no-such-command").status == 127


def runs(process: int) -> bool:
    """Return whether a process runs; one that has ended may wait for its new parent to notice."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def test_an_interrupt_leaves_no_process_no_folder_and_no_transcript(
    declared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = tmp_path / "begun"
    os.mkfifo(begun)
    hanging = RIGHT.but(machine={"ending": f"echo $$ > {begun}; exec sleep 1000"})
    hanging.install(tmp_path, monkeypatch)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    probing = [sys.executable, "-m", "triton_models", "probe", "gpu", "--models", str(declared)]
    process = subprocess.Popen(
        [*probing, "--only", "minilm", "--transcript", str(tmp_path / "transcript.json")],
        env={**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(ROOT / "model_builds")},
        stdout=subprocess.DEVNULL,
    )
    compiling = int(begun.read_text())

    process.send_signal(signal.SIGINT)

    assert process.wait(timeout=60) == 130
    assert list(temporary.iterdir()) == []
    assert not (tmp_path / "transcript.json").exists()
    assert not runs(compiling)


# What is left: a transcript and a table


def test_the_transcript_holds_the_verdicts_and_what_was_observed(probe: Probe, tmp_path: Path) -> None:
    document = probe(RIGHT, "numpy", "tensorrt")
    written = json.loads((tmp_path / "transcript.json").read_text())
    assert written == {key: value for key, value in document.items() if key != "path"}
    assert {each["id"] for each in written["observations"]} == {"numpy-of-image", "tensorrt-of-image"}


def test_the_table_says_the_facts_that_are_asked_for_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    RIGHT.install(tmp_path, monkeypatch)
    assert main(["probe", "gpu", "--only", "tensorrt", "--transcript", str(tmp_path / "t.json")]) == 0
    shown = capsys.readouterr().out
    assert "NVIDIA A10G, 8.6, 23028 MiB, driver 580.82.07" in shown
    assert f"NumPy: 1.26.4 {tmp_path}/dali/numpy/__init__.py" in shown
    assert "libnvinfer10 10.13.3.9-1+cuda13.0" in shown
    assert "4 true, 0 false, 0 undecided" in shown


def test_trtexec_is_looked_for_where_the_image_has_it() -> None:
    assert Path("/usr/src/tensorrt/bin/trtexec") == IMAGE_TRTEXEC
