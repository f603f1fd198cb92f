"""The steps of one model before publication: read, build, check, verify, pack; inside a `Worker`."""

from __future__ import annotations

import atexit
import base64
import contextlib
import functools
import gc
import importlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from triton_models.artifact.pack.pack import Artifact, pack
from triton_models.base.encoding import Parameters, encode
from triton_models.base.errors import raise_if_any
from triton_models.builds.build import build
from triton_models.builds.export.weights import FETCHED, tag
from triton_models.builds.inputs import Found, Inputs, find_inputs, with_objects
from triton_models.declare.declaration import ModelDefinition
from triton_models.declare.reading import load_build
from triton_models.deliver.worker import Report, apart
from triton_models.facts.limits import PAYLOAD_LIMIT

if TYPE_CHECKING:
    from triton_models.deliver.verify.server import Server
    from triton_models.deliver.verify.verify import Expected

# Packages of the build job that take seconds to import.
_FRAMEWORKS = frozenset(
    {"boto3", "botocore", "huggingface_hub", "networkx", "numpy", "onnx", "onnx_ir", "onnxscript"}
    | {"safetensors", "sympy", "tokenizers", "torch", "transformers", "treelite", "triton_models"}
)

_ALONE: Parameters = {"sequence_id": 1, "sequence_start": True, "sequence_end": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A model to build."""

    name: str
    release: str
    output: Path
    gpu: str | None = None
    cpu: bool = False
    models: Path | None = None
    verify: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A model that is ready to be published.

    Attributes:
        inputs: The inputs of its build, taken before the build started. An input that changes during the
            build therefore counts as changed.
        request: The request that warms the model up; None without one.
    """

    name: str
    artifact: Artifact
    inputs: Inputs
    request: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Built:
    """A model that was built in another process, with the weights that it fetched and what it imported."""

    root: Path
    inputs: Inputs
    request: bytes | None
    imported: Sequence[str]
    fetched: Mapping[str, Path]


def make(order: Order, report: Report) -> Made:
    """Build, check, verify and pack one model; the step reported last is the one that failed.

    The model's code runs in two copies of this process: one builds, the other computes the reference. What it
    changes there, such as a function of PyTorch, reaches neither the comparison nor the next model.
    """
    report("read")
    built = apart(lambda: _built(order, report), name=order.name)
    FETCHED.update(built.fetched)
    _import(built.imported)
    report("check")
    check_built(built.root)
    if order.verify:
        from triton_models.deliver.verify.verify import compare, expected_answers

        def expect() -> Expected:
            return expected_answers(built.root, load_build(order.name, order.models))

        report("verify")
        compare(built.root, lambda: apart(expect, name=order.name), server=process_server())
    report("pack")
    artifact = pack(built.root, output=order.output)
    return Made(name=order.name, artifact=artifact, inputs=built.inputs, request=built.request)


def _built(order: Order, report: Report) -> _Built:
    from triton_models.repository.s3 import repository_client

    inputs = with_objects(_found(order), lambda address: tag(address, repository_client()))
    report("build")
    root = build(
        order.name,
        output=order.output,
        release=order.release,
        gpu=order.gpu,
        cpu=order.cpu,
        models=order.models,
    )
    request = example_request(load_build(order.name, order.models))
    imported = [name for name in sys.modules if name.partition(".")[0] in _FRAMEWORKS]
    return _Built(root=root, inputs=inputs, imported=imported, fetched=dict(FETCHED), request=request)


def _import(names: Sequence[str]) -> None:
    """Import what the last model needed, so that the next one starts with it; importing computes nothing."""
    lacking = [name for name in names if name not in sys.modules]
    for name in lacking:
        with contextlib.suppress(Exception):  # such as a module that its package makes as it runs
            importlib.import_module(name)
    if lacking:
        gc.freeze()  # a copy that collects garbage would write to, and so copy, all of their memory


def find(order: Order, report: Report) -> Found:
    """Return the inputs of a model's build, without a network request."""
    report("read")
    return _found(order)


def _found(order: Order) -> Found:
    return find_inputs(order.name, release=order.release, gpu=order.gpu, cpu=order.cpu, models=order.models)


def check_built(root: Path) -> None:
    """Check an artifact root."""
    from triton_models.check.check import check_path

    raise_if_any(check_path(root))


def example_request(build: ModelDefinition) -> bytes | None:
    """Return the request that warms the model up: its smallest example, with the body in base64.

    This runs the declaration's own code. None if no example can be sent: verification reports why.
    """
    try:
        requests = [
            encode(each.first, outputs=None, content="binary", parameters=_ALONE if each.sequence else None)
            for each in build.examples()
        ]
    except Exception:  # noqa: BLE001 -- whatever it is, the model is served without a warm-up
        return None
    fitting = [each for each in requests if len(each[0]) <= PAYLOAD_LIMIT]
    if not fitting:
        return None
    body, content_type = min(fitting, key=lambda each: len(each[0]))
    document = {"content_type": content_type, "body": base64.b64encode(body).decode()}
    return json.dumps(document, sort_keys=True).encode()


@functools.cache
def process_server() -> Server:
    """Return the Triton server that all models of this process share; it starts on first use."""
    from triton_models.deliver.verify.server import local_server

    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(local_server())
