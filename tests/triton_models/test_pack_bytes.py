"""The bytes of artifacts: their inputs, and other programs that unpack them."""

from __future__ import annotations

import gzip
import hashlib
import random
import subprocess
import tarfile
import tempfile
import zlib
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reported import reported
from tests.triton_models.model_folders import write, write_ensemble, write_plain
from triton_models.artifact.pack import stream
from triton_models.artifact.pack.content import InMemory
from triton_models.artifact.pack.pack import Artifact, pack
from triton_models.base.errors import FleetError

MEGABYTE = 1 << 20
TEXT = "\n".join(f"def function_{i}(argument): return argument + {i}" for i in range(80_000)).encode()


def _weights(size: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(size)  # noqa: S311 (no secret)


def _comment(path: Path) -> bytes:
    """The comment in a gzip header that has no other optional field."""
    header = path.read_bytes()[:100]
    return header[10 : header.index(b"\0", 10)] if header[3] & 0x10 else b""


def test_the_bytes_are_these_on_every_machine_and_with_every_python(tmp_path: Path) -> None:
    root = write_plain(tmp_path / "m")
    (root / "resnet50" / "config.pbtxt").write_text(  # not as protobuf writes it, which may change
        'backend: "onnxruntime"\nmax_batch_size: 0\n'
        'input [{name: "x" data_type: TYPE_FP32 dims: [4]}]\n'
        'output [{name: "y" data_type: TYPE_FP32 dims: [4]}]\n'
    )
    write(root / "resnet50" / "1" / "model.onnx", bytes(range(256)) * 1000)
    write(root / "resnet50" / "1" / ("ä" * 70) / "empty", b"")

    artifact = pack(root, output=tmp_path / "out")

    assert artifact.sha256 == "5cb1ddbd36e18949340acf4f460b5a3a51c3a4e8768af309021e88bfb3aef38c"


def test_what_saves_a_megabyte_is_compressed_and_the_digest_covers_by_what(
    tmp_path: Path, monkeypatch
) -> None:
    root = write_plain(tmp_path / "m")
    write(root / "resnet50" / "1" / "model.onnx", _weights(MEGABYTE))
    write(root / "resnet50" / "vocabulary.txt", TEXT)

    artifact = pack(root, output=tmp_path / "out")

    assert _comment(artifact.path) == f"zlib {zlib.ZLIB_RUNTIME_VERSION}, level 4".encode()
    assert artifact.size < MEGABYTE + len(TEXT) / 4
    assert Artifact.read(artifact.path) == artifact

    monkeypatch.setattr("triton_models.artifact.pack.stream.COMPRESSOR", "zlib 9, level 4")
    assert pack(root, output=tmp_path / "out").digest != artifact.digest


def test_gnu_tar_and_gzip_take_it_without_a_word(tmp_path: Path) -> None:
    root = write_ensemble(tmp_path / "m")
    (root / "minilm" / "1" / ".keep").unlink()
    write(root / "minilm_encoder" / "1" / "model.onnx", _weights(3 * MEGABYTE))
    write(root / "minilm_encoder" / "1" / "ä" / ("x" * 200), TEXT)
    artifact = pack(root, output=tmp_path / "out")
    (tmp_path / "there").mkdir()

    for command in (
        ["gzip", "--test", str(artifact.path)],
        ["tar", "-xzf", str(artifact.path), "-C", str(tmp_path / "there")],
        ["diff", "-r", str(root), str(tmp_path / "there")],
    ):
        run = subprocess.run(command, check=True, capture_output=True)
        assert run.stdout + run.stderr == b""


# The stream and headers by themselves


@given(parts=st.lists(st.tuples(st.binary(max_size=200_000), st.booleans()), max_size=6))
def test_any_reader_of_gzip_gets_all_parts_and_finds_their_checksum_right(
    parts: list[tuple[bytes, bool]],
) -> None:
    output = BytesIO()
    written = stream.write(
        (each for data, compress in parts for each in stream.parts_of(InMemory(data), compress=compress)),
        output,
    )

    assert gzip.decompress(output.getvalue()) == b"".join(data for data, _ in parts)
    assert written.size == len(output.getvalue())
    assert written.sha256 == hashlib.sha256(output.getvalue()).hexdigest()


@pytest.mark.parametrize(
    ("name", "size"),
    [
        *(("a", 0), ("x" * 100, 8 * 1024**3 - 1), ("x" * 101, 8 * 1024**3), ("ä", 0), ("a", 10**12)),
        *(("deep/" * 60 + "file", 10**12), ("environment/bin/python3", 100)),
    ],
)
def test_python_reads_names_and_sizes_as_they_were(name: str, size: int) -> None:
    with tarfile.open(fileobj=BytesIO(stream.file_header(name, size) + stream.END), mode="r:") as archive:
        member = archive.next()

    assert member is not None
    assert (member.name, member.size, member.isfile()) == (name, size, True)
    assert member.mode == (0o755 if name.endswith("/bin/python3") else 0o644)  # an environment's interpreter


# What is published


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    root = write_ensemble(tmp_path_factory.mktemp("packed") / "minilm")
    write(root / "minilm" / "1" / ("ä" * 70) / "empty", b"")
    return pack(root, output=root.parent / "out")


def _published(content: bytes, folder: Path) -> Artifact:
    path = folder / f"minilm-{hashlib.sha256(content).hexdigest()[:16]}.tar.gz"
    path.write_bytes(content)
    return Artifact.read(path)


@given(data=st.data())
def test_an_archive_is_published_only_with_the_headers_of_fleet_pack(artifact: Artifact, data) -> None:
    plain = gzip.decompress(artifact.path.read_bytes())
    with tarfile.open(artifact.path) as archive:
        contents = {at for each in archive for at in range(each.offset_data, each.offset_data + each.size)}
    at = data.draw(st.sampled_from(sorted(set(range(len(plain))) - contents)))
    byte = data.draw(st.integers(0, 255).filter(lambda byte: byte != plain[at]))
    changed = BytesIO()
    stream.write(stream.parts_of(InMemory(plain[:at] + bytes([byte]) + plain[at + 1 :])), changed)

    with tempfile.TemporaryDirectory() as folder, pytest.raises(FleetError) as caught:
        _published(changed.getvalue(), Path(folder))

    assert {problem.rule for problem in caught.value.problems} <= {
        *("archive-ambiguous", "archive-clash", "archive-damaged", "archive-kind", "archive-limit"),
        *("archive-link", "archive-name", "archive-trailing"),
    }


@pytest.mark.parametrize(
    "change",
    [
        lambda packed: packed[:9] + b"\x03" + packed[10:],
        lambda packed: gzip.compress(gzip.decompress(packed)),
        lambda packed: packed[:3] + b"\x10" + packed[4:10] + b"by me\0" + packed[10:],
    ],
    ids=["another system", "another gzip", "a comment"],
)
def test_an_archive_is_published_only_with_the_gzip_header_of_fleet_pack(
    change, artifact: Artifact, tmp_path: Path
) -> None:
    assert _published(artifact.path.read_bytes(), tmp_path).digest == artifact.digest
    with reported("archive-ambiguous"):
        _published(change(artifact.path.read_bytes()), tmp_path)


# The choice


# Serialized DALI pipelines


def _field(number: int, content: bytes) -> bytes:
    size = len(content)
    length = bytes([size]) if size < 128 else bytes([size & 0x7F | 0x80, size >> 7])
    return bytes([number << 3 | 2]) + length + content


def _argument(name: bytes, value: bytes) -> bytes:
    return _field(1, name) + _field(2, b"string") + _field(5, value) + b"\x40\x00"


def _pipeline(*, checkout: bytes, line: int) -> bytes:
    """As DALI 2.4 serializes one: NVIDIA/DALI, dali/pipeline/proto/dali.proto."""
    element = _field(1, b"element 0") + _field(2, b"string") + _field(5, checkout) + b"\x40\x00"
    number = _field(1, b"element 0") + _field(2, b"int64") + bytes([4 << 3, line]) + b"\x40\x00"
    origin = _field(1, b"_origin_stack_filename") + _field(2, b"string") + _field(7, element) + b"\x40\x01"
    lines = _field(1, b"_origin_stack_lineno") + _field(2, b"int64") + _field(7, number) + b"\x40\x01"
    operator = b"".join(
        (
            _field(1, b"Resize"),
            _field(2, _field(1, b"DALI_INPUT_0") + _field(2, b"cpu") + b"\x18\x00"),
            _field(4, _argument(b"device", b"mixed")),
            _field(4, origin),
            _field(4, lines),
            _field(4, _argument(b"path", b"/data/_origin_stack_/x")),
            _field(5, b"resize"),
        )
    )
    return b"\x08\x02\x10\x08" + _field(5, operator) + _field(7, _field(1, b"out")) + b"\x40\x00"


def _packed_pipeline(content: bytes, folder: Path) -> bytes:
    root = write_plain(folder / "m")
    write(root / "resnet50" / "1" / "model.dali", content)
    with tarfile.open(pack(root, output=folder / "out").path) as archive:
        back = archive.extractfile("resnet50/1/model.dali")
        assert back is not None
        return back.read()


def test_a_pipeline_keeps_everything_but_where_it_was_written(tmp_path: Path) -> None:
    one = _packed_pipeline(_pipeline(checkout=b"/home/one/model.py", line=7), tmp_path / "1")
    other = _packed_pipeline(_pipeline(checkout=b"/builds/" + b"x" * 200, line=9), tmp_path / "2")

    assert one == other
    assert b"model.py" not in one
    for kept in (b"Resize", b"DALI_INPUT_0", b"mixed", b"/data/_origin_stack_/x", b"resize", b"out"):
        assert kept in one
    assert one.startswith(b"\x08\x02\x10\x08")
    assert one.endswith(b"\x40\x00")


@pytest.mark.parametrize(
    "content",
    [b"", b"not a pipeline", b"\x2a\x7fshort", b"\x0b", _field(5, _field(4, _argument(b"device", b"gpu")))],
)
def test_what_is_no_pipeline_stays_as_it_is(content: bytes, tmp_path: Path) -> None:
    assert _packed_pipeline(content, tmp_path) == content
