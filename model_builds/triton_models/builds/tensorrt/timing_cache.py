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

from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.errors import FleetError
from triton_models.facts.limits import BUCKET_RULE
from triton_models.repository.manifest import Repository
from triton_models.repository.places import Place

TIMING_CACHE = Check(id="timing-cache", source=FROM_ARGUMENTS)
TIMING_CACHE_VARIABLE = "FLEET_TIMING_CACHE"

_KIND = "Triton Fleet timing cache"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingCache:
    """The caches in one place: a folder, or s3://bucket/prefix/."""

    where: str

    @classmethod
    def at(cls, where: str) -> TimingCache:
        """Return the caches in a folder or under s3://bucket/prefix/."""
        if "://" not in where:
            return cls(where=str(Path(where).expanduser()))
        try:
            return cls(where=Repository.parse(where).url)
        except FleetError:
            raise TIMING_CACHE.error(
                what=f"{where!r} is neither a folder nor s3://bucket/prefix/: {BUCKET_RULE}",
                where=f"--timing-cache, or {TIMING_CACHE_VARIABLE}",
                fix="correct it, or omit it to build without a cache",
            ) from None

    @contextlib.contextmanager
    def used(self, *, tensorrt: str, gpu: str) -> Iterator[Path]:
        """Yield a file with the cached times for trtexec, and save it if the body succeeds."""
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
            kept = self._place(name).find()
        except FleetError as error:
            _say(f"{self.where}: cannot read {name}, so times are measured again: {_reason(error)}")
            return b""
        times = _unwrapped(kept, header) if kept is not None else b""
        if times is None:
            _say(f"{self.where}: ignored {name}, which is damaged or for another TensorRT or GPU")
        return times or b""

    def _keep(self, name: str, content: bytes) -> None:
        try:
            self._place(name).put(content)
        except FleetError as error:
            _say(f"{self.where}: cannot save {name} for the next build: {_reason(error)}")

    def _place(self, name: str) -> Place:
        return Place(address=f"{self.where.rstrip('/')}/{name}")


def _wrapped(times: bytes, header: dict[str, str]) -> bytes:
    said = {**header, "sha256": hashlib.sha256(times).hexdigest()}
    return json.dumps(said, sort_keys=True).encode() + b"\n" + times


def _unwrapped(content: bytes, header: dict[str, str]) -> bytes | None:
    """Return the times in a cache file; None if it is damaged, or for another GPU or TensorRT."""
    times = content.partition(b"\n")[2]
    return times if times and content == _wrapped(times, header) else None


def _reason(error: FleetError) -> str:
    return error.problems[0].why or error.problems[0].what


@functools.cache
def _say(message: str) -> None:
    """Print a message to standard error, once per run."""
    sys.stderr.write(f"timing cache {message}\n")
    sys.stderr.flush()
