"""`fleet diff`: list the models to rebuild, by comparing the inputs of their builds.

The inputs of each declaration (see `triton_models.builds.inputs`) are compared with those that the manifest
recorded when the artifact was published. A model is unchanged if both are equal.

After a `fleet rollback` the sources are still those of the artifact that was withdrawn. Building them again
would silently undo the rollback. Such a model is held until its declaration, its weights, the release or the
target hardware changes; newer build tools do not release it. `fleet deliver NAME` builds it at any time.

Declarations are read in a worker process. One that hangs or crashes is reported as broken; the rest are read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from triton_models.artifact.targets import ANY, ArtifactTarget, built_target
from triton_models.base import options as opt
from triton_models.base.errors import FleetError, Problem
from triton_models.base.outcome import JsonReady
from triton_models.builds.inputs import Found, Inputs, differences, tools_digest, with_objects
from triton_models.declare.reading import FORM_MARK, model_names
from triton_models.deliver.results import ModelResult, Record
from triton_models.deliver.steps import Order, find, object_tags
from triton_models.deliver.worker import Worker
from triton_models.facts.releases import DEFAULT_RELEASE
from triton_models.repository.manifest import ArtifactRecord, Manifest, ModelRecord
from triton_models.repository.objects import opened
from triton_models.repository.places import Place
from triton_models.repository.s3 import S3Client, repository_client
from triton_models.repository.stored_manifest import read

# Reading a declaration takes milliseconds, unless gigabytes of local weights must be hashed.
READ_SECONDS = 600.0

# A build of members exports their graph once. In a Processing job their names are its arguments.
_MEMBERS_PER_MODEL, _MOST_MEMBERS = 10, 500

# A change of these inputs does not release a model that was rolled back.
_HOLDS = frozenset({"tools", "packages"})
# These inputs differ between builds of the same sources for two targets.
_OF_A_TARGET = frozenset({"release", "hardware"})

State = Literal["changed", "unchanged", "held", "broken"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelState(JsonReady):
    """The state of a model: the need for a new build, and its reasons.

    Attributes:
        state: "changed"; "unchanged"; "held", if it was rolled back and its sources have not changed since;
            or "broken", if its inputs cannot be determined.
        differs: The inputs that changed, or "new".
    """

    model: str
    state: State
    differs: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """The outcome of `fleet diff`.

    Attributes:
        reported: True if a results document reports the broken models.
        families: The names of the families whose members are among the states.
    """

    states: tuple[ModelState, ...]
    reported: bool = False
    families: frozenset[str] = frozenset()

    @property
    def exit_code(self) -> int:
        """1 if a declaration is broken and no results document reports it, otherwise 0."""
        return 1 if self.having("broken") and not self.reported else 0

    def having(self, state: State) -> list[ModelState]:
        """Return the models in a state."""
        return [each for each in self.states if each.state == state]

    def items(self, *, models_per_build: int = 1) -> list[dict[str, str]]:
        """Return the models to build as an array of objects, for the ItemReader of a Step Functions map.

        Models are spread evenly over as few items as possible, each with at most that many, or with ten times
        as many members of one family.
        """
        names = [each.model for each in self.having("changed")]
        alone = [name for name in names if name.partition(FORM_MARK)[0] not in self.families]
        builds = -(-len(alone) // models_per_build)
        items = [alone[first::builds] for first in range(builds)]
        for family in sorted(self.families):
            members = [name for name in names if name.startswith(f"{family}{FORM_MARK}")]
            most = max(models_per_build, min(models_per_build * _MEMBERS_PER_MODEL, _MOST_MEMBERS))
            builds = -(-len(members) // most)
            items += [members[first::builds] for first in range(builds)]
        return [{"models": " ".join(item)} for item in items]

    def as_dict(self) -> dict[str, Any]:
        """Return the states of all models as JSON-ready data."""
        return {"models": [each.as_dict() for each in self.states]}

    def lines(self) -> Iterator[str]:
        """Yield each broken, held and changed model with its details, then the counts."""
        for each in self.having("broken"):
            for problem in each.problems:
                yield from (f"{each.model}: broken: {problem}", "")
        for each in self.having("held"):
            yield f"{each.model}: held: its sources have not changed since its rollback"
        for each in self.having("changed"):
            yield f"{each.model}: changed: {', '.join(each.differs)}"
        counts = {state: len(self.having(state)) for state in ("changed", "unchanged", "held", "broken")}
        summary = ", ".join(f"{n} {state}" for state, n in counts.items() if n or state == "changed")
        yield f"{len(self.states)} model{'s' * (len(self.states) != 1)}: {summary}"


@dataclass(frozen=True, kw_only=True)
class DiffOptions(opt.RepositoryOptions):
    """Options of `fleet diff`."""

    names: Sequence[opt.Name] = opt.argument(opt.NAMES, nargs="*", within=opt.ONE)
    all: bool = opt.flag("every folder under model_builds/models/, without its other forms", within=opt.ONE)
    gpu: str | None = opt.option(opt.GPU, within=opt.EITHER)
    cpu: bool = opt.flag(opt.CPU, within=opt.EITHER)
    release: str = opt.option(opt.RELEASE, default=DEFAULT_RELEASE)
    models: opt.Folder | None = opt.option(opt.MODELS)
    items: str | None = opt.option(
        'write the models to build to this file, or s3://bucket/key: [{"models": "minilm resnet50"}, ...]',
        metavar="FILE",
    )
    models_per_build: opt.Count = opt.option("the maximum number of models per item of --items", default=1)
    results: str | None = opt.option(
        "write broken models to this file, or s3://bucket/key, for `fleet summarize`, and exit with 0",
        metavar="FILE",
    )


def run(options: DiffOptions) -> Changed:
    """Run `fleet diff NAME... | --all`."""
    with opened(options.repository) as store:
        names = options.names or model_names(options.models)
        manifest = read(store).manifest
    states = changed(
        names,
        manifest,
        release=options.release,
        gpu=options.gpu,
        cpu=options.cpu,
        models=options.models,
        s3=store.s3,
    )
    members = {each.model.partition(FORM_MARK)[0] for each in states if each.model not in names}
    outcome = Changed(
        states=tuple(states), reported=bool(options.results), families=frozenset(members.intersection(names))
    )
    if options.items:
        items = outcome.items(models_per_build=options.models_per_build)
        Place(address=options.items).write(json.dumps(items) + "\n")
    if options.results:
        broken = outcome.having("broken")
        record = Record([each.model for each in broken], Place(address=options.results))
        for each in broken:
            record.give(ModelResult(model=each.model, status="failed", step="read", problems=each.problems))
        record.write(finished=True)
    return outcome


def changed(
    names: Sequence[str],
    manifest: Manifest,
    *,
    release: str,
    gpu: str | None = None,
    cpu: bool = False,
    models: Path | None = None,
    s3: S3Client | None = None,
    read_seconds: float = READ_SECONDS,
) -> list[ModelState]:
    """Return the state of each model, and of each member of a family: the need for a new build, and why."""
    tools_digest(release=release, gpu=gpu)  # report an error common to all models once
    found: dict[str, Found | tuple[Problem, ...]] = {}
    with Worker() as worker:
        for name in dict.fromkeys(names):
            order = Order(name=name, release=release, gpu=gpu, cpu=cpu, models=models, output=Path())
            ended = worker.do(find, order, name=name, seconds=read_seconds)
            found |= {name: ended.problems} if ended.answer is None else ended.answer
    tags = object_tags(found.values(), repository_client if s3 is None else lambda: s3)
    target = built_target(release=release, gpu=gpu, cpu=cpu) or ANY
    return [_state(name, each, manifest, tags, target) for name, each in found.items()]


def _state(
    name: str,
    found: Found | tuple[Problem, ...],
    manifest: Manifest,
    tags: Callable[[str], str],
    target: ArtifactTarget,
) -> ModelState:
    if not isinstance(found, Found):
        return ModelState(model=name, state="broken", problems=found)
    try:
        inputs = with_objects(found, tags)
        record = manifest.find(found.model)
    except FleetError as error:
        return ModelState(model=name, state="broken", problems=error.problems)
    if record is None:
        return ModelState(model=name, state="changed", differs=("new",))
    return _compared(name, inputs, record, target)


def _compared(name: str, inputs: Inputs, record: ModelRecord, target: ArtifactTarget) -> ModelState:
    moved = record.moved_for(target)
    if moved is None:  # a portable artifact serves until one for the target is built
        if any(_held(inputs, record, each, also=_OF_A_TARGET) for each in record.current):
            return ModelState(model=name, state="held")
        return ModelState(model=name, state="changed", differs=("target",))
    current = record.artifacts[record.current[moved]].inputs
    if dict(current) == dict(inputs):
        return ModelState(model=name, state="unchanged")
    known = _newest(record, target).inputs or current
    if not known:
        return ModelState(model=name, state="changed", differs=("published without its inputs",))
    if _held(inputs, record, target):
        return ModelState(model=name, state="held")
    return ModelState(model=name, state="changed", differs=differences(known, inputs))


def _newest(record: ModelRecord, target: ArtifactTarget) -> ArtifactRecord:
    """Return the artifact published last for a target, even if rolled back since, or as a candidate."""
    candidates = [each for each in record.rollouts if record.artifacts[each.artifact].runs_on(target)]
    if candidates and (not record.history or candidates[-1].at > record.history[-1].at):
        return record.artifacts[candidates[-1].artifact]
    published = record.by_publication(target) or (record.on(target) or "",)
    return record.artifacts[published[-1]]


def _held(
    inputs: Inputs, record: ModelRecord, target: ArtifactTarget, *, also: frozenset[str] = frozenset()
) -> bool:
    """Return whether a build would only recreate the artifact that was rolled back on a target."""
    newest = _newest(record, target)
    if newest is record.artifacts.get(record.on(target) or "") or not newest.inputs:
        return False
    return (_HOLDS | also).issuperset(differences(newest.inputs, inputs))
