"""`fleet check` on the Python environments of an artifact, and on its shared memory."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.triton_models.check_case import Spoil
from tests.triton_models.model_folders import (
    PYTHON_CODE,
    Edit,
    tar,
    write,
    write_ensemble,
    write_environment,
    write_plain,
)
from tests.triton_models.spoils import PACKAGES, both, having, said, tagged, without, written
from triton_models.check.check import check_path
from triton_models.check.target import target

NAME = "environment"
OWN = f"$$TRITON_MODEL_DIRECTORY/{NAME}"
SHARED = f"$$TRITON_MODEL_DIRECTORY/../{NAME}"
PYTHON = "minilm_pooling"

View = Callable[[Path], Path]


@pytest.fixture(params=["directory", "archive"])
def view(request: pytest.FixtureRequest, tmp_path: Path) -> View:
    """The same content, as a directory or as an archive."""
    if request.param == "directory":
        return lambda root: root
    return lambda root: tar(root, tmp_path / f"{root.name}.tar.gz")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An ensemble for release 25.09, one of whose steps has an environment of its own."""
    root = write_ensemble(tmp_path / "minilm")
    write_environment(root / PYTHON / NAME)
    name(root / PYTHON, OWN)
    return root


def name(model: Path, value: str) -> None:
    with Edit(model) as config:
        config.parameters["EXECUTION_ENV_PATH"].string_value = value


def problems(path: Path, *, release: str | None = None, endpoint: str = "multi-model") -> Iterator[str]:
    for problem in check_path(path, target=target(release=release, endpoint=endpoint)):
        yield f"{problem.rule}: {problem.what}"


CODE = "minilm_tokenizer/1/model.py"
ACCEPTED: dict[str, Spoil] = {
    "a .pth file that may lead to NumPy": both(without(PACKAGES), written(f"{PACKAGES}/more.pth", b"/opt\n")),
    "a wheel for every Python": tagged("py3-none-any"),
    "a wheel of the stable ABI": tagged("cp39-abi3-manylinux2014_x86_64"),
    "a wheel that was built here": tagged("cp312-cp312-linux_x86_64"),
    "as many instances as fit": said(PYTHON, "count: 1", "count: 63"),
    "an import that may fail": written(
        CODE, PYTHON_CODE + b"try:\n    import torch\nexcept ImportError:\n    pass\n"
    ),
    "an import for types": written(CODE, PYTHON_CODE + b"if typing.TYPE_CHECKING:\n    import torch\n"),
    "an import of a sibling": written(CODE, PYTHON_CODE + b"from . import torch\n"),
    "what the image has": written(
        CODE, PYTHON_CODE + b"import triton_python_backend_utils as utils, numpy, os.path\n"
    ),
}


@pytest.mark.parametrize("change", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_what_works_is_accepted(change: Spoil, root: Path) -> None:
    change(root)

    assert list(problems(root)) == []


@pytest.mark.parametrize("endpoint", ["multi-model", "single-model"])
def test_steps_of_an_ensemble_may_share_one_beside_them(root: Path, view: View, endpoint: str) -> None:
    (root / PYTHON / NAME).rename(root / NAME)
    for step in ("minilm_tokenizer", PYTHON):
        name(root / step, SHARED)

    assert list(problems(view(root), endpoint=endpoint)) == []


def test_a_plain_model_has_no_environment_beside_it(tmp_path: Path, view: View) -> None:
    root = write_plain(tmp_path / "scores")
    having("resnet50", backend="python")(root)
    write(root / "resnet50/1/model.py", PYTHON_CODE)
    write_environment(root / NAME)
    name(root / "resnet50", SHARED)

    (found,) = problems(view(root))

    assert found == "stray-directory: a folder 'environment' next to a plain model"


@pytest.mark.parametrize(
    ("python", "numpy", "release", "found"),
    [
        ("3.12", "2.2.6", "25.09", []),
        ("3.10", "1.26.4", None, []),
        ("3.10", "1.26.4", "25.09", ["environment.tar.gz is an environment of Python 3.10"]),
        ("3.10", "2.2.6", "24.09", ["environment.tar.gz has NumPy 2.2.6"]),
    ],
)
def test_a_packed_environment_is_looked_into(
    *, python: str, numpy: str, release: str | None, found: list[str], root: Path, view: View, tmp_path: Path
) -> None:
    write(root / "build.json", b'{"gpu": null}')
    shutil.rmtree(root / PYTHON / NAME)
    write_environment(tmp_path / NAME, python=python, numpy=numpy)
    tar(tmp_path / NAME, root / f"{NAME}.tar.gz")
    name(root / PYTHON, f"{SHARED}.tar.gz")

    assert list(problems(view(root), release=release)) == [f"packed-environment: {each}" for each in found]


def test_a_module_of_the_environment_is_accepted_and_another_is_not(root: Path, view: View) -> None:
    write(root / PYTHON / "1/model.py", PYTHON_CODE + b"import torch\nimport fast_one\nimport _native\n")
    found = [each for each in problems(view(root)) if each.startswith("python-import")]
    assert found == ["python-import: the model imports _native, fast_one, torch"]
    packages = root / PYTHON / NAME / "lib/python3.12/site-packages"
    for module in ("torch/__init__.py", "fast_one.py", "_native.cpython-312-x86_64-linux-gnu.so"):
        write(packages / module, b"")
    assert list(problems(view(root))) == []


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        (f"{NAME}.tar.gz", "python-parameter"),
        (f"./{NAME}", "python-parameter"),
        (f"$TRITON_MODEL_DIRECTORY/{NAME}", "python-parameter"),
        (f"models/$$TRITON_MODEL_DIRECTORY/{NAME}", "python-parameter"),
        ("/opt/environment", "environment-outside"),
        (f"$$TRITON_MODEL_DIRECTORY{NAME}", "python-parameter"),
    ],
)
def test_a_path_that_the_backend_does_not_find_below_the_model_is_refused(value, rule, root) -> None:
    name(root / PYTHON, value)

    found = check_path(root, target=target(endpoint="multi-model"))

    assert [problem.rule for problem in found if problem.rule.startswith(("python-p", "environment"))] == [
        rule
    ]


def test_the_fix_of_a_relative_path_is_accepted(root: Path) -> None:
    name(root / PYTHON, f"./{NAME}")
    [problem] = check_path(root, target=target(endpoint="multi-model"))
    assert f"write {OWN}," in (problem.fix or "")

    name(root / PYTHON, OWN)
    assert list(problems(root)) == []


def test_a_path_that_a_custom_image_or_a_server_of_ones_own_has_is_accepted(root: Path) -> None:
    name(root / PYTHON, "/opt/environment")
    shutil.rmtree(root / PYTHON / NAME)

    image = target(endpoint="multi-model", image_adds=["/opt/environment"])
    assert check_path(root, target=image) == []
    assert check_path(root / PYTHON, target=target(endpoint=None)) == []
    name(root / PYTHON, "")
    assert list(problems(root)) == []


FIL_EXAMPLE = """
name: "preprocessing" backend: "python" max_batch_size: 882352
input { name: "AMOUNT" data_type: TYPE_STRING dims: [ 1 ] }
input { name: "REST" data_type: TYPE_FP32 dims: [ 14 ] }
output { name: "OUTPUT" data_type: TYPE_FP32 dims: [ 15 ] }
instance_group { count: 1 kind: KIND_CPU }
"""


@pytest.mark.parametrize(
    ("more", "rules"),
    [("", []), ("dynamic_batching { }", ["python-shared-memory"])],
    ids=["one request", "several requests"],
)
@pytest.mark.parametrize("endpoint", ["multi-model", "single-model"])
def test_a_batch_of_one_request_is_as_large_as_a_payload(more, rules, endpoint, tmp_path: Path) -> None:
    """The largest batch of AWS's example of FIL, which its notebook deploys, would have 202 MiB."""
    write(tmp_path / "preprocessing/config.pbtxt", (FIL_EXAMPLE + more).encode())
    write(tmp_path / "preprocessing/1/model.py", PYTHON_CODE + b"import numpy\n")

    found = check_path(tmp_path, target=target(endpoint=endpoint))

    assert [problem.rule for problem in found] == rules
