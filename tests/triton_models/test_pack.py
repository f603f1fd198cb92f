from __future__ import annotations

import gzip
import hashlib
import random
import resource
import shutil
import tarfile
from pathlib import Path

import pytest

from tests.reported import reported
from tests.triton_models.model_folders import tar, write, write_ensemble, write_plain
from triton_models.artifact.pack.pack import Artifact, pack
from triton_models.deliver.pack import PackOptions, run


def test_an_archive_is_named_after_its_content_without_a_trace_of_where_and_when_it_was_made(
    tmp_path: Path,
) -> None:
    root = write_ensemble(tmp_path / "minilm", gpu="A10G")
    artifact, again = pack(root, output=tmp_path / "out"), pack(root, output=tmp_path / "out")

    assert artifact == again == Artifact.read(artifact.path)
    assert artifact.build["gpu"] == "A10G"
    sha256 = hashlib.sha256(artifact.path.read_bytes()).hexdigest()
    assert (artifact.sha256, artifact.size) == (sha256, artifact.path.stat().st_size)
    assert list((tmp_path / "out").iterdir()) == [tmp_path / "out" / f"minilm-{sha256[:16]}.tar.gz"]
    header = artifact.path.read_bytes()[:10]
    assert header[:4] == b"\x1f\x8b\x08\x00"  # no name, no comment
    assert header[4:8] == b"\x00\x00\x00\x00"  # no time
    with tarfile.open(artifact.path) as archive:
        members = archive.getmembers()
    assert [member.name for member in members] == sorted(member.name for member in members)
    assert {(m.mtime, m.uid, m.gid, m.uname, m.gname) for m in members} == {(0, 0, 0, "", "")}
    assert {(m.isdir(), m.mode) for m in members} == {(True, 0o755), (False, 0o644)}


def test_every_model_that_check_refuses_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    good, bad = write_plain(tmp_path / "resnet50"), write_plain(tmp_path / "other", name="other")
    shutil.rmtree(bad / "other" / "1")
    paths = [good, bad, tmp_path / "nothing"]

    with reported("version-missing", "unreadable"):
        run(PackOptions(paths=paths, output=tmp_path / "out"))

    assert not (tmp_path / "out").exists()


def test_what_the_reader_of_archives_would_refuse_is_not_packed(tmp_path: Path) -> None:
    root = write_plain(tmp_path / "resnet50")
    write(root / "resnet50" / ("d/" * 64 + "file"), b"x")

    with reported("archive-limit"):
        pack(root, output=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_full_disk_half_way_leaves_nothing_behind(tmp_path: Path) -> None:
    root = write_plain(tmp_path / "resnet50")
    write(root / "resnet50" / "1" / "model.onnx", random.Random(0).randbytes(5 << 20))  # noqa: S311
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 20, hard))
    try:
        with reported("unwritable") as problems:
            pack(root, output=tmp_path / "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert problems[0].what == "cannot write the artifact: File too large"
    assert problems[0].where == str(tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    ("source", "output", "rule"),
    [
        ("resnet50", "resnet50.tar.gz", "unwritable"),
        ("resnet50", "resnet50/out", "unwritable"),
        ("resnet50.tar.gz", "out", "unreadable"),
    ],
    ids=["into a file", "into the model", "an archive"],
)
def test_what_cannot_be_packed_or_not_there_is_a_users_mistake(
    source: str, output: str, rule: str, tmp_path: Path
) -> None:
    root = write_plain(tmp_path / "resnet50")
    tar(root, tmp_path / "resnet50.tar.gz")

    with reported(rule):
        pack(tmp_path / source, output=tmp_path / output)

    assert not (root / "out").exists()


def test_a_file_whose_content_or_name_is_not_an_artifacts_is_refused(tmp_path: Path) -> None:
    artifact = pack(write_plain(tmp_path / "resnet50"), output=tmp_path / "out")
    content = gzip.decompress(artifact.path.read_bytes())
    artifact.path.write_bytes(gzip.compress(content))

    for path, rule in (
        (artifact.path, "artifact-changed"),
        (tar(tmp_path / "resnet50", tmp_path / "resnet50.tar.gz"), "artifact-name"),
        (tmp_path / "nothing", "unreadable"),
        (tmp_path / "nothing-0123456789abcdef.tar.gz", "unreadable"),
    ):
        with reported(rule):
            Artifact.read(path)
