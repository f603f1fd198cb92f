"""The reader of archives: what it refuses, under which rule, and that it takes what common tools write."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.reported import reported
from tests.triton_models.hostile_archives import (
    END,
    GOOD,
    HOSTILE,
    Hostile,
    archive,
    extended,
    file,
    gzipped,
    header,
)
from tests.triton_models.model_folders import write
from triton_models.artifact.archive import ARTIFACT, ENVIRONMENT, Limits, members

LONG = "/".join(["x" * 60] * 3)


def paths(content: bytes, limits: Limits = ARTIFACT) -> list[str]:
    return [member.path for member in members(io.BytesIO(content), where="m.tar.gz", limits=limits)]


def contents(content: bytes) -> dict[str, bytes]:
    found = members(io.BytesIO(content), where="m.tar.gz")
    return {member.path: member.content.read() for member in found if member.kind == "file"}


# What is refused


@pytest.mark.parametrize("hostile", HOSTILE, ids=str)
def test_a_hostile_archive_has_one_error(hostile: Hostile) -> None:
    with reported(hostile.rule):
        paths(hostile.content)


def test_all_members_that_are_wrong_are_named_at_once_even_before_damage() -> None:
    wrong = (file("/a"), header("b\33[1m", kind=b"2"), header("c", kind=b"3"), file("d"), file("d"))

    with reported(
        "archive-name", "archive-link", "archive-kind", "archive-clash", "archive-damaged"
    ) as problems:
        paths(gzipped(b"".join(wrong)))

    with reported(*50 * ["archive-name"]):  # it is not read to its end
        paths(archive(*(file(f"../{number}") for number in range(1000))))
    assert [each.where for each in problems] == [
        "/a of m.tar.gz",
        r"b\x1b[1m of m.tar.gz",
        "c of m.tar.gz",
        "d of m.tar.gz",
        "m.tar.gz",
    ]


@pytest.mark.parametrize(
    ("limits", "content"),
    [
        (Limits(members=2), archive(file("a"), file("b"))),
        (Limits(unpacked_bytes=3000), archive(file("a", bytes(4000)))),
        (Limits(ratio=50, ratio_from_bytes=1 << 20), archive(file("a", bytes(2 << 20)))),
        (Limits(name_bytes=10), archive(file("net/longer-name"))),
        (Limits(path_bytes=20), archive(file("net/" + "a/" * 10 + "b"))),
        (Limits(depth=2), archive(file("a/b/c/d"))),
        (Limits(seconds=0), archive(file("a"))),
    ],
    ids=["members", "bytes", "ratio", "name", "path", "depth", "time"],
)
def test_an_archive_beyond_a_limit_is_refused_and_within_it_is_read(limits: Limits, content: bytes) -> None:
    with reported("archive-limit"):
        paths(content, limits)
    assert paths(content)


# What is taken


CONTENTS = {"net/config.pbtxt": b"name", f"net/{LONG}/file": b"deep", "net/é": b"", "net/1/w": b"w" * 70_000}


def written(folder: Path) -> Path:
    for path, content in CONTENTS.items():
        write(folder / "root" / path, content)
    return folder / "root"


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_what_python_writes_is_read(form: int, tmp_path: Path) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz", format=form) as made:
        made.add(written(tmp_path), arcname=".")

    assert contents(stream.getvalue()) == CONTENTS


@pytest.mark.skipif(shutil.which("tar") is None, reason="needs GNU tar")
@pytest.mark.parametrize("form", ["gnu", "posix"])
@pytest.mark.parametrize("start", [".", "net"], ids=["with ./", "without"])
def test_what_gnu_tar_writes_is_read(form: str, start: str, tmp_path: Path) -> None:
    root = written(tmp_path)
    command = ["tar", "-czf", str(tmp_path / "m.tar.gz"), f"--format={form}", "-C", str(root), start]
    subprocess.run(command, check=True)

    assert contents((tmp_path / "m.tar.gz").read_bytes()) == CONTENTS


@pytest.mark.parametrize(
    "content",
    [
        GOOD + bytes(10_000),
        gzipped(file() + END + bytes(100 * 512)),
        archive(extended("comment", b"0123abc", kind=b"g"), file()),
        archive(extended("LIBARCHIVE.xattr.a", b"\0\n="), file()),
        archive(header("net/", kind=b"5"), header("net", kind=b"5"), header("./", kind=b"5"), file()),
        archive(file(size_field=b"\x80".ljust(11, b"\0") + b"\1")),
    ],
    ids=["zeros", "zeros in it", "a remark for all", "attributes", "folders twice", "a size in base 256"],
)
def test_what_other_tools_write_is_read(content: bytes) -> None:
    assert contents(content)["net/config.pbtxt"] == b"x"


def test_a_file_beyond_eight_gib_may_say_its_size_in_an_extended_header() -> None:
    huge = gzipped(extended("size", b"%d" % (9 << 30)) + header("net/a"))

    assert next(members(io.BytesIO(huge), where="it")).size == 9 << 30


def test_an_environment_may_hold_links_and_a_file_again_and_be_plain() -> None:
    plain = file("a") + file("a") + header("b", kind=b"2", link=b"/usr/bin/python3") + END

    assert paths(plain, ENVIRONMENT) == ["a", "a", "b"]
