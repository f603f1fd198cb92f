"""Archives that no reader should take, each with the rule that it breaks.

They are made byte by byte: tarfile and GNU tar refuse to write most of them.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

BLOCK = 512
END = bytes(2 * BLOCK)
CONFIG = "net/config.pbtxt"


def header(
    name: str | bytes = CONFIG,
    *,
    kind: bytes = b"0",
    size: int = 0,
    magic: bytes = b"ustar\00000",
    checksum: Callable[[bytes], bytes] | None = None,
    **fields: bytes,
) -> bytes:
    """A header block; `fields` replace bytes by their name, or at an offset such as at_500."""
    block = bytearray(BLOCK)
    encoded = name if isinstance(name, bytes) else name.encode()
    block[: len(encoded)] = encoded
    block[100:108] = b"0000644\0"
    block[108:116] = block[116:124] = b"0000000\0"
    block[124:136] = b"%011o\0" % size
    block[136:148] = b"00000000000\0"
    block[156:157] = kind
    block[257:265] = magic
    if magic != bytes(8):
        block[329:337] = block[337:345] = b"0000000\0"
    for field, value in fields.items():
        at = _PLACES[field] if field in _PLACES else int(field.removeprefix("at_"))
        block[at : at + len(value)] = value
    block[148:156] = b" " * 8
    block[148:156] = checksum(bytes(block)) if checksum else b"%06o\0 " % sum(block)
    return bytes(block)


_PLACES = {"mode": 100, "uid": 108, "gid": 116, "size_field": 124, "mtime": 136, "link": 157, "major": 329}


def content(data: bytes) -> bytes:
    """A content with its padding."""
    return data + bytes(-len(data) % BLOCK)


def file(name: str | bytes = CONFIG, data: bytes = b"x", **fields: object) -> bytes:
    """A file."""
    return header(name, size=len(data), **fields) + content(data)  # type: ignore[arg-type]


def record(key: str | bytes, value: bytes) -> bytes:
    """A line of an extended header."""
    line = b" " + (key if isinstance(key, bytes) else key.encode()) + b"=" + value + b"\n"
    size = len(line)
    while len(b"%d" % size) + len(line) != size:
        size = len(b"%d" % size) + len(line)
    return b"%d" % size + line


def extended(*records: bytes, kind: bytes = b"x") -> bytes:
    """An extended header."""
    return file("././@PaxHeader", b"".join(records), kind=kind)


def long_name(name: bytes, *, kind: bytes = b"L", end: bytes = b"\0") -> bytes:
    """A GNU header for a long name or what a link leads to."""
    return file("././@LongLink", name + end, kind=kind, magic=b"ustar  \0")


def gzipped(tar: bytes) -> bytes:
    """A gzip stream, compressed as far as it goes."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return packer.compress(tar) + packer.flush()


def archive(*parts: bytes) -> bytes:
    """A .tar.gz with a good file first."""
    return gzipped(file("net/1/model.onnx", b"weights") + b"".join(parts) + END)


@dataclass(frozen=True)
class Hostile:
    """An archive that breaks one rule."""

    rule: str
    name: str
    make: Callable[[], bytes]

    def __str__(self) -> str:
        return f"{self.rule}: {self.name}"


def _of(rule: str, **parts: bytes | tuple[bytes, ...]) -> list[Hostile]:
    return [
        Hostile(
            rule, name.replace("_", " "), partial(archive, *(each if isinstance(each, tuple) else (each,)))
        )
        for name, each in parts.items()
    ]


def _raw(rule: str, **made: bytes | Callable[[], bytes]) -> list[Hostile]:
    return [
        Hostile(rule, name.replace("_", " "), each if callable(each) else partial(bytes, each))
        for name, each in made.items()
    ]


def _signed(block: bytes) -> bytes:
    return b"%06o\0 " % sum(struct.unpack("512b", block))


def _flipped(whole: bytes, at: int) -> bytes:
    changed = bytearray(whole)
    changed[at] ^= 0xFF
    return bytes(changed)


GOOD = archive(file())
_TAR = file("net/1/model.onnx", b"weights") + file()

DAMAGED = [
    *_raw(
        "archive-damaged",
        nothing=b"",
        no_gzip=b"not an archive at all",
        a_tar_that_is_not_compressed=_TAR + END,
        half_a_gzip_header=b"\x1f\x8b\x08\x00",
        cut_in_the_checksum=GOOD[:-5],
        cut_in_the_middle=GOOD[: len(GOOD) // 2],
        a_wrong_checksum=_flipped(GOOD, -8),
        a_wrong_length=_flipped(GOOD, -1),
        a_reserved_flag_of_gzip=_flipped(GOOD, 3),
        another_compression_method=_flipped(GOOD, 2),
        text_in_gzip=gzipped(b"x" * 9000),
        an_empty_gzip_stream=gzipped(b""),
        no_end=gzipped(_TAR),
        half_an_end=gzipped(_TAR + bytes(BLOCK)),
        a_part_of_a_header=gzipped(_TAR + header()[:200]),
        a_content_that_is_cut=gzipped(_TAR + header("net/big", size=5000) + b"x" * 1000),
    ),
    *_of(
        "archive-damaged",
        a_damaged_header_and_more_behind=(_flipped(header(), 3), file("net/more")),
        a_wrong_sum_in_a_header=header(checksum=lambda block: b"%06o\0 " % (sum(block) + 1)),
        a_sum_of_signed_bytes=header("net/é", checksum=_signed),
        a_sum_with_an_underscore=header(checksum=lambda block: b"%03o_%03o " % divmod(sum(block), 512)),
        an_unknown_magic=header(magic=b"ustar\0AB"),
        a_negative_size=header(size_field=b"\xff" * 12),
    ),
]
AMBIGUOUS = _of(
    "archive-ambiguous",
    bytes_after_the_nul_of_a_name=header(b"net/a\0../../etc/passwd"),
    bytes_after_the_nul_of_a_prefix=header(at_345=b"net\0" + bytes(127) + b"00000000000 00000000000 "),
    a_prefix_in_the_gnu_format=header("a", magic=b"ustar  \0", at_345=b"../../etc"),
    a_prefix_without_a_format=header("a", magic=bytes(8), at_345=b"net"),
    bytes_in_the_padding_of_a_header=header(at_508=b"tar\0"),
    a_size_with_a_nul_in_front=header(size_field=b"\0000000001750"),
    a_size_with_an_underscore=header(size_field=b"0000000_7\0"),
    a_size_with_a_prefix=header(size_field=b"0o000000007\0"),
    a_size_with_a_sign=header(size_field=b"+0000000007\0"),
    a_size_in_decimal=header(size_field=b"00000000009\0"),
    a_size_in_gnu_base_64=header(size_field=b"-AAAAAAAAAB\0"),
    a_size_of_blanks=header(size_field=b" " * 12),
    a_size_in_base_256_beyond_64_bits=header(size_field=b"\x80" + b"\x7f" * 11),
    a_time_that_is_no_number=header(mtime=b"yesterday  \0"),
    an_owner_of_nuls=header(uid=bytes(8)),
    a_device_number_that_is_none=header(major=b"zzzzzzz\0"),
    two_sizes=(extended(record("size", b"1024")), file("net/a", b"x" * 512)),
    a_size_of_zero_before_another=(extended(record("size", b"0")), file("net/a", file("net/hidden"))),
    a_size_that_is_no_number=(extended(record("size", b"1e3")), file("net/a")),
    a_size_twice=(extended(record("size", b"1"), record("size", b"1")), file("net/a")),
    a_path_twice=(extended(record("path", b"net/a"), record("path", b"net/b")), file("net/c")),
    a_line_longer_than_the_header=(extended(b"99 path=net/a\n"), file("net/b")),
    a_line_without_a_length=(extended(b"path=net/a\n"), file("net/b")),
    a_line_without_an_end=(extended(b"14 path=net/a!"), file("net/b")),
    a_line_without_a_key=(extended(record(b"", b"1")), file("net/b")),
    zeros_after_the_lines=(extended(record("path", b"net/a"), bytes(20)), file("net/b")),
    a_path_for_all=(extended(record("path", b"net/a"), kind=b"g"), file("net/b")),
    a_size_for_all=(extended(record("size", b"1"), kind=b"g"), file("net/b")),
    two_extended_headers=(extended(record("path", b"net/a")), extended(record("mtime", b"1")), file("net/b")),
    a_long_name_and_a_path=(long_name(b"net/a"), extended(record("path", b"net/b")), file("net/c")),
    a_path_and_a_long_name=(extended(record("path", b"net/b")), long_name(b"net/a"), file("net/c")),
    two_long_names=(long_name(b"net/a"), long_name(b"net/b"), file("net/c")),
    a_long_name_with_bytes_after_a_nul=(long_name(b"net/a\0../../etc"), file("net/c")),
    a_long_name_without_a_nul=(long_name(b"net/a", end=b""), file("net/c")),
    a_long_name_in_the_padding=(
        header(kind=b"L", size=3, magic=b"ustar  \0"),
        content(b"neta/b"),
        file("net/c"),
    ),
    lines_in_the_padding=(
        header(kind=b"x", size=len(record("mtime", b"1"))),
        content(record("mtime", b"1") + record("path", b"net/d")),
        file("net/c"),
    ),
    a_long_name_before_the_end=long_name(b"net/a"),
    a_header_for_all_before_the_end=extended(record("comment", b"x"), kind=b"g"),
    a_header_for_all_in_between=(
        long_name(b"net/a"),
        extended(record("comment", b"x"), kind=b"g"),
        file("net/c"),
    ),
    a_file_with_a_slash_behind=file("net/a/"),
    an_old_file_with_a_slash_behind=header("net/a/", kind=b"\0", magic=bytes(8)),
    an_old_folder_under_another_path=(
        extended(record("path", b"net/b")),
        header("net/a/", kind=b"\0", magic=bytes(8)),
    ),
    a_folder_with_a_content=file("net/a/", b"x" * 512, kind=b"5"),
    a_device_with_a_content=file("net/a", file("net/hidden"), kind=b"3"),
    a_time_in_words=(extended(record("mtime", b"now")), file("net/a")),
)
NAMES = _of(
    "archive-name",
    an_absolute_path=file("/etc/passwd"),
    a_path_that_goes_up=file("../outside"),
    a_path_that_goes_down_and_up=file("net/../../outside"),
    a_path_that_goes_up_and_stays=file("net/1/../a"),
    a_folder_that_goes_up=header("../", kind=b"5"),
    an_absolute_prefix=header("a", at_345=b"/etc"),
    a_long_name_that_goes_up=(long_name(b"../outside"), file("net/a")),
    an_extended_path_that_goes_up=(extended(record("path", b"../outside")), file("net/a")),
    an_extended_path_with_a_nul=(extended(record("path", b"net/a\0b")), file("net/a")),
    an_extended_path_of_nothing=(extended(record("path", b"")), file("net/a")),
    no_name=header(b""),
    the_top_as_a_file=file("."),
    a_name_that_is_not_utf8=file(b"net/\xff"),
)
LINKS = _of(
    "archive-link",
    a_link_that_goes_up=header("net/a", kind=b"2", link=b"../../outside"),
    an_absolute_link=header("net/a", kind=b"2", link=b"/etc/passwd"),
    a_link_to_a_file_inside=header("net/a", kind=b"2", link=b"1/model.onnx"),
    a_link_to_itself=header("net/a", kind=b"2", link=b"a"),
    a_hard_link_inside=header("net/a", kind=b"1", link=b"net/1/model.onnx"),
    a_hard_link_outside=header("net/a", kind=b"1", link=b"/etc/passwd"),
    a_file_through_a_link=(header("net/a", kind=b"2", link=b"/etc"), file("net/a/b")),
)
KINDS = _of(
    "archive-kind",
    a_character_device=header("net/a", kind=b"3"),
    a_block_device=header("net/a", kind=b"4"),
    a_pipe=header("net/a", kind=b"6"),
    a_contiguous_file=file("net/a", kind=b"7"),
    a_sparse_file_of_gnu=header("net/a", kind=b"S", magic=b"ustar  \0", at_483=b"30000000000\0"),
    a_sparse_file_in_an_extended_header=(
        extended(record("GNU.sparse.major", b"1"), record("GNU.sparse.realsize", b"3000000000")),
        file("net/a", b"0\n".ljust(512, b"\0")),
    ),
    a_sparse_file_of_star=(extended(record("SCHILY.realsize", b"3000000000")), file("net/a")),
    a_volume_label=header("label", kind=b"V", magic=b"ustar  \0"),
    another_volume=header("net/a", kind=b"M", magic=b"ustar  \0"),
    an_incremental_folder=file("net/a/", b"Yfile\0\0", kind=b"D", magic=b"ustar  \0"),
    an_extended_header_of_solaris=(extended(record("path", b"net/a"), kind=b"X"), file("net/b")),
    a_type_that_nobody_knows=header("net/a", kind=b"?"),
)
CLASHES = _of(
    "archive-clash",
    a_file_twice=(file("net/a", b"1"), file("net/a", b"2")),
    a_file_twice_in_other_words=(file("net/a"), file("./net//a")),
    a_file_that_is_a_folder=(file("net/a"), file("net/a/b")),
    a_folder_that_is_a_file=(file("net/a/b"), file("net/a")),
    a_folder_of_a_file=(file("net/a"), header("net/a/", kind=b"5")),
    a_file_of_a_folder=(header("net/a/", kind=b"5"), file("net/a")),
)
LIMITED = _of(
    "archive-limit",
    a_name_of_256_bytes=(extended(record("path", b"net/" + b"x" * 256)), file("net/a")),
    a_name_of_128_letters_of_two_bytes=(
        extended(record("path", ("net/" + "é" * 128).encode())),
        file("net/a"),
    ),
    a_path_of_3801_bytes=(long_name(b"/".join([b"x" * 199] * 19) + b"/x"), file("net/a")),
    sixty_five_folders=(extended(record("path", b"d/" * 65 + b"file")), file("net/a")),
    a_long_name_of_2_megabytes=(long_name(b"x" * (2 << 20)), file("net/a")),
    an_extended_header_of_a_terabyte=header(kind=b"x", size_field=b"\x80".ljust(7, b"\0") + b"\1" + bytes(4)),
)
TRAILING = [
    *_raw(
        "archive-trailing",
        a_second_gzip_stream=GOOD + GOOD,
        a_second_stream_that_is_empty=GOOD + gzipped(b""),
        text_after_the_gzip_stream=GOOD + b"more",
        text_after_zeros_after_the_gzip_stream=GOOD + bytes(600_000) + b"more",
        a_second_stream_after_zeros=GOOD + bytes(512) + GOOD,
        a_second_archive=gzipped(_TAR + END + _TAR + END),
        a_lone_block_of_zeros=gzipped(_TAR + bytes(BLOCK) + file("net/b") + END),
        text_after_the_archive=gzipped(_TAR + END + bytes(9000) + b"more"),
    )
]

HOSTILE = (*DAMAGED, *AMBIGUOUS, *NAMES, *LINKS, *KINDS, *CLASHES, *LIMITED, *TRAILING)
ONE_PER_RULE = tuple(
    kind[0] for kind in (DAMAGED, AMBIGUOUS, NAMES, LINKS, KINDS, CLASHES, LIMITED, TRAILING)
)
"""For what passes an archive on to the reader, which all of them are tried on."""
