"""An artifact is unpacked completely or not at all, and only into its folder."""

import gzip
import io

import pytest

from tests.rehearsal.served_models import tarball
from tests.triton_models.hostile_archives import ONE_PER_RULE, archive, extended, file, header
from triton_rehearsal.hosting.model_data import BadArtifactError, unpack


def test_files_and_folders_arrive(tmp_path):
    unpack(io.BytesIO(archive(header("net/empty/", kind=b"5"), file("net/a", b"abc"))), tmp_path / "model")
    assert (tmp_path / "model/net/1/model.onnx").read_bytes() == b"weights"
    assert (tmp_path / "model/net/a").read_bytes() == b"abc"
    assert (tmp_path / "model/net/empty").is_dir()


@pytest.mark.parametrize("hostile", ONE_PER_RULE, ids=str)
def test_what_the_reader_refuses_is_named_and_nothing_stays(hostile, tmp_path):
    (tmp_path / "outside").write_text("untouched")
    with pytest.raises(BadArtifactError, match=hostile.rule):
        unpack(io.BytesIO(hostile.content), tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["outside"]
    assert (tmp_path / "outside").read_text() == "untouched"


def test_what_is_executable_stays_so(tmp_path):
    unpack(io.BytesIO(archive(file("net/run", mode=b"0000755\0"), file("net/data"))), tmp_path / "model")
    assert (tmp_path / "model/net/run").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "model/net/data").stat().st_mode & 0o777 == 0o644


def test_a_file_that_was_cut_off_is_not_left(tmp_path):
    whole = gzip.decompress(tarball({"net/a": bytes(range(256)) * 40}))
    with pytest.raises(BadArtifactError, match="archive-damaged"):
        unpack(io.BytesIO(gzip.compress(whole[:4000])), tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_the_longest_path_can_be_written(tmp_path):
    path = b"/".join([b"x" * 199] * 19)
    unpack(io.BytesIO(archive(extended("path", path), file("net/a", b"deep"))), tmp_path / "model")
    assert (tmp_path / "model" / path.decode()).read_bytes() == b"deep"
