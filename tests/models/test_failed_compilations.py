"""A network that TensorRT cannot take, a compilation that never ends: one error each, with a log to read."""

import os
import select
from pathlib import Path

import pytest
from test_tensorrt import encoder

from tests.reported import refused
from triton_models.builds.tensorrt.compiler import unknown_operators

# As TensorRT 10 and 8 write it: onnx/onnx-tensorrt issue 800, NVIDIA/TensorRT issue 4488 and
# antgroup/ditto-talkinghead issue 45, shortened.
TENSORRT_10 = """\
[10:00:00] [I] [TRT] No importer registered for op: GridSample3D. Attempting to import as plugin.
[10:00:00] [E] [TRT] ModelImporter.cpp:961: While parsing node number 11 [GridSample3D -> "warped"]:
[10:00:00] [E] [TRT] ModelImporter.cpp:964: --- Begin node ---
input: "features"
op_type: "GridSample3D"
[10:00:00] [E] [TRT] ModelImporter.cpp:965: --- End node ---
[10:00:00] [E] [TRT] ModelImporter.cpp:967: ERROR: onnxOpCheckers:818 In function checkFallbackPluginImporter:
[6] creator && "Plugin not found, are the plugin name, version, and namespace correct?"
[10:00:00] [E] Failed to parse onnx file
"""
TENSORRT_8 = """\
[06:14:51] [E] [TRT] 3: getPluginCreator could not find plugin: Round version: 1
[06:14:51] [E] [TRT] ModelImporter.cpp:720: While parsing node number 5 [Round -> "rounded"]:
[06:14:51] [E] [TRT] ModelImporter.cpp:726: ERROR: importers:4643 In function importFallbackPluginImporter:
[8] Assertion failed: creator && "Plugin not found, are the plugin name, version, and namespace correct?"
[06:14:51] [E] Failed to parse onnx file
"""
PYTHON_API = (
    "In node 77 with name: /Sample and operator: GridSample3D (checkFallbackPluginImporter): INVALID_NODE: "
    'creator && "Plugin not found, are the plugin name, version, and namespace correct?"'
)
REFUSED_NODE = """\
[19:41:36] [E] [TRT] ModelImporter.cpp:961: While parsing node number 267 [Conv -> "conv"]:
[19:41:36] [E] [TRT] ModelImporter.cpp:964: --- Begin node ---
[19:41:36] [E] [TRT] ModelImporter.cpp:967: ERROR: ModelImporter.cpp:202 In function parseNode:
[6] Invalid Node - conv
[19:41:36] [E] Failed to parse onnx file
"""


def failing(log: str) -> str:
    """The end of a trtexec that says this and fails."""
    return f"cat <<'END'\n{log}END\nexit 1"


def failed_build(tiny, **given):
    return refused(tiny, encoder(), gpu="A10G", **given)


@pytest.mark.parametrize(
    ("log", "operators"),
    [
        (TENSORRT_10, ("GridSample3D",)),
        (TENSORRT_8, ("Round",)),
        (PYTHON_API, ("GridSample3D",)),
        ('While parsing node number 1 [Magic -> "x"]:\nPlugin not found', ("Magic",)),
        (TENSORRT_8 + TENSORRT_10, ("Round", "GridSample3D")),
        (REFUSED_NODE, ()),
        ("[I] No importer registered for op: Mine. Attempting to import as plugin.\n[I] Created it", ()),
    ],
)
def test_the_operators_that_tensorrt_does_not_know_are_read_from_the_log(log, operators):
    assert unknown_operators(log) == operators


def test_an_unknown_operator_is_one_error_with_the_model_the_operator_and_the_log(machine, tiny):
    machine(ending=failing(TENSORRT_10))
    problem = failed_build(tiny)
    assert problem.rule == "plan-operator"
    assert problem.what == "TensorRT 10.13.3.9 has no operator 'GridSample3D'"
    assert problem.where.startswith("model 'tiny': ")
    log = Path(problem.where.rpartition("the log is ")[2])
    assert TENSORRT_10 in log.read_text()
    assert log.read_text().startswith("$ ")


def test_a_failed_compilation_repeats_what_trtexec_complained_about(machine, tiny):
    machine(ending=failing(REFUSED_NODE))
    problem = failed_build(tiny)
    assert problem.rule == "plan-compile"
    assert "(exit status 1): While parsing node number 267 [Conv" in problem.what


def test_a_trtexec_that_says_it_is_done_and_writes_no_plan_is_an_error(machine, tiny):
    machine(ending='rm -f "${2#*=}"; exit 0')
    assert failed_build(tiny).rule == "not-a-plan"


def test_the_log_stays_beside_the_builds_and_not_in_the_artifact(machine, tiny, tmp_path):
    machine(ending="echo done compiling; exit 0")
    root = tiny(encoder(), gpu="A10G")
    assert not list(root.rglob("*.log"))
    assert "done compiling" in (tmp_path / "out" / ".logs" / "tiny" / "tiny.log").read_text()
    assert list((tmp_path / "out").glob("[!.]*")) == [root]


def test_the_log_of_a_failure_is_shown_where_nobody_watches(machine, tiny, capsys):
    machine(ending=failing(TENSORRT_8))
    failed_build(tiny)
    assert TENSORRT_8 in capsys.readouterr().err


def test_a_compilation_that_never_ends_is_ended_with_all_that_it_started(machine, tiny, tmp_path):
    os.mkfifo(tmp_path / "held")
    reader = os.open(tmp_path / "held", os.O_RDONLY | os.O_NONBLOCK)
    machine(ending=f"exec 3> {tmp_path / 'held'}; sleep 600 & wait")
    problem = failed_build(tiny, compile_timeout_s=2)
    assert problem.rule == "compile-timeout"
    assert problem.what == "compiling model.onnx was ended after the time limit of 2 seconds"
    assert not (tmp_path / "out" / "tiny").exists()
    assert select.select([reader], [], [], 60)[0], "a process that trtexec started still holds the pipe"
    os.close(reader)
