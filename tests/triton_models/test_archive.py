"""The reader of archives: what it refuses, under which rule, and that it takes what common tools write."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
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
    long_name,
    record,
)
from tests.triton_models.model_folders import write
from triton_models.artifact.archive import ENVIRONMENT, LIMITS, Limits, members
from triton_models.artifact.unpacking.refusals import shown
from triton_models.base.errors import FleetError, Problem
from triton_models.pack.pack import Artifact

LONG = "/".join(["x" * 60] * 3)


def paths(content: bytes, *, limits: Limits = LIMITS) -> list[str]:
    return [member.path for member in members(io.BytesIO(content), where="m.tar.gz", limits=limits)]


def contents(content: bytes) -> dict[str, bytes]:
    return {
        member.path: member.content.beginning(member.size)
        for member in members(io.BytesIO(content), where="m.tar.gz")
        if member.kind == "file"
    }


def problems(content: bytes, *, limits: Limits = LIMITS) -> tuple[Problem, ...]:
    with pytest.raises(FleetError) as caught:
        paths(content, limits=limits)
    return caught.value.problems


def rules(content: bytes, *, limits: Limits = LIMITS) -> list[str]:
    return [problem.rule for problem in problems(content, limits=limits)]


# What is refused


@pytest.mark.parametrize("hostile", HOSTILE, ids=str)
def test_a_hostile_archive_has_one_error(hostile: Hostile) -> None:
    assert rules(hostile.make()) == [hostile.rule]


def test_all_members_that_are_wrong_are_named_at_once() -> None:
    found = problems(
        archive(file("/a"), header("b", kind=b"2"), header("c", kind=b"3"), file("d"), file("d"))
    )

    assert [(each.rule, each.where) for each in found] == [
        ("archive-name", "m.tar.gz: /a"),
        ("archive-link", "m.tar.gz: b"),
        ("archive-kind", "m.tar.gz: c"),
        ("archive-clash", "m.tar.gz: d"),
    ]


def test_what_was_found_before_the_damage_is_named_too() -> None:
    assert rules(gzipped(file("../a") + file("b"))) == ["archive-name", "archive-damaged"]


def test_an_archive_full_of_mistakes_is_not_read_to_its_end() -> None:
    assert len(problems(archive(*[file("../a")] * 1000))) == 51


def test_an_error_shows_no_control_characters_and_no_endless_name() -> None:
    assert shown(b"\x1b[31m\n\xff") == r"\x1b[31m\n\xff"
    assert len(shown("x" * 5000)) == 203


def test_whoever_reads_a_content_that_is_cut_gets_the_same_error() -> None:
    cut = gzipped(header("net/big", size=5000) + b"x" * 1000)
    (member,) = [next(iter(members(io.BytesIO(cut), where="m.tar.gz")))]

    with reported("archive-damaged"):
        member.content.beginning(5000)


def test_an_artifact_to_publish_is_read_as_strictly(tmp_path: Path) -> None:
    hostile = archive(header("net/a", kind=b"2", link=b"1/model.onnx"))
    path = tmp_path / f"net-{hashlib.sha256(hostile).hexdigest()[:16]}.tar.gz"
    path.write_bytes(hostile)

    with reported("archive-link"):
        Artifact.read(path)


# Limits


@pytest.mark.parametrize(
    ("limits", "content"),
    [
        (Limits(members=2), archive(file("a"), file("b"))),
        (Limits(unpacked_bytes=3000), archive(file("a", bytes(4000)))),
        (Limits(ratio=50, ratio_from_bytes=1 << 20), archive(file("a", bytes(2 << 20)))),
        (Limits(name_bytes=10), archive(file("net/longer-name"))),
        (Limits(path_bytes=20), archive(file("net/" + "a/" * 10 + "b"))),
        (Limits(depth=2), archive(file("a/b/c/d"))),
    ],
    ids=["members", "bytes", "ratio", "name", "path", "depth"],
)
def test_an_archive_beyond_a_limit_is_refused_and_within_it_is_read(limits: Limits, content: bytes) -> None:
    assert rules(content, limits=limits) == ["archive-limit"]
    assert paths(content)


def test_the_longest_name_path_and_depth_are_read() -> None:
    name, deep = b"x" * 255, b"d/" * 64 + b"file"
    long = b"/".join([b"x" * 199] * 19)
    made = archive(*(part for path in (name, deep, long) for part in (long_name(path), file("a"))))

    assert paths(made)[1:] == [name.decode(), deep.decode(), long.decode()]


PEAK = r"""
import re, sys
from pathlib import Path
from triton_models.artifact.archive import members
with open(sys.argv[1], "rb") as source:
    for member in members(source, where="it"):
        pass
print(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1])
"""


@pytest.mark.story
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_does_not_grow_with_the_archive(tmp_path: Path) -> None:
    peaks = []
    for megabytes in (1, 300):
        (tmp_path / "m.tar.gz").write_bytes(archive(file("a", bytes(megabytes << 20))))
        command = [sys.executable, "-c", PEAK, str(tmp_path / "m.tar.gz")]
        run = subprocess.run(command, check=True, capture_output=True, text=True)
        peaks.append(int(run.stdout) * 1024)

    assert peaks[1] - peaks[0] < 16 << 20


# What is taken


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_what_python_writes_is_read(form: int, tmp_path: Path) -> None:
    root = written(tmp_path)
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz", format=form) as made:
        made.add(root, arcname=".")

    assert contents(stream.getvalue()) == CONTENTS


@pytest.mark.skipif(shutil.which("tar") is None, reason="needs GNU tar")
@pytest.mark.parametrize("form", ["ustar", "gnu", "oldgnu", "pax", "posix"])
@pytest.mark.parametrize("start", [["."], ["net"]], ids=["with ./", "without"])
def test_what_gnu_tar_writes_is_read(form: str, start: list[str], tmp_path: Path) -> None:
    root = written(tmp_path)
    command = ["tar", "-czf", str(tmp_path / "m.tar.gz"), f"--format={form}", "-C", str(root), *start]
    subprocess.run(command, check=True)

    assert contents((tmp_path / "m.tar.gz").read_bytes()) == CONTENTS


CONTENTS = {"net/config.pbtxt": b"name", f"net/{LONG}/file": b"deep", "net/é": b"", "net/1/w": b"w" * 70_000}


def written(folder: Path) -> Path:
    for path, content in CONTENTS.items():
        write(folder / "root" / path, content)
    return folder / "root"


@pytest.mark.parametrize(
    "made",
    [
        lambda: GOOD + bytes(10_000),
        lambda: gzipped(file() + END + bytes(100 * 512)),
        lambda: gzipped(file() + bytes(1024)),
        lambda: archive(extended(record("comment", b"0123abc"), kind=b"g"), file()),
        lambda: archive(extended(record("LIBARCHIVE.xattr.a", b"\0\n="), record("mtime", b"-1.5")), file()),
        lambda: archive(header("net/", kind=b"5"), header("net/", kind=b"5"), file()),
        lambda: archive(header("net", kind=b"5"), header("./", kind=b"5"), file()),
        lambda: archive(file(kind=b"\0", magic=bytes(8))),
        lambda: archive(file(mtime=b"\xff" * 12)),
        lambda: archive(file(size_field=b"\x80".ljust(11, b"\0") + b"\1")),
        lambda: archive(long_name(b"net/config.pbtxt"), file("other")),
        lambda: archive(extended(record("path", b"net/config.pbtxt")), file("other")),
        lambda: archive(file(major=bytes(8))),
    ],
    ids=[
        "zeros after the gzip stream",
        "zeros after the archive",
        "an end of two blocks",
        "a remark for all",
        "attributes",
        "a folder twice",
        "a folder without a slash",
        "the oldest format",
        "a time before 1970",
        "a size in base 256",
        "a long name",
        "an extended path",
        "no device numbers",
    ],
)
def test_what_every_reader_reads_alike_is_read(made: Callable[[], bytes]) -> None:
    assert contents(made())["net/config.pbtxt"] == b"x"


def test_a_file_beyond_eight_gib_may_say_its_size_in_an_extended_header_only() -> None:
    huge = extended(record("size", b"%d" % (9 << 30))) + header("net/a")

    assert [problem.what for problem in problems(gzipped(huge))] == [
        f"the archive ends {9 << 30} bytes early"
    ]


def test_an_environment_may_hold_links_and_a_file_again_and_be_plain() -> None:
    plain = file("a") + file("a") + header("b", kind=b"2", link=b"/usr/bin/python3") + END
    found = [m.path for m in members(io.BytesIO(plain), where="it", form=ENVIRONMENT)]

    assert found == ["a", "a", "b"]


def test_an_empty_file_is_said_to_be_empty_where_an_archive_may_be_plain() -> None:
    with reported("archive-damaged") as problems:
        list(members(io.BytesIO(b""), where="it", form=ENVIRONMENT))

    assert [(each.what, each.where) for each in problems] == [("the file is empty", "it")]


def test_an_environment_is_otherwise_read_as_strictly() -> None:
    with reported("archive-damaged"):
        list(members(io.BytesIO(os.urandom(5000)), where="it", form=ENVIRONMENT))
