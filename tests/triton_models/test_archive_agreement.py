"""Whatever the reader takes, GNU tar and Python's tarfile read as the same files. FLEET_FUZZ=1 tries more.

Archives are put together from good and odd parts, and then bytes of their headers are changed.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import struct
import subprocess
import tarfile
import tempfile
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from tests.triton_models.hostile_archives import (
    BLOCK,
    END,
    extended,
    file,
    gzipped,
    header,
    long_name,
    record,
)
from triton_models.artifact.archive import members
from triton_models.base.errors import FleetError

FUZZ = os.environ.get("FLEET_FUZZ") == "1"
EXAMPLES = int(os.environ.get("FLEET_FUZZ_EXAMPLES", "20000")) if FUZZ else 150
GNU_TAR = shutil.which("tar")

pytestmark = pytest.mark.skipif(GNU_TAR is None, reason="needs GNU tar")

Tree = dict[str, bytes | None]
"""Path -> content; None for a folder."""

NAMES = st.sampled_from(
    ["a", "a/b", "a/b/c", "net/config.pbtxt", "./a", "a//b", "é", "x" * 99, "a/", "../a", "/a"]
)
MAGICS = st.sampled_from([b"ustar\00000", b"ustar  \0", bytes(8), b"ustar\0  "])
KINDS = st.sampled_from(
    [b"0", b"\0", b"5", b"0", b"5", b"7", b"1", b"2", b"S", b"V", b"x", b"g", b"L", b"K", b"?"]
)
DATA = st.sampled_from([b"", b"x", b"y" * 511, b"z" * 512, b"w" * 1500, file("hidden", b"h")])
KEYS = st.sampled_from(
    [b"path", b"size", b"mtime", b"comment", b"linkpath", b"GNU.sparse.name", b"uid", b"hdrcharset"]
)
VALUES = st.sampled_from([b"a", b"p/q", b"0", b"1", b"512", b"1024", b"", b"a\0b", b"1.5", b"1_0", b"BINARY"])
RECORDS = st.builds(record, KEYS, VALUES)
NUMBERS = st.sampled_from(
    [
        b"00000000001\0",
        b"           1",
        b"1\0",
        b"\0001\0",
        b"1_0\0",
        b"0o1\0",
        b"+1\0",
        b"-1\0",
        b"1 2\0",
        b"777777777777",
        b"\x80",
        b"\xff",
        b"\x80".ljust(11, b"\0") + b"\1",
        bytes(12),
    ]
)
FIELDS = st.dictionaries(
    st.sampled_from(
        ["mode", "uid", "gid", "size_field", "mtime", "major", "link", "at_345", "at_500", "at_265"]
    ),
    NUMBERS | st.sampled_from([b"net", b"a\0b", b"../x"]),
    max_size=1,
)


@st.composite
def odd_members(draw: st.DrawFn) -> bytes:
    return file(
        draw(NAMES),
        draw(DATA),
        kind=draw(KINDS),
        magic=draw(MAGICS),
        **draw(FIELDS),  # type: ignore[arg-type]
    )


PARTS = st.one_of(
    st.builds(file, NAMES, DATA),
    st.builds(lambda name: header(f"{name}/", kind=b"5"), NAMES),
    st.builds(lambda name, data, magic: file(name, data, magic=magic), NAMES, DATA, MAGICS),
    st.builds(lambda records, name: extended(*records) + file(name), st.lists(RECORDS, max_size=3), NAMES),
    st.builds(lambda records: extended(*records, kind=b"g"), st.lists(RECORDS, max_size=2)),
    st.builds(lambda long, name: long_name(long.encode()) + file(name), NAMES, NAMES),
    odd_members(),
    st.just(bytes(BLOCK)),
)


def repaired(tar: bytearray, at: int) -> None:
    """Make the checksum of the block around a byte right again."""
    start = at - at % BLOCK
    block = bytes(tar[start : start + BLOCK])
    if len(block) == BLOCK and any(block):
        blank = block[:148] + b" " * 8 + block[156:]
        tar[start + 148 : start + 156] = b"%06o\0 " % sum(struct.unpack("512B", blank))


GOOD = st.sampled_from(
    [
        file("good/file", b"f"),
        file("./good/dotted", b"d" * 600),
        header("good/folder/", kind=b"5"),
        header("good/folder/", kind=b"5", magic=bytes(8), size_field=b"          0 "),
        file("good/old", kind=b"\0", magic=bytes(8)),
        file("good/gnu", b"g", magic=b"ustar  \0"),
        long_name(b"good/" + b"l" * 120) + file("good/short"),
        extended(record("path", b"good/pax"), record("mtime", b"1.5")) + file("good/other", b"p"),
    ]
)


@st.composite
def archives(draw: st.DrawFn) -> bytes:
    parts = draw(st.lists(GOOD, max_size=3, unique=True)) + draw(st.lists(PARTS, max_size=2))
    tar = bytearray(b"".join(draw(st.permutations(parts))) + draw(st.sampled_from([END, END, END, b""])))
    for _ in range(draw(st.integers(0, 2)) if tar else 0):
        at = draw(st.integers(0, len(tar) - 1))
        tar[at] = draw(st.sampled_from(list(b"\0 01579xgLSV/.-_a\x80\xff")) | st.integers(0, 255))
        if draw(st.integers(0, 3)):
            repaired(tar, at)
    return bytes(tar)


def ours(packed: bytes) -> Tree | None:
    """Return the files that the reader finds in an archive; None if it refuses the archive."""
    with contextlib.suppress(FleetError):
        tree: Tree = {}
        for member in members(io.BytesIO(packed), where="it"):
            tree[member.path] = member.content.beginning(member.size) if member.kind == "file" else None
        return with_folders(tree)
    return None


def with_folders(tree: Tree) -> Tree:
    above: Tree = {str(folder): None for path in tree for folder in Path(path).parents if str(folder) != "."}
    return {**above, **tree}


def on_disk(folder: Path) -> Tree:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def pythons(packed: bytes) -> Tree:
    """Return the files that tarfile finds in an archive."""
    with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as archive:
        tree: Tree = {}
        for member in archive:
            content = archive.extractfile(member)
            if os.path.normpath(member.name) != ".":
                tree[os.path.normpath(member.name)] = content.read() if content else None
    return with_folders(tree)


def gnus(packed: bytes) -> Tree:
    """Return the files that GNU tar unpacks without failing."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            "tar",
            "-xzf",
            "-",
            "--no-same-owner",
            "--no-same-permissions",
            "-C",
            folder,
            "--mode=u+rwX",
        ]
        run = subprocess.run(command, input=packed, capture_output=True, check=False)
        for path in Path(folder).rglob("*"):
            path.chmod(0o755)
        assert run.returncode == 0, run.stderr.decode()
        return on_disk(Path(folder))


@settings(max_examples=EXAMPLES, derandomize=not FUZZ, deadline=None, suppress_health_check=list(HealthCheck))
@given(tar=archives())
def test_what_is_taken_is_the_same_to_gnu_tar_and_to_python(tar: bytes) -> None:
    packed = gzipped(tar)
    tree = ours(packed)
    event("refused" if tree is None else "taken")

    if tree is not None:
        assert pythons(packed) == tree
        assert gnus(packed) == tree


@st.composite
def wrappers(draw: st.DrawFn) -> bytes:
    """A gzip stream with any fields in its header, zeros or other things behind it, and changed bytes."""
    stream = gzipped(file("good/file", b"f") + END)
    flags, length = draw(st.integers(0, 31) | st.integers(0, 255)), draw(st.integers(0, 3))
    head = stream[:3] + bytes([flags]) + stream[4:10]
    head += (bytes([length, 0]) + b"\0" * length if flags & 4 else b"") + b"name\0" * (flags >> 3 & 1)
    head += b"remark\0" * (flags >> 4 & 1)
    head += (zlib.crc32(head) & 0xFFFF).to_bytes(2, "little") * (flags >> 1 & 1)
    packed = bytearray(head + stream[10:] + draw(st.sampled_from([b"", b"", bytes(700), b"\0x", stream])))
    if draw(st.booleans()):
        packed[draw(st.integers(0, len(packed) - 1))] = draw(st.integers(0, 255))
    return bytes(packed)


@settings(max_examples=EXAMPLES, derandomize=not FUZZ, deadline=None, suppress_health_check=list(HealthCheck))
@given(packed=wrappers())
def test_a_gzip_stream_that_is_taken_is_the_same_to_gnu_gzip_and_to_python(packed: bytes) -> None:
    tree = ours(packed)
    event("refused" if tree is None else "taken")

    if tree is not None:
        assert pythons(packed) == tree
        assert gnus(packed) == tree
