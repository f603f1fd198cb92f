"""Limits of packing: memory, time, and files that it refuses to read."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import triton_models.artifact.pack.pack as pack_module
from tests.reported import reported
from tests.triton_models.model_folders import peak_bytes, write, write_plain
from triton_models.artifact.layout import read_layout
from triton_models.artifact.pack.content import OnDisk
from triton_models.artifact.pack.pack import pack

PACK = """
from triton_models.artifact.pack.pack import pack
pack(Path(sys.argv[1]), output=Path(sys.argv[2]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("noise", [True, False], ids=["stored", "compressed"])
def test_memory_does_not_grow_with_the_model(noise: bool, tmp_path: Path) -> None:
    root = write_plain(tmp_path / "m")
    piece = os.urandom(1 << 20) if noise else bytes(1 << 20)
    peaks = []
    for megabytes in (1, 150):
        with (root / "resnet50" / "1" / "model.onnx").open("wb") as file:
            for _ in range(megabytes):
                file.write(piece)
        peaks.append(peak_bytes(PACK, root, tmp_path / "out"))

    assert peaks[1] - peaks[0] < 32 << 20
    assert peaks[1] < 80 << 20


def _meanwhile(monkeypatch, change: Callable[[], object]) -> None:
    """Do something after the model was read and before it is packed."""
    write_artifact = pack_module.write

    def changed(layout, **arguments):
        change()
        return write_artifact(layout, **arguments)

    monkeypatch.setattr(pack_module, "write", changed)


@pytest.mark.parametrize(
    "replace",
    [lambda weights: weights.symlink_to(weights.parents[3] / "secret"), os.mkfifo, lambda weights: None],
    ids=["a link, which is not followed", "a pipe, which is not waited for", "nothing"],
)
def test_what_takes_a_files_place_meanwhile_is_not_packed(
    replace: Callable[[Path], object], tmp_path: Path, monkeypatch
) -> None:
    root = write_plain(tmp_path / "m")
    weights = root / "resnet50" / "1" / "model.onnx"
    write(tmp_path / "secret", weights.read_bytes())

    def swap() -> None:
        weights.unlink()
        replace(weights)

    _meanwhile(monkeypatch, swap)

    with reported("changed-while-packed"):
        pack(root, output=tmp_path / "out")
    assert list((tmp_path / "out").glob("*")) == []


@pytest.mark.parametrize(
    "change",
    [lambda weights: os.truncate(weights, 3 << 20), lambda weights: weights.write_bytes(os.urandom(4 << 20))],
    ids=["shortened", "written anew"],
)
def test_a_file_that_changes_half_way_gives_no_artifact(
    change: Callable[[Path], object], tmp_path: Path, monkeypatch
) -> None:
    root = write_plain(tmp_path / "m")
    weights = root / "resnet50" / "1" / "model.onnx"
    write(weights, os.urandom(4 << 20))
    read, reads = OnDisk.read, []

    def changed(self: OnDisk, size: int, *, offset: int) -> bytes:
        reads.append(offset)
        if len(reads) == 6:  # four samples come first
            change(weights)
        return read(self, size, offset=offset)

    monkeypatch.setattr(OnDisk, "read", changed)

    with reported("changed-while-packed") as problems:
        pack(root, output=tmp_path / "out")
    assert problems[0].where == str(weights)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_configuration_that_changes_meanwhile_is_packed_as_it_was_checked(
    tmp_path: Path, monkeypatch
) -> None:
    root = write_plain(tmp_path / "m")
    config = root / "resnet50" / "config.pbtxt"
    checked = config.read_bytes()
    _meanwhile(monkeypatch, lambda: config.write_text("nonsense"))

    artifact = pack(root, output=tmp_path / "out")

    assert read_layout(artifact.path).texts["resnet50/config.pbtxt"] == checked
