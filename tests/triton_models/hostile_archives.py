"""Archives that no reader should take, each with the rule that it breaks.

They are made byte by byte, because tarfile and GNU tar refuse to write most of them.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

BLOCK = 512
END = bytes(2 * BLOCK)
CONFIG = "net/config.pbtxt"


def header(name: str = CONFIG, *, kind: bytes = b"0", size: int = 0, **fields: bytes) -> bytes:
    """A header block; `fields` replace bytes at the place with that name."""
    block = bytearray(BLOCK)
    block[: len(name.encode())] = name.encode()
    block[100:108] = b"0000644\0"
    block[108:116] = block[116:124] = block[329:337] = block[337:345] = b"0000000\0"
    block[124:136] = b"%011o\0" % size
    block[136:148] = b"00000000000\0"
    block[156:157] = kind
    block[257:265] = b"ustar\00000"
    for field, value in fields.items():
        at = _PLACES[field]
        block[at : at + len(value)] = value
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


_PLACES = {"mode": 100, "size_field": 124, "link": 157}


def file(name: str = CONFIG, data: bytes = b"x", **fields: bytes) -> bytes:
    return header(name, size=len(data), **fields) + data + bytes(-len(data) % BLOCK)


def extended(key: str, value: bytes, *, kind: bytes = b"x") -> bytes:
    line = f" {key}=".encode() + value + b"\n"
    size = len(line)
    while len(b"%d" % size) + len(line) != size:
        size = len(b"%d" % size) + len(line)
    return file("././@PaxHeader", b"%d" % size + line, kind=kind)


def gzipped(tar: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return packer.compress(tar) + packer.flush()


def archive(*parts: bytes) -> bytes:
    """A .tar.gz with a good file first."""
    return gzipped(file("net/1/model.onnx", b"weights") + b"".join(parts) + END)


@dataclass(frozen=True)
class Hostile:
    rule: str
    name: str
    content: bytes

    def __str__(self) -> str:
        return f"{self.rule}: {self.name}"


def _flipped(content: bytes, at: int) -> bytes:
    return bytes(byte ^ 0xFF if i == at % len(content) else byte for i, byte in enumerate(content))


GOOD = archive(file())
_TERABYTE = b"\x80".ljust(7, b"\0") + b"\1" + bytes(4)

HOSTILE = (
    Hostile("archive-damaged", "cut in the middle", GOOD[: len(GOOD) // 2]),
    Hostile("archive-damaged", "a wrong checksum", _flipped(GOOD, -8)),
    Hostile("archive-damaged", "no end", gzipped(file())),
    Hostile("archive-damaged", "a damaged header", archive(_flipped(header(), 3), file("net/more"))),
    Hostile("archive-damaged", "a malformed line", archive(file(data=b"99 path=a\n", kind=b"x"), file())),
    Hostile("archive-name", "a path that goes up", archive(extended("path", b"net/../../a"), file())),
    Hostile("archive-name", "an absolute path", archive(file("/etc/passwd"))),
    Hostile("archive-name", "not UTF-8", archive(extended("path", b"net/\xff"), file())),
    Hostile("archive-link", "a symbolic link", archive(header("net/a", kind=b"2", link=b"../../out"))),
    Hostile("archive-link", "a hard link", archive(header("net/a", kind=b"1", link=b"/etc/passwd"))),
    Hostile("archive-kind", "a pipe", archive(header("net/a", kind=b"6"))),
    Hostile("archive-kind", "a sparse file", archive(extended("GNU.sparse.major", b"1"), file("net/a"))),
    Hostile("archive-clash", "a file twice", archive(file("net/a"), file("./net//a"))),
    Hostile("archive-clash", "a file in a file", archive(file("net/a"), file("net/a/b"))),
    Hostile("archive-limit", "a long name", archive(extended("path", b"x" * 256), file())),
    Hostile("archive-limit", "a long header", archive(header(kind=b"x", size_field=_TERABYTE))),
    Hostile("archive-trailing", "a second gzip stream", GOOD + gzipped(b"")),
    Hostile("archive-trailing", "a second archive", gzipped(file() + END + file("net/b") + END)),
)
ONE_PER_RULE = tuple({each.rule: each for each in HOSTILE}.values())
"""For what passes an archive on to the reader, which all of them are tried on."""
