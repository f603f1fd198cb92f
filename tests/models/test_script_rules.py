"""`fleet check` accepts the TorchScript networks that the PyTorch backend serves, and no others."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import torch

from tests.models.script_cases import FAILED, FAILED_BY_TYPE, REFUSED, SERVED, Takes, TakesOne, script
from tests.models.script_cases import ScriptCase as Case
from tests.triton_models.model_folders import write
from triton_models.artifact.networks import read_forward
from triton_models.artifact.pbtxt import as_json, read_text
from triton_models.base.errors import Problem
from triton_models.check.backend_rules.libtorch import Script, load_refusals, request_failures
from triton_models.check.check import check_path
from triton_models.check.target import target


def _check(folder: Path, config: str, content: bytes, file: str = "model.pt") -> list[Problem]:
    write(folder / "net/config.pbtxt", config.encode())
    write(folder / f"net/1/{file}", content)
    return check_path(folder)


def _rules_of(case: Case, folder: Path) -> tuple[list[str], list[str]]:
    write(folder / "rule/model.pt", script(case.network))
    forward = read_forward(folder / "rule/model.pt")
    assert forward is not None
    config = as_json(read_text(f'name: "net"\n{case.config()}', where="config.pbtxt"))
    network = Script(arguments=dict(forward.arguments), returns=forward.returns)
    refusals, failures = load_refusals(config, network), request_failures(config, network)
    return [each.message for each in refusals], [each.message for each in failures]


@pytest.mark.parametrize("case", SERVED, ids=str)
def test_a_script_that_the_backend_serves_is_accepted(case, tmp_path):
    assert _check(tmp_path / "it", case.config(), script(case.network)) == []
    assert _rules_of(case, tmp_path) == ([], [])


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_a_script_that_the_backend_does_not_load_is_refused_in_its_words(case, tmp_path):
    problems = _check(tmp_path / "it", case.config(), script(case.network))
    assert "torchscript-tensor" in {problem.rule for problem in problems}
    assert case.refused in _rules_of(case, tmp_path)[0][0]


@pytest.mark.parametrize("case", [*FAILED, *FAILED_BY_TYPE], ids=str)
def test_a_script_that_loads_and_fails_every_request_is_refused(case, tmp_path):
    problems = _check(tmp_path / "it", case.config(), script(case.network))
    assert {problem.rule for problem in problems} == {"torchscript-tensor"}
    refusals, failures = _rules_of(case, tmp_path)
    assert refusals == []
    assert case.failed in failures[0]


def _save(content: object, folder: Path, **options: bool) -> bytes:
    folder.mkdir(exist_ok=True)
    torch.save(content, folder / "saved", **options)
    return (folder / "saved").read_bytes()


def _export() -> bytes:
    content = io.BytesIO()
    torch.export.save(torch.export.export(TakesOne(), (torch.ones(1, 4),)), content)
    return content.getvalue()


PLAIN = Case(network=TakesOne)


def test_weights_or_a_module_saved_as_model_pt_are_not_torchscript(tmp_path):
    weights = torch.nn.Linear(4, 4)
    contents = {
        "state_dict": _save(weights.state_dict(), tmp_path),
        "module": _save(weights, tmp_path),
        "old": _save(weights.state_dict(), tmp_path, _use_new_zipfile_serialization=False),
        "program": _export(),
        "safetensors": (17).to_bytes(8, "little") + b'{"__metadata__":{}}',
    }
    for name, content in contents.items():
        problems = _check(tmp_path / name, PLAIN.config(), content)
        assert [problem.rule for problem in problems] == ["torchscript-file"], name
    assert _check(tmp_path / "traced", PLAIN.config(), _traced()) == []


def test_a_file_that_is_no_whole_archive_is_not_torchscript(tmp_path):
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"a" * 64 + b"\nsize 123\n"
    contents = {
        "nothing": (b"", "0 bytes"),
        "onnx": (b"\x08\x08\x3a\x00", "something else than a zip archive"),
        "cut": (_traced()[:-100], "a cut archive"),
        "half": (_traced()[:500], "a cut archive"),
    }
    for name, (content, what) in contents.items():
        [problem] = _check(tmp_path / name, PLAIN.config(), content)
        assert (problem.rule, what in problem.what) == ("torchscript-file", True), name
    problems = _check(tmp_path / "pointer", PLAIN.config(), pointer)
    assert [problem.rule for problem in problems] == ["lfs-pointer"]


SWITCHES = ("INFERENCE_MODE", "DISABLE_OPTIMIZED_EXECUTION", "ENABLE_WEIGHT_SHARING", "DISABLE_CUDNN")


@pytest.mark.parametrize(
    ("name", "value", "release", "is_right"),
    [
        *(
            (name, value, None, True)
            for name in SWITCHES
            for value in ("true", "ON", "1", "False", "off", "0")
        ),
        *((name, value, None, False) for name in SWITCHES for value in ("maybe", "yes", "", "2", "true ")),
        ("ENABLE_TENSOR_FUSER", "x", None, False),
        ("ENABLE_CACHE_CLEANING", "x", None, False),
        ("ENABLE_JIT_PROFILING", "x", None, False),
        ("ENABLE_JIT_EXECUTOR", "x", "24.03", False),
        ("DISABLE_CUDNN", "x", "24.05", True),  # read since 24.06
        ("DISABLE_CUDNN", "x", "24.06", False),
        ("INTRA_OP_THREAD_COUNT", "many", "24.04", True),  # read since 24.05
        ("INTRA_OP_THREAD_COUNT", "many", "24.05", False),
        ("INTER_OP_THREAD_COUNT", "", None, False),
        ("INTER_OP_THREAD_COUNT", "4 threads", None, True),  # std::stoi reads what it can
        ("INTRA_OP_THREAD_COUNT", "-1", None, True),
        ("INFERENCE_MODES", "maybe", None, True),  # nothing reads it
    ],
)
def test_parameters_have_values_that_the_backend_parses(name, value, release, is_right, tmp_path):
    config = PLAIN.config(f'parameters {{ key: "{name}" value {{ string_value: "{value}" }} }}')
    write(tmp_path / "net/config.pbtxt", config.encode())
    write(tmp_path / "net/1/model.pt", script(TakesOne))
    problems = check_path(tmp_path, target=target(release=release, auto_complete=True))
    assert [problem.rule for problem in problems] == ([] if is_right else ["pytorch-parameter"])


def test_weights_beside_the_code_of_pytorchs_python_runtime_are_accepted(tmp_path):
    write(tmp_path / "net/1/model.py", b"import torch\n")
    weights = _save(torch.nn.Linear(4, 4).state_dict(), tmp_path / "weights")
    (tmp_path / "weights/saved").unlink()
    (tmp_path / "weights").rmdir()
    assert _check(tmp_path, PLAIN.config('runtime: "model.py"'), weights) == []


def _traced() -> bytes:
    with torch.inference_mode():
        traced = torch.jit.trace(TakesOne(), torch.ones(1, 4))
    return bytes(traced.save_to_buffer())


def test_the_fix_of_names_without_a_position_is_accepted(tmp_path):
    wrong = Case(network=Takes, inputs=("X__1", "X__2"), outputs=("y",))
    [problem] = _check(tmp_path / "wrong", wrong.config(), script(Takes))
    assert "name the inputs like forward()'s arguments (x, y)" in (problem.fix or "")
    right = Case(network=Takes, inputs=("x", "y"), outputs=("y",))
    assert _check(tmp_path / "right", right.config(), script(Takes)) == []
