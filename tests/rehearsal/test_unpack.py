"""An artifact is unpacked whole or not at all, and nowhere but into its folder."""

import io
import tarfile

import pytest

from rehearsal.hosting.unpack import BadArtifactError, unpack
from tests.rehearsal.served_models import tarball


def archive(*members):
    """A .tar.gz of (name, kind, content or link) entries."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for name, kind, content in members:
            member = tarfile.TarInfo(name)
            member.type = kind
            if kind == tarfile.REGTYPE:
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
            else:
                member.linkname = content
                tar.addfile(member)
    stream.seek(0)
    return stream


FILE, LINK, HARD, FOLDER = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE


def test_files_folders_and_links_inside_arrive(tmp_path):
    unpack(
        archive(
            ("m/1", FOLDER, ""),
            ("m/1/model.onnx", FILE, b"abc"),
            ("m/2", LINK, "1"),
            ("m/copy", HARD, "m/1/model.onnx"),
        ),
        tmp_path / "model",
    )
    assert (tmp_path / "model/m/2/model.onnx").read_bytes() == b"abc"
    assert (tmp_path / "model/m/copy").read_bytes() == b"abc"


@pytest.mark.parametrize(
    "members",
    [
        pytest.param([("/etc/fleet-test", FILE, b"x")], id="absolute name"),
        pytest.param([("../outside", FILE, b"x")], id="name with .."),
        pytest.param([("m/../../outside", FILE, b"x")], id="name with .. inside"),
        pytest.param([("m/link", LINK, "/etc/passwd")], id="absolute link"),
        pytest.param([("m/link", LINK, "../../outside")], id="link that leaves"),
        pytest.param([("m/link", HARD, "../outside")], id="hard link that leaves"),
        pytest.param([("m/link", HARD, "m/absent")], id="hard link to nothing"),
        pytest.param(
            [("a/b/c", FOLDER, ""), ("up", LINK, "a/b/c"), ("out", LINK, "up/../../../../outside")],
            id="link that leaves by way of another",
        ),
        pytest.param([("device", tarfile.CHRTYPE, "")], id="device"),
        pytest.param([("pipe", tarfile.FIFOTYPE, "")], id="pipe"),
    ],
)
def test_a_member_that_reaches_outside_is_refused_and_nothing_stays(tmp_path, members):
    (tmp_path / "outside").write_text("untouched")
    with pytest.raises(BadArtifactError):
        unpack(archive(("m/config.pbtxt", FILE, b"x"), *members), tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["outside"]
    assert (tmp_path / "outside").read_text() == "untouched"


def test_a_file_is_not_written_through_a_link_that_leaves(tmp_path):
    (tmp_path / "outside").mkdir()
    # The first link is harmless until the second replaces the folder that it goes through.
    members = [("d", FOLDER, ""), ("d/e", LINK, "../f"), ("f", LINK, "d/e/../../../outside")]
    with pytest.raises(BadArtifactError):
        unpack(archive(*members, ("d/e/file", FILE, b"x")), tmp_path / "model")
    assert not list((tmp_path / "outside").iterdir())


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"not a tarball", id="text"),
        pytest.param(tarball({"m/1/model.onnx": bytes(range(256)) * 4000})[:-400], id="cut off"),
    ],
)
def test_what_is_no_whole_tarball_is_refused_and_nothing_stays(tmp_path, content):
    with pytest.raises(BadArtifactError, match=r"not a complete \.tar\.gz"):
        unpack(io.BytesIO(content), tmp_path / "model")
    assert not list(tmp_path.iterdir())
