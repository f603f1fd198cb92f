"""`fleet census --endpoint`: what models take of a deployed instance, as a tiny artifact on it sees it.

The artifact is a Python model that asks nvidia-smi, /proc/meminfo and /dev/shm. It is uploaded next to the
models, is in no manifest, and is deleted at the end. The endpoint has to have one instance, because SageMaker
chooses the instance of a request.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from triton_models.artifact.profile import MIB
from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.outcome import progress
from triton_models.base.tables import Column, numbers, output_width, table
from triton_models.client import Client
from triton_models.load.account import deployed
from triton_models.repository.objects import Store, opened
from triton_models.repository.stored_manifest import read as read_manifest

ONE_INSTANCE = Check(id="census-one-instance", source=FROM_ARGUMENTS)

_NAME = "fleet-census"
_CONFIG = """
name: "fleet-census"
backend: "python"
max_batch_size: 0
input { name: "ASK" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "USAGE" data_type: TYPE_STRING dims: [ 1 ] }
instance_group { count: 1 kind: KIND_CPU }
"""
_CODE = """
import json, os, subprocess

import numpy as np
import triton_python_backend_utils as pb_utils


def usage():
    gpu = 0
    try:
        asked = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
        run = subprocess.run(asked, capture_output=True, text=True, timeout=20)
        gpu = max((int(each) for each in run.stdout.split() if each.isdigit()), default=0)
    except (OSError, subprocess.SubprocessError):
        pass
    with open("/proc/meminfo") as file:
        host = {line.split(":")[0]: int(line.split()[1]) for line in file}
    shared = os.statvfs("/dev/shm")
    return {
        "gpu": gpu << 20,
        "host": (host["MemTotal"] - host["MemAvailable"]) << 10,
        "shared": (shared.f_blocks - shared.f_bfree) * shared.f_frsize,
    }


class TritonPythonModel:
    def execute(self, requests):
        text = np.array([json.dumps(usage()).encode()], np.object_)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("USAGE", text)]) for _ in requests]
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What a model took of an instance: bytes, and the seconds of its first request.

    Attributes:
        error: Why it was not measured; "" if it was.
    """

    model: str
    gpu: float = 0.0
    host: float = 0.0
    shared: float = 0.0
    seconds: float = 0.0
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveCensus:
    """The outcome of `fleet census --endpoint`."""

    endpoint: str
    found: Sequence[Taken]

    @property
    def exit_code(self) -> int:
        """0 if every model was measured, otherwise 1."""
        return 1 if any(each.error for each in self.found) else 0

    def as_dict(self) -> dict[str, Any]:
        """Return the figures of each model as JSON-ready data."""
        return {"endpoint": self.endpoint, "models": [asdict(each) for each in self.found]}

    def lines(self) -> Iterator[str]:
        """Yield a table of all models, in the order of their loads."""
        yield f"{self.endpoint}: MiB that each model took when it was loaded after those above it."
        figures: Mapping[str, Callable[[Taken], str]] = {
            "GPU": lambda each: "-" if each.error else f"{each.gpu / MIB:,.0f}",
            "host": lambda each: "-" if each.error else f"{each.host / MIB:,.0f}",
            "shared": lambda each: "-" if each.error else f"{each.shared / MIB:,.1f}",
            "first request": lambda each: "-" if each.error else f"{each.seconds:.2f} s",
        }
        models = Column(title="model", cells=[each.model for each in self.found])
        errors = Column(title="", cells=[each.error for each in self.found])
        yield from table([models, *numbers(self.found, figures), errors], width=output_width())
        yield "The first model of each backend also brings its libraries; one that was loaded before takes 0."


def live_census(endpoint: str, names: Sequence[str], *, repository: str | None) -> LiveCensus:
    """Load models on an endpoint of one instance, one after the other, and measure the instance.

    Raises:
        FleetError: The endpoint has several instances, or the artifact cannot be uploaded or asked.
    """
    count = sum(each.count for each in deployed(endpoint).variants)
    if count != 1:
        raise ONE_INSTANCE.error(
            what=f"{endpoint} has {count} instances",
            where="--endpoint",
            why="SageMaker chooses the instance of each request, so a model and a measurement may not meet",
            fix="measure an endpoint with one instance",
        )
    body = _artifact()
    probe = f"{_NAME}-{hashlib.sha256(body).hexdigest()[:16]}.tar.gz"
    with opened(repository) as store:
        names = names or read_manifest(store).manifest.names
        store.s3.put_object(**store.at(probe), Body=body)
        try:
            found = _measured(endpoint, names, store, probe)
        finally:
            store.s3.delete_object(**store.at(probe))
    return LiveCensus(endpoint=endpoint, found=found)


def _measured(endpoint: str, names: Sequence[str], store: Store, probe: str) -> Sequence[Taken]:
    client = Client(endpoint_name=endpoint, repository=store.url)
    before, found = _usage(client, probe), list[Taken]()
    for name in names:
        progress(f"loading {name} ...")
        began = time.monotonic()
        failed = client.warm_up([name])
        seconds, after = time.monotonic() - began, _usage(client, probe)
        if failed:
            found.append(Taken(model=name, error=str(failed[name]).partition("\n")[0]))
        else:
            gpu, host, shared = (max(0.0, after[each] - before[each]) for each in ("gpu", "host", "shared"))
            found.append(Taken(model=name, gpu=gpu, host=host, shared=shared, seconds=seconds))
        before = after
    return found


def _usage(client: Client, probe: str) -> Mapping[str, float]:
    answer = client.invoke_target(target_model=probe, inputs={"ASK": np.zeros(1, np.int32)})
    found: Mapping[str, float] = json.loads(answer["USAGE"][0])
    return found


def _artifact() -> bytes:
    """Return the artifact, which is the same each time."""
    body = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=body, mode="wb", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        for name, text in (("config.pbtxt", _CONFIG), ("1/model.py", _CODE)):
            member = tarfile.TarInfo(f"{_NAME}/{name}")
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return body.getvalue()
