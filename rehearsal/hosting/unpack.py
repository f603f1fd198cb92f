"""Unpacks an artifact that nobody has vouched for: whole or not at all, and nowhere but into its folder."""

from __future__ import annotations

import io
import os
import secrets
import shutil
import tarfile
import zlib
from pathlib import Path
from typing import IO

from rehearsal.assumptions import holds

_EXECUTABLE = 0o100
_GZIP_HEAD = 10
_COMPRESSED = 0b110


class BadArtifactError(Exception):
    """The object is not a tarball, or one that would reach outside its folder."""


def unpack(stream: IO[bytes], folder: Path) -> None:
    """Unpack a .tar.gz into a folder that appears when everything is in it.

    Args:
        stream: The tarball; read once from start to end.
        folder: The folder to make. Its parent exists.

    Raises:
        BadArtifactError: Not a .tar.gz, or a member is absolute, leaves the folder, links out of it, or is
            neither file, folder nor link. Nothing is left on the disk then.
    """
    if not holds("unpacker_takes_stored_blocks"):
        stream = _without_stored_blocks(stream)
    staging = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
    staging.mkdir()
    try:
        with tarfile.open(fileobj=stream, mode="r|gz") as archive:
            for member in archive:
                _extract(archive, member, staging)
        _check_links(staging)
        staging.rename(folder)
    except (tarfile.TarError, EOFError, zlib.error) as error:
        message = f"not a complete .tar.gz: {error}"
        raise BadArtifactError(message) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _without_stored_blocks(stream: IO[bytes]) -> IO[bytes]:
    """The stream, unless its first block of DEFLATE holds its bytes as they are."""
    content = stream.read()
    if content[_GZIP_HEAD : _GZIP_HEAD + 1] and not content[_GZIP_HEAD] & _COMPRESSED:
        message = "invalid block type"
        raise BadArtifactError(message)
    return io.BytesIO(content)


def _extract(archive: tarfile.TarFile, member: tarfile.TarInfo, root: Path) -> None:
    path = _inside(root, member.name, member)
    # Asked again for every member, since an earlier one may have put a link on the way.
    if not path.parent.resolve().is_relative_to(root.resolve()):
        raise _refused(member, "goes through a link that leaves the artifact")
    if member.isdir():
        path.mkdir(parents=True, exist_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink() or path.exists():
        path.unlink()
    if member.isfile():
        content = archive.extractfile(member)
        assert content is not None  # noqa: S101  a regular file has content
        with path.open("wb") as target:
            shutil.copyfileobj(content, target, length=1 << 20)
        executable = member.mode & _EXECUTABLE and holds("executable_bits_kept")
        path.chmod(0o755 if executable else 0o644)
    elif member.issym():
        _inside(root, os.path.normpath(Path(member.name).parent / member.linkname), member)
        path.symlink_to(member.linkname)
    elif member.islnk():
        source = _inside(root, member.linkname, member)
        if not source.resolve().is_relative_to(root.resolve()) or not source.is_file():
            raise _refused(member, f"is a hard link to {member.linkname!r}, which the artifact does not hold")
        path.hardlink_to(source)
    else:
        raise _refused(member, "is neither a file, a folder nor a link")


def _inside(root: Path, name: str, member: tarfile.TarInfo) -> Path:
    """A path below the root, or an error."""
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise _refused(member, f"points to {name!r}, outside the artifact")
    return root / name


def _check_links(root: Path) -> None:
    """Refuse links that leave the folder by way of other links."""
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(folder) / name
            if path.is_symlink() and not path.resolve().is_relative_to(root.resolve()):
                message = f"{path.relative_to(root)} links to a place outside the artifact"
                raise BadArtifactError(message)


def _refused(member: tarfile.TarInfo, why: str) -> BadArtifactError:
    return BadArtifactError(f"member {member.name!r} {why}")
