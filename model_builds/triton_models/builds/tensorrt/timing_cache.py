"""A cache of TensorRT's measured times, shared between builds.

There is one file per TensorRT version and GPU model, such as tensorrt-10.13.3.9-A10G.cache, in a folder or
under a prefix of S3. It is fetched before a plan is compiled, and saved afterwards if changed. The last
of several parallel builds wins. Writes are atomic.

trtexec does not validate the file: it silently loads the times of another GPU (setTimingCache with
ignoreMismatch, "may lead to functional/performance bugs"), and a damaged file may end it (cacheUtils.cpp and
NvInfer.h of NVIDIA/TensorRT v10.13.3, sampleEngines.cpp of v8.6.1; read on 2026-11-21). The file therefore
starts with a line that states its kind and digest, and a file that does not match is ignored.

A cache never fails a build: errors of reading or saving are printed to standard error.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from triton_models.base.errors import FleetError
from triton_models.base.whole_files import write_whole
from triton_models.declare.weights import BUCKET_RULE

TIMING_CACHE_VARIABLE = "FLEET_TIMING_CACHE"

_KIND = "Triton Fleet timing cache"


class Place(Protocol):
    """A store of cache files."""

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None if it does not exist.

        Raises:
            FleetError, OSError: The file cannot be read.
        """

    def write(self, name: str, content: bytes) -> None:
        """Replace a file atomically.

        Raises:
            FleetError, OSError: The file cannot be written.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """Caches in a folder, which is created with the first one."""

    path: Path

    def read(self, name: str) -> bytes | None:
        """Implement `Place`."""
        try:
            return (self.path / name).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes) -> None:
        """Implement `Place`."""
        write_whole(self.path / name, content)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """Caches under a prefix of S3, where writes are atomic.

    Attributes:
        bucket: The bucket's name.
        prefix: "" or a prefix that ends with a slash.
    """

    bucket: str
    prefix: str

    def read(self, name: str) -> bytes | None:
        """Implement `Place`."""
        from botocore.exceptions import ClientError

        from triton_models.repository.s3 import NOT_FOUND, aws_errors, error_code, repository_client

        with aws_errors(f"s3://{self.bucket}/{self.prefix}"):
            try:
                answer = repository_client().get_object(Bucket=self.bucket, Key=f"{self.prefix}{name}")
                return answer["Body"].read()
            except ClientError as error:
                if error_code(error) in NOT_FOUND:
                    return None
                raise

    def write(self, name: str, content: bytes) -> None:
        """Implement `Place`."""
        from triton_models.repository.s3 import aws_errors, repository_client

        with aws_errors(f"s3://{self.bucket}/{self.prefix}"):
            repository_client().put_object(Bucket=self.bucket, Key=f"{self.prefix}{name}", Body=content)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingCache:
    """The caches in one place.

    Attributes:
        place: The place.
        where: The place as given.
    """

    place: Place
    where: str

    @classmethod
    def at(cls, where: str) -> TimingCache:
        """Return the caches in a folder or under s3://bucket/prefix/.

        Raises:
            FleetError: The string is neither.
        """
        if "://" not in where:
            return cls(place=Folder(path=Path(where).expanduser()), where=where)
        from triton_models.repository.manifest import Repository

        try:
            parsed = Repository.parse(where)
        except FleetError:
            raise FleetError.of(
                what=f"{where!r} is not a valid place for timing caches",
                where=f"--timing-cache, or {TIMING_CACHE_VARIABLE}",
                expected=f"a folder, or s3://bucket/prefix/; {BUCKET_RULE}",
                fix="omit it to build without a cache",
                rule="timing-cache",
            ) from None
        return cls(place=Bucket(bucket=parsed.bucket, prefix=parsed.prefix), where=where)

    @contextlib.contextmanager
    def used(self, *, tensorrt: str, gpu: str) -> Iterator[Path]:
        """Yield a file with the cached times for trtexec, and save it if the body succeeds.

        Args:
            tensorrt: The TensorRT version that measures.
            gpu: The GPU model measured.
        """
        header = {"kind": _KIND, "tensorrt": tensorrt, "gpu": gpu}
        name = f"tensorrt-{tensorrt}-{gpu}.cache"
        with tempfile.TemporaryDirectory(prefix="fleet-times-") as folder:
            file = Path(folder) / name
            before = self._fetch(name, header)
            if before:
                file.write_bytes(before)
            yield file
            after = file.read_bytes() if file.is_file() else b""
            if after and after != before:
                self._keep(name, _wrapped(after, header))

    def _fetch(self, name: str, header: dict[str, str]) -> bytes:
        try:
            kept = self.place.read(name)
        except (FleetError, OSError) as error:
            _say(f"{self.where}: cannot read {name}, so times are measured again: {_reason(error)}")
            return b""
        times = _unwrapped(kept, header) if kept is not None else b""
        if times is None:
            _say(f"{self.where}: ignored {name}, which is damaged or for another TensorRT or GPU")
        return times or b""

    def _keep(self, name: str, content: bytes) -> None:
        try:
            self.place.write(name, content)
        except (FleetError, OSError) as error:
            _say(f"{self.where}: cannot save {name} for the next build: {_reason(error)}")


def _wrapped(times: bytes, header: dict[str, str]) -> bytes:
    said = {**header, "sha256": hashlib.sha256(times).hexdigest()}
    return json.dumps(said, sort_keys=True).encode() + b"\n" + times


def _unwrapped(content: bytes, header: dict[str, str]) -> bytes | None:
    """Return the times in a cache file; None if it is damaged, or for another GPU or TensorRT."""
    times = content.partition(b"\n")[2]
    return times if times and content == _wrapped(times, header) else None


def _reason(error: FleetError | OSError) -> str:
    if isinstance(error, FleetError):
        return error.problems[0].why or error.problems[0].what
    return error.strerror or str(error)


@functools.cache
def _say(message: str) -> None:
    """Print a message to standard error, once per run."""
    sys.stderr.write(f"timing cache {message}\n")
    sys.stderr.flush()
