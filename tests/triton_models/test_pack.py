from __future__ import annotations

import argparse
import gzip
import hashlib
import os
import random
import resource
import shutil
import tarfile
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reported import reported
from tests.triton_models.model_folders import tar, write, write_ensemble, write_plain
from triton_models.artifact.pack.pack import Artifact, pack
from triton_models.deliver.pack import run

NAMES = st.text("abcdefghijklmnopqrstuvwxyzäöü0123456789._- ", min_size=1, max_size=120).filter(
    lambda name: name not in {".", ".."} and len(name.encode()) < 250
)
EXTRAS = st.dictionaries(NAMES, st.binary(max_size=200), max_size=6)


@given(extras=EXTRAS, data=st.data())
def test_the_same_content_gives_the_same_bytes(extras: dict[str, bytes], data) -> None:
    orders = [list(extras), data.draw(st.permutations(list(extras)))]
    masks = data.draw(st.tuples(*[st.sampled_from([0o000, 0o022, 0o077])] * 2))
    seed = data.draw(st.integers(0, 2**32))
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        packed = []
        for folder, order, mask in zip((one, other), orders, masks, strict=True):
            before = os.umask(mask)
            try:
                root = write_plain(Path(folder, str(seed % 7), "resnet50"))
                for name in order:
                    write(root / "resnet50" / "extra" / name, extras[name])
                _age(root, random.Random(seed ^ mask))  # noqa: S311 (no secret)
                packed.append(pack(root, output=Path(folder, "out")))
            finally:
                os.umask(before)

        assert packed[0].path.read_bytes() == packed[1].path.read_bytes()
        assert packed[0].path.name == packed[1].path.name


def _age(root: Path, chance: random.Random) -> None:
    for path in sorted(root.rglob("*")):
        path.chmod(chance.choice([0o700, 0o755]) if path.is_dir() else chance.choice([0o600, 0o644, 0o755]))
        os.utime(path, (chance.randrange(2**31), chance.randrange(2**31)))


def test_the_name_is_the_beginning_of_the_contents_sha256(tmp_path: Path) -> None:
    artifact = pack(write_plain(tmp_path / "resnet50"), output=tmp_path / "out")

    sha256 = hashlib.sha256(artifact.path.read_bytes()).hexdigest()
    assert artifact.sha256 == sha256
    assert artifact.path == tmp_path / "out" / f"resnet50-{sha256[:16]}.tar.gz"
    assert artifact.size == artifact.path.stat().st_size


def test_the_archive_carries_no_trace_of_where_and_when_it_was_made(tmp_path: Path) -> None:
    artifact = pack(write_ensemble(tmp_path / "minilm"), output=tmp_path / "out")

    header = artifact.path.read_bytes()[:10]
    assert header[:4] == b"\x1f\x8b\x08\x00"  # no name, no comment
    assert header[4:8] == b"\x00\x00\x00\x00"  # no time
    with tarfile.open(artifact.path) as archive:
        members = archive.getmembers()
    assert [member.name for member in members] == sorted(member.name for member in members)
    assert {(m.mtime, m.uid, m.gid, m.uname, m.gname) for m in members} == {(0, 0, 0, "", "")}
    assert {(m.isdir(), m.mode) for m in members} == {(True, 0o755), (False, 0o644)}


def test_a_link_inside_is_packed_as_what_it_leads_to(tmp_path: Path) -> None:
    root = write_plain(tmp_path / "resnet50")
    (root / "resnet50" / "2").symlink_to("1")

    with tarfile.open(pack(root, output=tmp_path / "out").path) as archive:
        assert all(member.isfile() or member.isdir() for member in archive)
        copy = archive.extractfile("resnet50/2/model.onnx")
        assert copy is not None
        assert copy.read() == b"weights"


def test_packing_twice_leaves_one_file_with_the_build_record(tmp_path: Path) -> None:
    root = write_ensemble(tmp_path / "minilm", gpu="A10G")

    first, second = pack(root, output=tmp_path / "out"), pack(root, output=tmp_path / "out")

    assert first == second == Artifact.read(first.path)
    assert list((tmp_path / "out").iterdir()) == [first.path]
    assert first.build["gpu"] == "A10G"


def test_every_model_that_check_refuses_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    good, bad = write_plain(tmp_path / "resnet50"), write_plain(tmp_path / "other", name="other")
    shutil.rmtree(bad / "other" / "1")
    paths = [good, bad, tmp_path / "nothing"]

    with reported("version-missing", "unreadable"):
        run(argparse.Namespace(paths=paths, output=tmp_path / "out", copies=0))

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


def test_the_outcome_is_the_paths_one_a_line(tmp_path: Path) -> None:
    roots = [write_plain(tmp_path / "resnet50"), write_ensemble(tmp_path / "minilm")]

    outcome = run(argparse.Namespace(paths=roots, output=tmp_path / "out", copies=0))

    assert list(outcome.lines()) == [str(artifact.path) for artifact in outcome.artifacts]
    assert [each["model"] for each in outcome.as_dict()["artifacts"]] == ["resnet50", "minilm"]
