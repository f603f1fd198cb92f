from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tests.reported import reported
from tests.triton_models.hostile_archives import archive as archive_of
from tests.triton_models.hostile_archives import file
from tests.triton_models.model_folders import tar, write, write_ensemble, write_plain
from triton_models.artifact import layout as layout_module
from triton_models.artifact.layout import read_layout


def test_a_directory_and_its_archive_look_the_same(tmp_path: Path) -> None:
    root = write_ensemble(tmp_path / "minilm")

    directory, archive = read_layout(root), read_layout(tar(root, tmp_path / "minilm.tar.gz"))

    assert directory.files == archive.files
    assert directory.directories == archive.directories
    assert directory.texts == archive.texts
    assert directory.model == archive.model == "minilm"


def test_what_tools_leave_behind_is_not_seen(tmp_path: Path) -> None:
    root = write_plain(tmp_path / "resnet50")
    before = read_layout(root)
    for name in ("__pycache__/a.pyc", ".ipynb_checkpoints/a", ".DS_Store"):
        write(root / "resnet50" / "1" / name, b"x")

    assert read_layout(root) == before


def test_a_link_inside_is_followed(tmp_path: Path) -> None:
    root = write_plain(tmp_path / "resnet50")
    (root / "resnet50" / "2").symlink_to("1")
    (root / "resnet50" / "labels.txt").symlink_to("1/model.onnx")

    layout = read_layout(root)

    size = (root / "resnet50" / "1" / "model.onnx").stat().st_size
    assert layout.files["resnet50/2/model.onnx"] == layout.files["resnet50/labels.txt"] == size


@pytest.mark.parametrize("path", ["resnet50", "resnet50/1/model.onnx"])
def test_what_may_not_be_read_is_reported_with_why_it_matters(path: str, tmp_path: Path, monkeypatch) -> None:
    root = write_plain(tmp_path / "resnet50")
    monkeypatch.setattr(os, "access", lambda entry, mode: Path(entry) != root / path)

    with reported("unpackable") as problems:
        read_layout(root)

    assert (problems[0].what, problems[0].where) == ("not readable", str(root / path))
    assert "the endpoint would lack it" in problems[0].why


def test_a_disk_that_cannot_be_read_is_reported_with_why_it_matters(tmp_path: Path, monkeypatch) -> None:
    root = write_plain(tmp_path / "resnet50")

    def fail(path: str) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    monkeypatch.setattr(os, "scandir", fail)
    with reported("unreadable") as problems:
        read_layout(root)

    assert problems[0].where == str(root)
    assert problems[0].why == "unreadable files can be neither checked nor packed"


def test_configurations_that_would_fill_the_memory_are_refused(tmp_path: Path) -> None:
    files = (file(f"net/{number}.pbtxt", bytes(1 << 20)) for number in range(65))
    write(tmp_path / "m.tar.gz", archive_of(*files))

    with reported("archive-limit"):
        read_layout(tmp_path / "m.tar.gz")


def test_a_file_of_another_kind_is_a_users_mistake(tmp_path: Path) -> None:
    write(tmp_path / "model.zip", b"PK")

    with reported("unreadable"):
        read_layout(tmp_path / "model.zip")


def test_the_contents_of_many_files_take_one_pass_over_an_archive(tmp_path: Path, monkeypatch) -> None:
    root, folder = write_plain(tmp_path / "m"), "resnet50/1"
    texts = {f"{folder}/part{number}.py": b"#" * 100 + b"%d" % number for number in range(5)}
    texts |= {f"{folder}/model.py": b"import torch" * 99, f"{folder}/empty.py": b""}
    for path, text in texts.items():
        write(root / path, text)
    directory, archive = read_layout(root), read_layout(tar(root, tmp_path / "m.tar.gz"))
    passes, members = [], layout_module.archive.members
    monkeypatch.setattr(
        layout_module.archive, "members", lambda *given, **named: passes.append(1) or members(*given, **named)
    )

    assert directory.contents([*texts, "absent.py"], 1000) == archive.contents([*texts, "absent.py"], 1000)
    assert len(passes) == 1
    assert archive.contents([f"{folder}/model.py", f"{folder}/empty.py"], 2000) == {
        f"{folder}/model.py": texts[f"{folder}/model.py"],
        f"{folder}/empty.py": b"",
    }
    assert len(passes) == 1  # the code of a model is kept
    assert directory.contents(texts, 1 << 20) == texts
