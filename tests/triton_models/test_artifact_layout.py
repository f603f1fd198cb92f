from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reported import reported
from tests.triton_models.hostile_archives import archive as archive_of
from tests.triton_models.hostile_archives import file
from tests.triton_models.model_folders import tar, write, write_ensemble, write_plain
from triton_models.artifact.layout import model_name, read_layout
from triton_models.base.errors import FleetError


def test_a_directory_and_its_archive_look_the_same(tmp_path: Path) -> None:
    root = write_ensemble(tmp_path / "minilm")

    directory, archive = read_layout(root), read_layout(tar(root, tmp_path / "minilm.tar.gz"))

    assert directory.files == archive.files
    assert directory.directories == archive.directories
    assert directory.texts == archive.texts
    assert directory.model == archive.model == "minilm"


def test_a_bare_model_directory_is_seen_inside_a_folder_of_its_name(tmp_path: Path) -> None:
    root = write_plain(tmp_path / "artifact")
    write(tmp_path / "net" / "1" / "model.onnx", b"w")

    assert read_layout(root / "resnet50").files == read_layout(root).files
    assert read_layout(root / "resnet50").model == "resnet50"
    assert set(read_layout(tmp_path / "net").files) == {"net/1/model.onnx"}  # without a configuration


def test_an_empty_folder_is_part_of_the_layout(tmp_path: Path) -> None:
    root = write_ensemble(tmp_path / "minilm")
    (root / "minilm" / "1" / ".keep").unlink()

    assert "minilm/1" in read_layout(root).directories


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

    assert layout.files["resnet50/2/model.onnx"] == layout.files["resnet50/labels.txt"] == len(b"weights")


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


def test_an_archive_is_not_unpacked_to_disk(tmp_path: Path) -> None:
    archive = tar(write_plain(tmp_path / "resnet50"), tmp_path / "resnet50.tar.gz")
    before = sorted(tmp_path.rglob("*"))

    read_layout(archive)

    assert sorted(tmp_path.rglob("*")) == before


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> bytes:
    folder = tmp_path_factory.mktemp("whole")
    return tar(write_ensemble(folder / "minilm"), folder / "minilm.tar.gz").read_bytes()


@pytest.fixture(scope="module")
def broken_path(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("broken") / "m.tar.gz"


@given(data=st.data())
def test_a_damaged_archive_is_never_a_traceback(data, whole: bytes, broken_path: Path) -> None:
    cut = data.draw(st.integers(0, len(whole)))
    at = data.draw(st.integers(0, len(whole) - 1))
    flip = data.draw(st.integers(0, 255))
    damaged = bytearray(whole)
    damaged[at] ^= flip
    broken_path.write_bytes(bytes(damaged[:cut]))

    with contextlib.suppress(FleetError):
        read_layout(broken_path)


def test_configurations_that_would_fill_the_memory_are_refused(tmp_path: Path) -> None:
    files = (file(f"net/{number}.pbtxt", bytes(1 << 20)) for number in range(65))
    write(tmp_path / "m.tar.gz", archive_of(*files))

    with reported("archive-limit"):
        read_layout(tmp_path / "m.tar.gz")


def test_a_file_of_another_kind_is_a_users_mistake(tmp_path: Path) -> None:
    write(tmp_path / "model.zip", b"PK")

    with reported("unreadable"):
        read_layout(tmp_path / "model.zip")


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("minilm-0123456789abcdef.tar.gz", "minilm"),
        ("a-b-0123456789abcdef.tar.gz", "a-b"),
        ("minilm.tar.gz", "minilm"),
        ("minilm-v2.tar.gz", "minilm-v2"),
    ],
)
def test_an_archives_name_says_the_models_name(file: str, name: str) -> None:
    assert model_name(Path(file)) == name
