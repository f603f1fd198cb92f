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
    def pack(root: Path, *arguments: str) -> list[Layout]:
        assert main(["pack", str(root), "-o", str(tmp_path / "dist"), *arguments]) == 0
        return [read_layout(Path(line)) for line in capsys.readouterr().out.splitlines()]

    return pack


def test_a_copy_is_accepted_by_check_and_what_is_no_model_keeps_its_name(packed, tmp_path: Path) -> None:
    root = write_ensemble(tmp_path / "minilm")
    write(root / "shared" / "vocabulary.txt", b"a b c")

    copies = packed(root, "--copies", "2")

    assert [each.model for each in copies] == ["minilm-1", "minilm-2"]
    for each in copies:
        assert not list(check_path(Path(each.where)))
        assert "shared/vocabulary.txt" in each.files
    with copies[0].opened("minilm_encoder-1/1/model.onnx") as network:
        assert network.read() == (root / "minilm_encoder" / "1" / "model.onnx").read_bytes()


def test_plans_and_other_configurations_say_the_new_name(tmp_path: Path) -> None:
    root = write_plain(tmp_path / "resnet50")
    record = {"model": "resnet50", "plans": {"resnet50/1/model.plan": {"gpu": "T4"}}}
    (root / "build.json").write_text(json.dumps(record))
    (root / "resnet50" / "configs").mkdir()
    (root / "resnet50" / "configs" / "cpu.pbtxt").write_text('name: "resnet50"')

    other = renamed(read_layout(root), {"resnet50": "net"})

    assert other.build() == {"model": "net", "plans": {"net/1/model.plan": {"gpu": "T4"}}}
    assert parse_config(other.texts["net/config.pbtxt"].decode(), where="").name == "net"
    assert parse_config(other.texts["net/configs/cpu.pbtxt"].decode(), where="").name == "net"
