"""`fleet pack --copies N`: one built model as many, each under names of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.triton_models.model_folders import write, write_ensemble, write_plain
from triton_models.artifact.layout import Layout, read_layout
from triton_models.artifact.pack.renaming import renamed
from triton_models.artifact.pbtxt import parse_config
from triton_models.check.check import check_path
from triton_models.cli.main import main


@pytest.fixture
def packed(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Pack a root with --copies, and return what is in each archive."""

    def pack(root: Path, *arguments: str) -> list[Layout]:
        assert main(["pack", str(root), "-o", str(tmp_path / "dist"), *arguments]) == 0
        return [read_layout(Path(line)) for line in capsys.readouterr().out.splitlines()]

    return pack


def test_each_copy_is_an_artifact_of_its_own_name_with_the_weights(packed, tmp_path: Path) -> None:
    copies = packed(write_plain(tmp_path / "resnet50"), "--copies", "3")

    assert [each.model for each in copies] == ["resnet50-1", "resnet50-2", "resnet50-3"]
    assert copies[0].beginning("resnet50-1/1/model.onnx", 64) == b"weights"


def test_a_copy_is_accepted_by_check_and_what_is_no_model_keeps_its_name(packed, tmp_path: Path) -> None:
    root = write_ensemble(tmp_path / "minilm")
    write(root / "shared" / "vocabulary.txt", b"a b c")

    for each in packed(root, "--copies", "2"):
        assert not list(check_path(Path(each.where)))
        assert "shared/vocabulary.txt" in each.files


def test_a_copy_of_an_ensemble_has_steps_of_its_own(packed, tmp_path: Path) -> None:
    (copy,) = packed(write_ensemble(tmp_path / "minilm"), "--copies", "1")

    config = parse_config(copy.texts["minilm-1/config.pbtxt"].decode(), where="")
    steps = [step.model_name for step in config.ensemble_scheduling.step]
    assert steps == ["minilm_tokenizer-1", "minilm_encoder-1", "minilm_pooling-1"]
    assert set(steps) < set(copy.children(""))


def test_the_configuration_and_the_build_say_the_copys_name(packed, tmp_path: Path) -> None:
    root = write_plain(tmp_path / "resnet50")
    (root / "build.json").write_text(json.dumps({"model": "resnet50", "release": "25.09"}))

    (copy,) = packed(root, "--copies", "1")

    assert parse_config(copy.texts["resnet50-1/config.pbtxt"].decode(), where="").name == "resnet50-1"
    assert copy.build() == {"model": "resnet50-1", "release": "25.09"}


def test_plans_and_other_configurations_say_the_new_name(tmp_path: Path) -> None:
    root = write_plain(tmp_path / "resnet50")
    (root / "build.json").write_text(json.dumps({"plans": {"resnet50/1/model.plan": {"gpu": "T4"}}}))
    (root / "resnet50" / "configs").mkdir()
    (root / "resnet50" / "configs" / "cpu.pbtxt").write_text('name: "resnet50"')

    other = renamed(read_layout(root), {"resnet50": "net"})

    assert other.build() == {"plans": {"net/1/model.plan": {"gpu": "T4"}}}
    assert parse_config(other.texts["net/configs/cpu.pbtxt"].decode(), where="").name == "net"


@pytest.mark.parametrize("count", ["0", "-1", "many"])
def test_a_number_of_copies_that_is_none_is_refused(
    count: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["pack", str(write_plain(tmp_path / "m")), "-o", str(tmp_path / "dist"), "--copies", count])

    assert exit_.value.code == 2
    assert "--copies" in capsys.readouterr().err
