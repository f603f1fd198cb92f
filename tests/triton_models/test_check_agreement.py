"""`fleet check` accepts exactly the generated model directories that the real Triton server loads.

`make fuzz` tries thousands. Errors that only loading can find are excluded by the server's message.
"""

from __future__ import annotations

import functools
import itertools
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.triton_models.broken_models import ENSEMBLE
from tests.triton_models.broken_models import PLAIN as BROKEN
from tests.triton_models.check_case import Spoil
from tests.triton_models.config_strategies import Folder, changed, changed_ensemble
from tests.triton_models.model_folders import write_ensemble, write_plain
from tests.triton_models.plain_server import COMPILER, PlainServer
from tests.triton_models.test_check import VALID, VALID_ENSEMBLES
from triton_models.artifact.pbtxt import parse_config, to_text
from triton_models.check.check import check_path
from triton_models.check.target import PLAIN, CheckTarget
from triton_models.facts.releases import RELEASES

FUZZ = os.environ.get("FLEET_FUZZ") == "1"
EXAMPLES = int(os.environ.get("FLEET_FUZZ_EXAMPLES", "2000")) if FUZZ else 60

# What the bundled server is: 2.51.0.
SERVED = replace(PLAIN, release=RELEASES["24.10"])
COMPLETE = replace(SERVED, auto_complete=False)

# What the server says about what cannot be known without it, and why that is.
ONLY_LOADING = {
    "unable to find backend library": "whether the server has a backend of that name",
    "unable to find 'libtritonrepoagent_": "whether the server has a repository agent of that name",
    "has kind KIND_GPU but no GPUs are available": "whether the host has a GPU",
    "has kind KIND_CPU but specifies one or more GPUs": "whether the host has the GPUs that are named",
    "must specify 'data_type'": "whether a backend completes its configuration",
    "must specify 'dims'": "whether a backend completes its configuration",
}

# What the real backends refuse. The library that stands in for them here opens nothing and takes every batch.
BACKENDS_OWN = {
    "accelerator",
    "bf16-tensor",
    "graph-spec",
    "model-file-missing",
    "onnx-file",
    "onnx-tensor",
    "onnxruntime-parameter",
    "plan-type",
    "pytorch-output",
    "pytorch-parameter",
    "torchscript-file",
    "torchscript-tensor",
}
FILES = {
    "model.onnx": "onnxruntime",
    "model.plan": "tensorrt",
    "model.pt": "pytorch",
    "model.xml": "openvino",
}

# What only SageMaker minds, and what is wrong around the model directory.
ELSEWHERE = {"several-models", "stray-directory", "tensors-missing"}

# What an endpoint does not mind, what needs a GPU or a backend of the user's own, and what only the real
# backend of that name minds.
NOT_HERE = {
    "a backend of an image of the user's own",
    "a backend of the user's own in a library of another name",
    "an agent of an image of the user's own, which brings the files",
    "a backend of the user's own",
    "a warm-up of more than a batch",
    "a profile that the plan does not have",
    "groups on chosen GPUs",
}


# What has folders of fixed names, and what no other file can replace.
NOT_CHANGED = {"a model that another calls by itself", "a model that is a folder"}


def _but(rules: set[str], table: dict[str, dict[str, Spoil]]) -> dict[str, Spoil]:
    return {
        name: spoil for rule, broken in table.items() if rule not in rules for name, spoil in broken.items()
    }


HAND_MADE = {
    name: change
    for name, change in {**_but(ELSEWHERE | BACKENDS_OWN, BROKEN), **VALID}.items()
    if name not in NOT_HERE
}

SAGEMAKERS_OWN = {"config-missing", "ensemble-undetected"}
HAND_MADE_ENSEMBLES = {**_but(SAGEMAKERS_OWN, ENSEMBLE), **VALID_ENSEMBLES}

pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C compiler, for a backend without weights")

settled = settings(
    max_examples=EXAMPLES, database=None, derandomize=not FUZZ, suppress_health_check=list(HealthCheck)
)
numbers = itertools.count()


@pytest.fixture(scope="module")
def strict(tmp_path_factory) -> Iterator[PlainServer]:
    """A server that fills nothing in."""
    with PlainServer(tmp_path_factory.mktemp("strict"), auto_complete=False) as server:
        yield server


@pytest.fixture(scope="module")
def lenient(tmp_path_factory) -> Iterator[PlainServer]:
    """A server as it is started without flags."""
    with PlainServer(tmp_path_factory.mktemp("lenient"), auto_complete=True) as server:
        yield server


def _write(folder: Folder, directory: Path) -> None:
    directory.mkdir()
    for version in folder.versions:
        (directory / version).mkdir()
    for name, content in folder.files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(content)
    (directory / "config.pbtxt").write_text(to_text(folder.config))


def _agree(server: PlainServer, name: str, folders: Mapping[str, Folder], served: CheckTarget) -> None:
    for folder, content in folders.items():
        _write(content, server.repository / folder)
    try:
        problems = check_path(server.repository / name, target=served)
        loaded, said = server.load(name)
        if loaded:
            server.unload(name)
    finally:
        for folder in folders:
            shutil.rmtree(server.repository / folder)
    problems = [
        problem
        for problem in problems
        if problem.rule not in BACKENDS_OWN
        and not (problem.rule == "warm-up" and "batch_size" in problem.what)
    ]
    if loaded or not any(reason in said for reason in ONLY_LOADING):
        assert (not problems) == loaded, f"check: {[str(p) for p in problems]}\nserver: {said}"


TEXT = b"""name: 'NAME' backend: "null" max_batch_size: 4
input { name: "a" data_type: TYPE_FP32 dims: -1 }
output { name: "b" data_type: TYPE_FP32 dims: [ 2, 3 ] }
"""

# Spellings that only one of two parsers might take.
SPELLINGS: dict[str, tuple[bytes, bytes]] = {
    "as it is": (b"4", b"4"),
    "a byte order mark": (b"name: 'NAME'", b"\xef\xbb\xbfname: 'NAME'"),
    "a string in Latin-1": (b"output", b'parameters { key: "a" value { string_value: "\xe9" } } output'),
    "the number of no type": (b"TYPE_FP32 dims: -1", b"99 dims: -1"),
    "two schedulers": (b"output", b"dynamic_batching { } sequence_batching { } output"),
    "an empty list": (b"output", b"output { name: 'c' data_type: TYPE_INT8 dims: [] dims: 3 } output"),
    "a number too large": (b"max_batch_size: 4", b"max_batch_size: 4294967296"),
    "a minus with a space": (b"dims: -1", b"dims: - 1"),
    "two commas": (b"max_batch_size: 4", b"max_batch_size: 4,,"),
    "lines of Windows": (b"\n", b"\r\n"),
    "a string over two lines": (b'"null"', b'"nu\nll"'),
    "an unknown escape": (b'"null"', b'"\\null\\y"'),
    "a zero byte": (b"output", b"\0output"),
    "a brace too many": (b"dims: [ 2, 3 ] }", b"dims: [ 2, 3 ] } }"),
    "an extension": (b"output", b"[nothing.known]: 3 output"),
    "text of other scripts in a string": (
        b"output",
        'metric_tags { key: "a" value: "\u00a0\u2028" } output'.encode(),
    ),
    "text of other scripts in a comment": (b"output", "# a\u00a0b\u2028c\x1c\noutput".encode()),
    "a digit of full width": (b"4", "\uff14".encode()),
    "a byte of Latin-1 outside a string": (b"output", b"\xa0output"),
    **{
        f"U+{ord(blank):04X}": (b"\noutput", f"{blank}output".encode())
        for blank in "\u00a0\u3000\u2028\u0085\u202f\u2003\u1680\ufeff\u200b\v\f\x1c\x1f\x7f\x08"
    },
    "a float with an f": (
        b"output",
        b"sequence_batching { direct { minimum_slot_utilization: 0.5f } } output",
    ),
}


@pytest.mark.parametrize(("old", "new"), SPELLINGS.values(), ids=SPELLINGS.keys())
def test_they_agree_on_spellings(old: bytes, new: bytes, strict: PlainServer) -> None:
    name = f"h{next(numbers)}"
    folder = strict.repository / name
    (folder / "1").mkdir(parents=True)
    (folder / "config.pbtxt").write_bytes(TEXT.replace(old, new).replace(b"NAME", name.encode()))

    problems = check_path(folder, target=COMPLETE)
    loaded, said = strict.load(name)

    assert (not problems) == loaded, f"check: {[str(p) for p in problems]}\nserver: {said}"


@pytest.mark.parametrize("change", HAND_MADE.values(), ids=HAND_MADE.keys())
def test_they_agree_on_hand_made_models(change: Spoil, strict: PlainServer, tmp_path: Path) -> None:
    name = f"h{next(numbers)}"
    root = write_plain(tmp_path / "root")
    change(root)
    config = root / "resnet50" / "config.pbtxt"
    config.write_bytes(config.read_bytes().replace(b'name: "resnet50"', f'name: "{name}"'.encode()))
    shutil.copytree(root / "resnet50", strict.repository / name)

    problems = check_path(strict.repository / name, target=COMPLETE)
    loaded, said = strict.load(name)

    assert (not problems) == loaded, said


@pytest.mark.parametrize("change", HAND_MADE_ENSEMBLES.values(), ids=HAND_MADE_ENSEMBLES.keys())
def test_they_agree_on_hand_made_ensembles(change: Spoil, strict: PlainServer, tmp_path: Path) -> None:
    name = f"h{next(numbers)}"
    root = write_ensemble(tmp_path / "root")
    (root / "minilm_encoder" / "1" / "model.plan").write_bytes(b"plan")
    (root / "build.json").unlink()
    change(root)
    for folder in root.iterdir():
        renamed = strict.repository / folder.name.replace("minilm", name)
        shutil.copytree(folder, renamed)
        config = renamed / "config.pbtxt"
        if config.exists():
            text = config.read_text().replace("minilm", name).replace('"python"', '"null"')
            config.write_text(text)

    problems = check_path(strict.repository / name, target=COMPLETE)
    loaded, said = strict.load(name)

    assert (not problems) == loaded, said


Models = dict[str, tuple[str, Folder]]
"""By the names of folders: the text of a configuration, and what else is there."""


@functools.cache
def _valid(kind: str) -> tuple[Models, ...]:
    """What the hand-made valid models consist of."""
    table, write = (VALID, write_plain) if kind == "plain" else (VALID_ENSEMBLES, write_ensemble)
    found = []
    for change in [
        lambda root: None,
        *(each for name, each in table.items() if name not in NOT_HERE | NOT_CHANGED),
    ]:
        with tempfile.TemporaryDirectory() as folder:
            root = write(Path(folder))
            change(root)
            found.append({path.parent.name: _read(path.parent) for path in root.glob("*/config.pbtxt")})
    return tuple(found)


def _read(model: Path) -> tuple[str, Folder]:
    text = re.sub('backend: "[^"]+"', 'backend: "null"', (model / "config.pbtxt").read_text("latin-1"))
    files = {str(path.relative_to(model)): path.read_bytes() for path in model.rglob("*") if path.is_file()}
    del files["config.pbtxt"]
    versions = tuple(path.name for path in model.iterdir() if path.is_dir() and path.name.isdigit())
    return text, Folder(config=parse_config("", where=""), versions=versions, files=files)


def _draw(data: st.DataObject, kind: str, name: str) -> dict[str, Folder]:
    """One of the valid models under another name."""
    old = "resnet50" if kind == "plain" else "minilm"
    return {
        each.replace(old, name): replace(
            folder, config=parse_config(text.replace(old, name), where=""), files=dict(folder.files)
        )
        for each, (text, folder) in data.draw(st.sampled_from(_valid(kind))).items()
    }


CHANGES = st.sampled_from([0, 1, 1, 1, 2])


@settled
@given(data=st.data())
def test_check_accepts_the_models_that_the_server_loads(data: st.DataObject, strict: PlainServer) -> None:
    name = f"m{next(numbers)}"
    folder = _draw(data, "plain", name)[name]
    for _ in range(data.draw(CHANGES)):
        folder = data.draw(changed(folder))

    _agree(strict, name, {name: folder}, COMPLETE)


@settled
@given(data=st.data())
def test_check_accepts_the_ensembles_that_the_server_loads(data: st.DataObject, strict: PlainServer) -> None:
    name = f"e{next(numbers)}"
    folders = _draw(data, "ensemble", name)
    for _ in range(data.draw(CHANGES)):
        folders = data.draw(changed_ensemble(folders, name=name))

    _agree(strict, name, folders, COMPLETE)


@settled
@given(data=st.data())
def test_they_agree_with_auto_complete_as_well(data: st.DataObject, lenient: PlainServer) -> None:
    name = f"a{next(numbers)}"
    folder = _draw(data, "plain", name)[name]
    file = data.draw(st.sampled_from([*FILES, "x"]))
    for version in folder.versions:
        folder.files.pop(f"{version}/model.onnx", None)
        folder.files[f"{version}/{file}"] = b"weights"
    folder.config.backend = data.draw(st.sampled_from(["", FILES.get(file, "null"), "null"]))
    folder.config.platform = data.draw(st.sampled_from(["", "", "", "onnxruntime_onnx", "tensorrt_plan"]))
    for _ in range(data.draw(st.sampled_from([0, 1, 2]))):
        folder = data.draw(changed(folder))

    _agree(lenient, name, {name: folder}, SERVED)
