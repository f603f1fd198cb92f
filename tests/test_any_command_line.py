"""No argument list and no damaged file ends in a traceback: the status is 0, 1 or 2, and the output is clean.

The commands run in this process. AWS, sockets and other programs are replaced where Python reaches them.
"""

from __future__ import annotations

import argparse
import errno
import functools
import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import boto3
import botocore.loaders
import onnx
import pytest
from botocore.client import BaseClient
from botocore.exceptions import ClientError
from botocore.response import StreamingBody
from hypothesis import given, settings
from hypothesis import strategies as st

from triton_models.artifact.pack.pack import pack
from triton_models.base.outcome import printable
from triton_models.cli.main import VERBS, main, options_class
from triton_models.cli.parser import add_options
from triton_models.cli.starter.init import RECORD
from triton_models.deliver.results import ModelResult, Results
from triton_models.repository.tested import ArtifactsTested

FUZZ = os.environ.get("FLEET_FUZZ") == "1"

BUILD = """
import numpy as np
from triton_models.spec import *

BUILD = ModelDefinition(
    name="tiny",
    description="a copy",
    models=[PythonModel(name="tiny", code="model.py", inputs=[Tensor("X", "FP32", [1])],
                        outputs=[Tensor("Y", "FP32", [1])], max_batch_size=0)],
    examples=lambda: [Example(name="one", inputs={"X": np.ones([1], np.float32)})],
    reference=lambda inputs: {"Y": inputs["X"]},
    output="Y",
    tolerance=0,
)
"""
MODEL = "class TritonPythonModel:\n    def execute(self, requests):\n        return []\n"
CONFIG = """name: "tiny"
backend: "python"
input [ { name: "X" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "Y" data_type: TYPE_FP32 dims: [ 1 ] } ]
"""
SCENARIO = "about: a test\nmodels: 2\nmodel_size: 1MiB\ntraffic: [{requests_per_second: 1, seconds: 1}]\n"
TENSOR = {"name": "X", "datatype": "FP32", "shape": [1], "data": [1.0]}
BUILT: dict[str, Any] = {"model": "tiny", "release": "25.09", "gpu": None, "tensorrt": None, "sources": {}}
DONE = ModelResult(model="tiny", status="published", step="publish")
DOCUMENTS: dict[str, Any] = {
    "cdk.json": {"app": "false", "context": {"tritonFleet": {"models": ["tiny"], "stages": {"a": {}}}}},
    "built/tiny/build.json": BUILT,
    "requests": {"inputs": [TENSOR], "outputs": [{**TENSOR, "name": "Y"}]},
    "items.json": [{"models": "tiny"}],
    "results/a.json": Results(results=(DONE,)).as_dict(),
    "forest.json": {"learner": {"gradient_booster": {"name": "gbtree"}}, "version": [2, 0, 0]},
}
FROM_TO = "--from s3://bucket/a --to s3://bucket/b"
ADOPT = "adopt built/tiny/tiny --name new"
OF_A_MODEL = ("check built/tiny", "pack built/tiny -o out", "verify built/tiny", ADOPT)
READERS: dict[str, tuple[str, ...]] = {
    "cdk.json": ("rehearse", "rehearse --stage a", "report --base HEAD", ADOPT),
    "model_builds/models/tiny/build.py": ("build tiny", "diff tiny", "compare tiny", "verify built/tiny"),
    "model_builds/models/tiny/model.py": ("build tiny", "new other --like tiny"),
    "built/tiny/build.json": OF_A_MODEL,
    "built/tiny/tiny/config.pbtxt": OF_A_MODEL,
    "built/tiny/tiny/1/model.py": OF_A_MODEL,
    "artifact.tar.gz": ("check artifact.tar.gz", "adopt artifact.tar.gz --name new"),
    "net.onnx": ("new other --onnx net.onnx",),
    "forest.json": ("new other --forest forest.json",),
    "requests": (f"{ADOPT} --requests requests",),
    "items.json": ("summarize results --items items.json",),
    "results/a.json": ("summarize results",),
    "tested.json": (f"promote --only tested.json {FROM_TO}",),
    "manifest.json": (
        *("history", "rollback tiny", "prune --keep 1", f"promote --all {FROM_TO}", "diff tiny"),
        *("smoke --alias /a/b/endpoint", "check-endpoint --instance-type ml.g5.2xlarge --release 25.09"),
    ),
    "scenario.yaml": ("rehearse --scenario scenario.yaml",),
    f"fleet/{RECORD}": ("init fleet --upgrade", "init fleet --upgrade --write"),
    ".aws": ("history",),
}
"""The files that verbs read, and command lines that read them."""

USUAL = "tiny built/tiny artifact.tar.gz new s3://bucket/models/ A10G 25.09 ml.g5.2xlarge 3 HEAD x.html"
HOSTILE = """x.png - -- -x --x= = ' " \\ Ünï 日本 -1 0 1e999 nan ½ ~ * a/b a/../b . absent absent/x results
net.onnx built/tiny/tiny cdk.json tiny: tiny:x s3:// s3://b/x s3://bucket//x s3://bücket/x hf:// hf://a@b
500MiB {} [1 ${HOME} $(ls) %s {0} a:b:c sm86-trt10.13.3 steady"""
SPACED = ("", " ", "a'b\"c", "\x1b[2J", "a\nb", "a\tb", "\r", "\u202e", "\udcff", "9" * 5000, "a" * 300)
COMMIT = "-c user.name=a -c user.email=a@b commit -qm a"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with one file of each kind that a verb reads."""
    folder = tmp_path_factory.mktemp("template")
    texts = {path: json.dumps(document) for path, document in DOCUMENTS.items()} | {
        "model_builds/models/tiny/build.py": BUILD,
        "model_builds/models/tiny/model.py": MODEL,
        "built/tiny/tiny/config.pbtxt": CONFIG,
        "built/tiny/tiny/1/model.py": MODEL,
        "scenario.yaml": SCENARIO,
        ".aws": "[default]\nregion = us-east-1\n",
    }
    for path, text in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    ends = [onnx.helper.make_tensor_value_info(name, 1, ["rows", 2]) for name in ("X", "Y")]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Neg", ["X"], ["Y"])], "g", ends[:1], ends[1:])
    opsets = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, ir_version=8, opset_imports=opsets), folder / "net.onnx")
    assert main(["init", str(folder / "new"), "--name", "Fleet"]) == 0
    (folder / "fleet").mkdir()
    shutil.move(folder / "new" / RECORD, folder / "fleet")
    shutil.rmtree(folder / "new")  # a copy of the rest takes long
    for line in ("init -q --template=", "add cdk.json", COMMIT, "gc -q"):
        subprocess.run(["git", *line.split()], cwd=folder, check=True)
    packed = pack(folder / "built/tiny", output=folder)
    packed.path.rename(folder / "artifact.tar.gz")
    shutil.copyfile(folder / "artifact.tar.gz", folder / packed.path.name)
    tested = {"tiny": packed.sha256}
    of_a = ArtifactsTested(repository="s3://bucket/a/", target=None, artifacts=tested, passed=True)
    of_a.write(folder / "tested.json")
    record = {"size": 1, "sha256": packed.sha256, "build": {}, "plans": [], "portable": False}
    model = {"current": packed.path.name, "history": [], "artifacts": {packed.path.name: record}}
    (folder / "manifest.json").write_text(json.dumps({"version": 1, "models": {"tiny": model}}))
    return folder


def of_aws(_client: Any, operation: str, _parameters: Any) -> dict[str, Any]:
    """Answer as AWS: every object is manifest.json, and nothing else is allowed."""
    code = "AccessDenied"
    if operation == "GetObject":
        with suppress(OSError):
            content = Path("manifest.json").read_bytes()
            return {"Body": StreamingBody(io.BytesIO(content), len(content)), "ETag": '"1"'}
        code = "NoSuchKey"
    raise ClientError({"Error": {"Code": code, "Message": "no"}}, operation)


def refused(*_: object) -> None:
    raise OSError(errno.EADDRINUSE, "refused by the test")


START = subprocess.Popen.__init__
LOADER = functools.cache(botocore.loaders.create_loader)  # it reads the API models once


def start(self: Any, arguments: Any, *more: Any, **options: Any) -> None:
    """Start git; all other programs fail."""
    if isinstance(arguments, str) or arguments[0] != "git":
        arguments = [shutil.which("false")]
        options = {**options, "executable": None, "shell": False}
    START(self, arguments, *more, **options)


@contextmanager
def workplace(template: Path) -> Iterator[Path]:
    """Enter a copy of the template, outside of which nothing happens."""
    before = Path.cwd()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "FLEET_"))}
    with TemporaryDirectory() as temporary, ExitStack() as patched:
        folder = Path(temporary) / "here"
        shutil.copytree(template, folder, symlinks=True)
        home = {"HOME": temporary, "XDG_STATE_HOME": temporary, "FLEET_REPOSITORY": "s3://bucket/models/"}
        keys = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_EC2_METADATA_DISABLED": "true"}
        keys["AWS_CONFIG_FILE"] = str(folder / ".aws")
        patched.enter_context(mock.patch.dict(os.environ, {**kept, **home, **keys}, clear=True))
        for owner, name, replacement in (
            (BaseClient, "_make_api_call", of_aws),
            (socket.socket, "connect", refused),
            (socket, "getaddrinfo", refused),
            (botocore.loaders, "create_loader", LOADER),
            (subprocess.Popen, "__init__", start),
            (signal, "signal", lambda *_: signal.SIG_DFL),
            (sys, "stdin", io.StringIO()),
        ):
            patched.enter_context(mock.patch.object(owner, name, replacement))
        boto3.DEFAULT_SESSION = None  # each command has a process of its own
        os.chdir(folder)
        try:
            yield folder
        finally:
            os.chdir(before)


def run(arguments: list[str]) -> None:
    """Run a command line, and look at its end."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            status: object = main(arguments)
        except SystemExit as ended:
            status = ended.code
    assert status in {0, 1, 2}
    said = out.getvalue() + err.getvalue()
    assert said == printable(said)
    assert "Traceback" not in said
    assert status == 0 or said.strip()
    if "--json" in arguments and "--" not in arguments and status != 2:
        json.loads(out.getvalue())


TEXT = st.text(st.characters(exclude_characters="\0/", exclude_categories=["Cs"]))
VALUES = (
    st.sampled_from(USUAL.split()) | st.sampled_from([*HOSTILE.split(), *SPACED]) | TEXT.filter("..".__ne__)
)


def options(draw: st.DrawFn, parser: argparse.ArgumentParser) -> list[str]:
    """Draw arguments of a parser: those that it requires, and some of the others."""
    given: list[str] = []
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction):
            continue
        if action.required or draw(st.integers(0, 2)) == 0:
            option = action.option_strings[-1:]
            if action.nargs == 0:
                given += option
            elif option and action.nargs is None:
                given.append(f"{option[0]}={draw(VALUES)}")
            else:
                given += [*option, *draw(st.lists(VALUES, min_size=1, max_size=2 if action.nargs else 1))]
    return given


@st.composite
def argument_lists(draw: st.DrawFn) -> list[str]:
    """A verb with arguments."""
    verb, parser = draw(st.sampled_from(list(VERBS))), argparse.ArgumentParser()
    add_options(parser, options_class(verb))
    parser.add_argument("--json", action="store_true")
    return [verb, *options(draw, parser)]


@settings(max_examples=5000 if FUZZ else 60)
@given(arguments=argument_lists())
def test_any_argument_list_ends_without_a_traceback(template: Path, arguments: list[str]) -> None:
    with workplace(template):
        run(arguments)


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes | None:
    """Draw what is left of a file; None for a folder in its place."""
    at, few, deep = draw(st.integers(0, len(content))), draw(st.binary(max_size=4)), b"[" * 100_000
    values = [found.span() for found in re.finditer(rb'"[^"]*"|[\w.-]+', content)]
    begin, end = draw(st.sampled_from(values or [(0, 0)]))
    value = draw(st.sampled_from([b"null", b"5", b"-1", b"1e999", b"true", b'"a"', b"[]", b"{}", b'["a"]']))
    left = [None, b"", value, b"\xff\xfe" + content, content.replace(b"}", b",}", 1), content[:at]]
    left += [content[:at] + few + content[at + more :] for more in (0, len(few))]
    left += [content[:at] + b"\0" + content[at:], deep, content.replace(b"[", deep, 1), b'{"a":' * 100_000]
    left += [content[:begin] + value + content[end:]] * 4
    return draw(st.sampled_from(left))


@settings(max_examples=2000 if FUZZ else 40)
@given(data=st.data())
def test_any_damaged_file_is_read_without_a_traceback(template: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(READERS)))
    line = data.draw(st.sampled_from(READERS[name]))
    with workplace(template) as folder:
        path = folder / name
        content = data.draw(damaged((template / name).read_bytes()))
        path.unlink()
        path.mkdir() if content is None else path.write_bytes(content)
        run(line.split())
