"""The steps of one model before publication: read, build, check, verify, pack; inside a `Worker`."""

from __future__ import annotations

import atexit
import base64
import contextlib
import functools
import gc
import importlib
import json
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triton_models.artifact.evidence import Evidence, evidence_of
from triton_models.artifact.pack.pack import Artifact, pack
from triton_models.base.encoding import Parameters, encode
from triton_models.base.errors import FleetError, Problem, raise_if_any
from triton_models.builds.build import build
from triton_models.builds.export.weights import FETCHED, tag, tags_below
from triton_models.builds.inputs import Found, Inputs, find_all, with_objects
from triton_models.declare.declaration import ModelDefinition, Trial
from triton_models.declare.reading import FORM_MARK, folder_of, load_build, read_folder
from triton_models.deliver.worker import Ended, Report, apart, reply
from triton_models.facts.limits import PAYLOAD_LIMIT
from triton_models.repository.s3 import caught, in_parallel

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from triton_models.artifact.profile import Profile
    from triton_models.deliver.verify.server import Server
    from triton_models.deliver.verify.verify import Expected

# Packages of the build job that take seconds to import.
_FRAMEWORKS = frozenset(
    {"boto3", "botocore", "huggingface_hub", "networkx", "numpy", "onnx", "onnx_ir", "onnxscript"}
    | {"safetensors", "sympy", "tokenizers", "torch", "transformers", "treelite", "triton_models"}
)

# Fewer objects of one folder are asked for one by one.
_LISTED = 20

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
        profile: What it takes on this machine's GPU; None if that was not measured.
        trial: What its declaration gives a new version; None if that becomes current.
        evidence: What its build and its verification show about its answers.
    """

    name: str
    artifact: Artifact
    inputs: Inputs
    request: bytes | None = None
    profile: Profile | None = None
    trial: Trial | None = None
    evidence: Evidence | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Built:
    """A model that was built in another process."""

    root: Path
    inputs: Inputs
    request: bytes | None
    trial: Trial | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """Members of one family that are built together; the order has the family's name."""

    order: Order
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A member that was made together with others, or the step that failed and why."""

    name: str
    step: str
    made: Made | None = None
    problems: tuple[Problem, ...] = ()
    seconds: float = 0.0


def make(order: Order, report: Report) -> Made:
    """Build, check, verify and pack one model; the step reported last is the one that failed.

    The model's code runs in two copies of this process: one builds, the other computes the reference. What it
    changes there, such as a function of PyTorch, reaches neither the comparison nor the next model.
    """
    report("read")
    _import(_named(order))
    built, imported, fetched = apart(lambda: (_built(order, report), _imported(), FETCHED), name=order.name)
    _import(imported)
    FETCHED.update(fetched)

    def expect() -> Expected:
        from triton_models.deliver.verify.verify import expected_answers

        return apart(
            lambda: expected_answers(built.root, load_build(order.name, order.models)), name=order.name
        )

    return _finished(order, built, expect, report)


def _finished(
    order: Order, built: _Built, expect: Callable[[], Expected], report: Report, *, hurry: bool = False
) -> Made:
    report("check")
    check_built(built.root)
    profile: Profile | None = None
    evidence: Evidence | None = None
    expected: list[Expected] = []

    def kept() -> Expected:
        expected.append(expect())
        return expected[-1]

    if order.verify:
        from triton_models.deliver.census import measured_profile
        from triton_models.deliver.verify.verify import compare

        report("verify")
        evidence = compare(built.root, kept, server=process_server(), hurry=hurry).evidence
        examples = [example for each in expected for example, _ in each.answers]
        if not hurry:
            profile = measured_profile(built.root, examples, server=process_server(), cpu=order.cpu)
    report("pack")
    artifact = pack(built.root, output=order.output)
    return Made(
        name=order.name,
        artifact=artifact,
        inputs=built.inputs,
        request=built.request,
        profile=profile,
        trial=built.trial,
        evidence=evidence or evidence_of(artifact.build),
    )


def _built(order: Order, report: Report) -> _Built:
    from triton_models.repository.s3 import repository_client

    (found,) = _found(order).values()
    if not isinstance(found, Found):
        raise FleetError(found)
    inputs = with_objects(found, object_tags([found], repository_client))
    report("build")
    return _built_from(load_build(order.name, order.models), inputs, order)


def _built_from(declaration: ModelDefinition, inputs: Inputs, order: Order) -> _Built:
    root = build(
        order.name,
        output=order.output,
        release=order.release,
        gpu=order.gpu,
        cpu=order.cpu,
        models=order.models,
        declaration=declaration,
    )
    request = example_request(declaration)
    return _Built(root=root, inputs=inputs, request=request, trial=declaration.trial)


_GRAPHS: dict[str, Any] = {}
"""The graphs of the families that this process has built: see `shared_graphs`."""


def make_members(members: Members, report: Report) -> list[Outcome]:
    """Make members of a family, as `make` does with each.

    One copy of this process builds all of them and exports equal graphs once, and another one computes all
    references. A member that fails does not stop the others.
    """
    order, name = members.order, f"{len(members.names)} members of {members.order.name}"
    report("build")
    built, imported, fetched, graphs = apart(
        lambda: (_members_built(members), _imported(), FETCHED, _GRAPHS), name=name
    )
    _import(imported)
    FETCHED.update(fetched)
    _GRAPHS.update(graphs)
    expected: Mapping[str, Ended[Expected]] = {}
    if order.verify:
        report("verify")
        expected = apart(lambda: _members_expected(members, built), name=name)
    found = [_outcome(replace(order, name=each), built[each], expected.get(each)) for each in members.names]
    profile = _profile_of_one(order, found, built, expected)
    return [
        replace(each, made=replace(each.made, profile=profile)) if each.made and profile else each
        for each in found
    ]


def _profile_of_one(
    order: Order,
    outcomes: Sequence[Outcome],
    built: Mapping[str, Ended[_Built]],
    expected: Mapping[str, Ended[Expected]],
) -> Profile | None:
    """Measure the first member that was made: the others have the same graphs."""
    from triton_models.deliver.census import measured_profile

    for name in (each.name for each in outcomes if each.made):
        root, answers = built[name].answer, expected[name].answer if name in expected else None
        if root is not None and answers is not None:
            examples = [example for example, _ in answers.answers]
            return measured_profile(root.root, examples, server=process_server(), cpu=order.cpu)
    return None


def _outcome(order: Order, built: Ended[_Built], expected: Ended[Expected] | None) -> Outcome:
    if built.answer is None:
        return Outcome(name=order.name, step="build", problems=built.problems)
    root, steps = built.answer, [""]

    def expect() -> Expected:
        if expected is None or expected.answer is None:
            raise FleetError(expected.problems if expected else ())
        return expected.answer

    ended = reply(lambda: _finished(order, root, expect, steps.append, hurry=True))
    return Outcome(name=order.name, step=steps[-1], made=ended.answer, problems=ended.problems)


def _members_built(members: Members) -> Mapping[str, Ended[_Built]]:
    from triton_models.builds.export.onnx import shared_graphs
    from triton_models.repository.s3 import repository_client

    order, declaration_of = members.order, _declarations(members)
    found = _found(order, only=members.names)
    tags = object_tags(found.values(), repository_client)

    def built(name: str) -> _Built:
        declaration, inputs = declaration_of(name), found[name]
        if not isinstance(inputs, Found):
            raise FleetError(inputs)
        return _built_from(declaration, with_objects(inputs, tags), replace(order, name=name))

    with shared_graphs(_GRAPHS):
        return {name: reply(partial(built, name)) for name in members.names}


def _members_expected(members: Members, built: Mapping[str, Ended[_Built]]) -> Mapping[str, Ended[Expected]]:
    from triton_models.deliver.verify.verify import expected_answers

    declaration_of = _declarations(members)

    def expected(name: str, root: Path) -> Expected:
        return expected_answers(root, declaration_of(name))

    roots = {name: got.answer.root for name, got in built.items() if got.answer is not None}
    return {name: reply(partial(expected, name, root)) for name, root in roots.items()}


def _declarations(members: Members) -> Callable[[str], ModelDefinition]:
    """Read the family and its list once, and return what gives the declaration of `family:member`."""
    declared = read_folder(members.order.name, members.order.models)
    listed = {
        f"{members.order.name}{FORM_MARK}{each.name}": each for each in declared.members(members.order.name)
    }

    def declaration(name: str) -> ModelDefinition:
        (member,) = [listed[name]] if name in listed else declared.members(name)  # which refuses it
        return declared.member(member)

    return declaration


_IMPORT = re.compile(r"^\s*(?:from|import)\s+(\w+)", re.MULTILINE)
# Many variables act only if they are set before a framework is imported.
_SETS_VARIABLES = re.compile(r"environ(\[[^]]*\]\s*=[^=]|\.(setdefault|update)\()|putenv\(")


def _named(order: Order) -> list[str]:
    """Return the frameworks that a model's code imports, so that its copies need not import them again."""
    folder = folder_of(order.name, order.models)
    sources = [path.read_text(errors="replace") for path in sorted(folder.glob("*.py"))]
    if any(_SETS_VARIABLES.search(source) for source in sources):
        return []
    names = {name for source in sources for name in _IMPORT.findall(source)}
    return sorted(names & (_FRAMEWORKS - {"triton_models"} | {"sentence_transformers"}))


def _imported() -> list[str]:
    """Return the modules of frameworks that this process has imported."""
    return [name for name in sys.modules if name.partition(".")[0] in _FRAMEWORKS]


def _import(names: Sequence[str]) -> None:
    """Import what the last model needed, so that the next one starts with it; importing computes nothing."""
    lacking = [name for name in names if name not in sys.modules]
    for name in lacking:
        with contextlib.suppress(Exception):  # such as a module that its package makes as it runs
            importlib.import_module(name)
    if lacking:
        gc.freeze()  # a copy that collects garbage would write to, and so copy, all of their memory


def find(order: Order, report: Report) -> Mapping[str, Found | tuple[Problem, ...]]:
    """Return the inputs of a model's build, or of each member of a family, or its problems."""
    report("read")
    return _found(order)


def _found(order: Order, *, only: Collection[str] = ()) -> Mapping[str, Found | tuple[Problem, ...]]:
    return find_all(
        order.name, release=order.release, gpu=order.gpu, cpu=order.cpu, models=order.models, only=only
    )


def object_tags(found: Iterable[Found | object], client: Callable[[], S3Client]) -> Callable[[str], str]:
    """Return what gives the tags of the objects that builds need, or raises the error of one.

    Many objects of one folder are listed together: ten thousand weights are a dozen requests.
    """
    objects = sorted({each for one in found if isinstance(one, Found) for each in one.objects})
    folders: dict[str, list[str]] = {}
    for address in objects:
        folder, mark, _ = address.removesuffix("/").rpartition("/")
        folders.setdefault(folder + mark, []).append(address)
    tags: dict[str, str | FleetError] = {}
    s3 = client() if objects else None
    for folder, addresses in folders.items():
        if s3 is not None and len(addresses) >= _LISTED:
            tags.update(tags_below(folder, addresses, s3))
    rest = [each for each in objects if each not in tags]
    if s3 is not None:
        tags.update(zip(rest, in_parallel(caught(partial(tag, s3=s3)), rest), strict=True))

    def known(address: str) -> str:
        found = tags[address]
        if isinstance(found, FleetError):
            raise found
        return found

    return known


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
            for each in map(build.as_sent, build.examples())
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
