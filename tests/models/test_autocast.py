"""FP16 on TensorRT 11: the network is converted by AutoCast, here by a package that stands in for it."""

import json

import pytest
from test_tensorrt import encoder

from triton_models.base.errors import FleetError

BANNER = "[TensorRT v110000] [b7]"
OPTIONS = [
    "--onnx_path=",
    "--output_path=",
    "--low_precision_type=fp16",
    "--keep_io_types",
    "--providers",
    "cpu",
]

COPIES = """
import pathlib, shutil, sys
given = dict(each.partition("=")[::2] for each in sys.argv[1:])
pathlib.Path(__file__).with_name("seen").write_text(" ".join(sys.argv[1:]))
shutil.copyfile(given["--onnx_path"], given["--output_path"])
print("Converted 1/1 nodes (100.00%) to fp16")
"""

RENAMES = """
import sys
import onnx
given = dict(each.partition("=")[::2] for each in sys.argv[1:])
model = onnx.load(given["--onnx_path"])
model.graph.output[0].name = model.graph.node[0].output[0] = "total"
onnx.save(model, given["--output_path"])
"""


@pytest.fixture
def autocast(machine, tmp_path, monkeypatch):
    """Make this a machine with TensorRT 11, and install a program as `python -m modelopt.onnx.autocast`.

    Returns trtexec's log and the file that gets the program's arguments.
    """
    log = machine(banner=BANNER, version=(11, 0, 0, 7))

    def install(program):
        folder = tmp_path / "packages" / "modelopt" / "onnx" / "autocast"
        folder.mkdir(parents=True)
        for package in (folder, folder.parent, folder.parent.parent):
            (package / "__init__.py").touch()
        (folder / "__main__.py").write_text(program)
        monkeypatch.syspath_prepend(tmp_path / "packages")
        monkeypatch.setenv("PYTHONPATH", str(tmp_path / "packages"))
        return log, folder / "seen"

    return install


def build_fp16(tiny):
    return tiny(encoder(precision="fp16"), gpu="A10G", release="26.06")


def test_the_converted_network_is_what_trtexec_compiles(autocast, tiny):
    log, seen = autocast(COPIES)
    root = build_fp16(tiny)
    source, converted, *rest = seen.read_text().split()
    assert [source.partition("=")[0] + "=", converted.partition("=")[0] + "=", *rest] == OPTIONS
    assert log.read_text().split()[0] == converted.replace("--output_path=", "--onnx=")
    assert [path.name for path in (root / "tiny" / "1").iterdir() if path.suffix != ".py"] == ["model.plan"]
    record = json.loads((root / "build.json").read_text())
    assert record["plans"]["tiny/1/model.plan"]["autocast"] == "nvidia-modelopt"


@pytest.mark.parametrize(
    ("program", "what"),
    [
        (
            "raise SystemExit('no kernel for Magic')",
            "converting model.onnx to FP16 failed (exit status 1): no kernel for Magic",
        ),
        ("pass", "AutoCast wrote no file"),
        (RENAMES, "AutoCast changed the network's inputs or outputs"),
    ],
    ids=["fails", "writes nothing", "renames"],
)
def test_a_conversion_that_goes_wrong_is_one_error_and_is_logged(program, what, autocast, tiny, tmp_path):
    autocast(program)
    with pytest.raises(FleetError) as caught:
        build_fp16(tiny)
    assert [problem.what for problem in caught.value.problems] == [what]
    log = (tmp_path / "out" / ".logs" / "tiny" / "tiny.log").read_text()
    assert ("no kernel for Magic" in log) == ("Magic" in program)
