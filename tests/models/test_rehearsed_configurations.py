"""Models that ask for a GPU, built for a rehearsal on a machine without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rehearsal import generated_models
from triton_models.artifact.pbtxt import read_config, schema
from triton_models.artifact.plans import PORTABLE_VARIABLE
from triton_models.builds.build import CONFIG_HERE, build
from triton_models.check.check import check_path

KIND_GPU = schema().ModelInstanceGroup.KIND_GPU


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """Return a folder with a model that asks for a GPU, as AWS's examples do."""
    folder = tmp_path / "models"
    generated_models.declare(folder, "churn", 2)
    declaration = folder / "churn" / "build.py"
    text = declaration.read_text().replace("import Example,", "import Example, Instances,")
    instances = 'instances=Instances(count=2, kind="KIND_GPU"),\n            max_batch_size=8,'
    declaration.write_text(text.replace("max_batch_size=8,", instances))
    return folder


def test_a_rehearsed_build_adds_a_configuration_without_a_gpu_and_says_so(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(PORTABLE_VARIABLE, "1")
    root = build("churn", output=tmp_path / "out", models=models)
    (own,) = read_config(root / "churn" / "config.pbtxt").instance_group
    (here,) = read_config(root / "churn" / CONFIG_HERE).instance_group

    assert (own.kind, own.count) == (KIND_GPU, 2)
    assert (here.kind, here.count) == (schema().ModelInstanceGroup.KIND_AUTO, 2)
    assert "note: churn asks for a GPU" in capsys.readouterr().err
    assert check_path(root) == []


@pytest.mark.parametrize("portable", ["", "1"])
def test_a_build_for_cpus_does_not(
    portable: str, models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PORTABLE_VARIABLE, portable)
    root = build("churn", output=tmp_path / "out", models=models, cpu=True)

    assert not (root / "churn" / CONFIG_HERE).exists()


def test_a_configuration_of_the_models_own_stays(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PORTABLE_VARIABLE, "1")
    own = "(job.root / 'churn' / 'configs').mkdir(); (job.root / 'churn' / 'configs' / 'cpu.pbtxt').touch()"
    declaration = models / "churn" / "build.py"
    declaration.write_text(declaration.read_text().replace("    pass\n", f"    {own}\n"))
    root = build("churn", output=tmp_path / "out", models=models)

    assert (root / "churn" / CONFIG_HERE).read_text() == ""
