"""`fleet deliver`: build and publish models from their declarations, each independently.

A worker process builds, checks, verifies and packs each model, which is then published. A model that raises,
hangs or crashes fails with its reason and its log; the others continue. Every model gets a result, even if
the run is interrupted.

A family's name stands for its members that are new or have changed. They are built many at a time, and those
that fail together once more alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import cast
from urllib.parse import quote

from triton_models.artifact.evidence import evidence_of
from triton_models.artifact.plans import is_rehearsal
from triton_models.artifact.targets import ArtifactTarget, built_target
from triton_models.base import options as opt
from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.errors import FleetError, Problem
from triton_models.base.processes import stopped_by_sigterm
from triton_models.builds.build import LOGS
from triton_models.builds.tensorrt.machine import find_compiler
from triton_models.builds.tensorrt.stand_in import stand_in
from triton_models.declare.reading import FORM_MARK, may_be_family
from triton_models.deliver.diff import changed
from triton_models.deliver.publisher import MOST_BYTES, Publisher
from triton_models.deliver.results import ModelResult, Record, Results, Step, say
from triton_models.deliver.steps import Made, Members, Order, Outcome, make, make_members
from triton_models.deliver.worker import Ended, Worker
from triton_models.facts.instances import gpu as gpu_named
from triton_models.facts.releases import DEFAULT_RELEASE
from triton_models.facts.releases import release as release_named
from triton_models.repository.manifest import Manifest
from triton_models.repository.objects import opened
from triton_models.repository.places import UNWRITABLE, Place
from triton_models.repository.publish import Published, publish
from triton_models.repository.s3 import S3Client
from triton_models.repository.stored_manifest import read

MODEL_SECONDS = 3600.0
"""The default time limit per model. TensorRT takes minutes for most networks."""

INTERRUPTED = Check(id="interrupted", source=FROM_ARGUMENTS)

# The models that a rehearsal builds at once. A machine with a GPU measures while it compiles plans, alone.
_AT_ONCE_IN_REHEARSALS = 2

# The members of a family that are made together: few until their size is known.
_FIRST_TOGETHER, _MOST_TOGETHER = 4, 100


@dataclass(frozen=True, kw_only=True)
class DeliverOptions(opt.RepositoryOptions):
    """Options of `fleet deliver`."""

    names: Sequence[opt.Name] = opt.argument(opt.NAMES, nargs="+")
    gpu: str | None = opt.option(opt.GPU, within=opt.EITHER)
    cpu: bool = opt.flag(opt.CPU, within=opt.EITHER)
    release: str = opt.option(opt.RELEASE, default=DEFAULT_RELEASE)
    models: opt.Folder | None = opt.option(opt.MODELS)
    output: opt.Folder | None = opt.option(
        "the folder to write to (default: a temporary one, removed after publishing)", "-o", "--output"
    )
    results: str | None = opt.option(
        "write the result of each model to this file, or s3://bucket/key, even if interrupted", metavar="FILE"
    )
    model_seconds: opt.Seconds = opt.option(
        "give up on a model after this time, and continue with the next one",
        "--model-timeout",
        default=MODEL_SECONDS,
    )
    logs: opt.Folder = opt.option(
        "write a log per model; in CodeBuild and Processing jobs, the job's log contains all of them",
        default=Path("build") / LOGS,
    )
    portable: bool = opt.flag(opt.PORTABLE)
    verify: bool = opt.option(
        "publish without verifying, on a machine without a Triton server",
        "--unverified",
        default=True,
        action="store_false",
    )

    @property
    def target(self) -> ArtifactTarget | None:
        """The target of the endpoint to build for; None if there is no endpoint."""
        return built_target(release=self.release, gpu=self.gpu, cpu=self.cpu)


def run(options: DeliverOptions) -> Results:
    """Run `fleet deliver NAME...`."""
    place = Place(address=options.results) if options.results else None
    with stopped_by_sigterm():
        return deliver(replace(options, portable=options.portable or is_rehearsal()), place=place)


def deliver(options: DeliverOptions, *, place: Place | None = None, s3: S3Client | None = None) -> Results:
    """Build and publish models, one after the other, in a rehearsal two at once.

    A model is published while the next one is built. The results document is written before the first model,
    at intervals, and at the end. An interrupted run first publishes the models that are ready.
    """
    record = Record(dict.fromkeys(options.names), place)
    try:
        client, manifest = _ready(options, s3)
        expanded = list(_with_members(options, manifest, client))
    except FleetError as error:
        record.refuse(error.problems)
        raise
    record = Record(dict.fromkeys(expanded), place)
    finished = False
    try:
        with _folder(options) as output:
            _Run(options, record, client, output).all()
        finished = True
    finally:
        record.write(finished=finished)
    return record.results(finished=True)


class _Run:
    """A run over all its models."""

    def __init__(self, options: DeliverOptions, record: Record, s3: S3Client, output: Path) -> None:
        self.options, self.record, self.output = options, record, output
        self._s3 = s3
        self.service = service_log()
        self.seconds: dict[str, float] = {}
        self.waiting, self.taking = deque(record.without()), threading.Lock()
        self.publisher = Publisher(self._publish, self._published)

    def all(self) -> None:
        """Build and publish every model; an interruption still publishes the models that are ready."""
        lane, *others = [_Lane(self, output) for output in self._outputs()]
        try:
            with ThreadPoolExecutor(max(1, len(others)), thread_name_prefix="build") as pool:
                futures = [pool.submit(other.all) for other in others]
                try:
                    lane.all()
                    for future in futures:
                        future.result()
                except BaseException:
                    for other in others:
                        other.interrupt()
                    raise
        except BaseException:
            with contextlib.suppress(FleetError):
                self.record.write(finished=False)  # publishing may outlast the grace period
            raise
        finally:
            self.publisher.close()

    def _outputs(self) -> list[Path]:
        """Return a folder for each model that is built at once."""
        at_once = _AT_ONCE_IN_REHEARSALS if is_rehearsal() and len(self.waiting) > 1 else 1
        if at_once == 1 or self.options.output is not None:
            return [self.output] * at_once
        folders = [self.output / str(number) for number in range(at_once)]
        for folder in folders:
            folder.mkdir()
        return folders

    def _publish(self, made: Sequence[Made]) -> Published:
        return publish(
            [each.artifact for each in made],
            repository=self.options.repository or "",  # `_ready` refuses a missing one
            s3=self._s3,
            portable=self.options.portable,
            inputs={each.artifact.model: each.inputs for each in made},
            target=self.options.target,
            requests={each.artifact.model: each.request for each in made if each.request},
            profiles={each.artifact.model: each.profile for each in made if each.profile},
            trials={each.artifact.model: each.trial for each in made if each.trial},
            examples={
                each.artifact.model: each.evidence.examples
                for each in made
                if each.evidence and each.evidence.loaded
            },
        )

    def _published(self, made: Made, published: Published | None, problems: tuple[Problem, ...]) -> None:
        unchanged = published is not None and made.artifact.model in published.unchanged
        evidence = made.evidence or evidence_of(made.artifact.build)
        self.record.give(
            ModelResult(
                model=made.name,
                status="failed" if published is None else "unchanged" if unchanged else "published",
                step="publish",
                problems=problems,
                seconds=self.seconds[made.name],
                artifact=made.artifact.name,
                log=self.log(made.name),
                precision=evidence.precision,
                proof=evidence.status,
                answers=evidence.words(),
            )
        )
        if self.options.output is None:
            made.artifact.path.unlink(missing_ok=True)

    def log(self, name: str) -> str:
        return self.service or str(log_file(self.options.logs, name))


class _Lane:
    """Builds models of a run one after the other, in a process and a folder of its own."""

    def __init__(self, run: _Run, output: Path) -> None:
        self._run, self._output = run, output
        self._options = options = run.options
        self._worker = Worker()
        self._together = _FIRST_TOGETHER
        self._step: Step = "read"
        self._order = Order(
            name="",
            release=options.release,
            output=output,
            gpu=options.gpu,
            cpu=options.cpu,
            models=options.models,
            verify=options.verify,
        )

    def all(self) -> None:
        """Build models until none is waiting."""
        with self._worker:
            while names := self._next():
                for name in names if len(names) == 1 else self._members(names):
                    self._one(name)
                self._run.record.write_if_due()

    def interrupt(self) -> None:
        """End the current build, from another thread."""
        self._worker.interrupt()

    def _one(self, name: str) -> None:
        log = None
        if self._run.service is None:
            log = log_file(self._options.logs, name)
            log.unlink(missing_ok=True)
        self._step = "read"
        try:
            ended = self._worker.do(
                make,
                replace(self._order, name=name),
                name=name,
                seconds=self._options.model_seconds,
                log=log,
                on_step=partial(self._begins, name),
            )
        except BaseException:
            interrupted = INTERRUPTED.problem(
                what="the run was interrupted while it built this model",
                where=f"model {name!r}",
                why="the model was not published",
                fix="find the cause of the interruption, then deliver this model again",
            )
            self._failed(name, Ended(problems=(interrupted,)))
            raise
        self._clean(log)
        if ended.answer is None:
            self._failed(name, ended)
            return
        self._run.seconds[name] = ended.seconds
        self._run.publisher.add(ended.answer)

    def _next(self) -> list[str]:
        """Take the next model, or the next members of a family; nothing when all are taken."""
        with self._run.taking:
            waiting = self._run.waiting
            names = [waiting.popleft()] if waiting else []
            family, is_member, _ = names[0].partition(FORM_MARK) if names else ("", "", "")
            if is_member and may_be_family(family, self._options.models):
                mark = f"{family}{FORM_MARK}"
                while waiting and len(names) < self._together and waiting[0].startswith(mark):
                    names.append(waiting.popleft())
            return names

    def _members(self, names: Sequence[str]) -> Sequence[str]:
        """Make members of a family together, and return those that have to be made alone.

        These are all of them if the process died, and those that gave wrong answers: a graph that is exported
        once has what a network takes from elsewhere than its module only for the first member.
        """
        family = names[0].partition(FORM_MARK)[0]
        log = None if self._run.service else log_file(self._options.logs, family)
        say(f"{family}: {len(names)} members, {names[0]} to {names[-1]}")
        ended = self._worker.do(
            make_members,
            Members(order=replace(self._order, name=family), names=tuple(names)),
            name=family,
            seconds=self._options.model_seconds * len(names),
            log=log,
        )
        self._clean(log)
        sizes = [each.made.artifact.size for each in ended.answer or () if each.made]
        if sizes:  # their folders and artifacts are on the disk at the same time
            self._together = min(_MOST_TOGETHER, max(1, MOST_BYTES // (2 * max(sizes))))
        alone = []
        for each in ended.answer or [Outcome(name=name, step="verify") for name in names]:
            if each.made is not None:
                self._run.seconds[each.name] = ended.seconds / len(names)
                self._run.publisher.add(each.made)
            elif each.step == "verify":
                alone.append(each.name)
            else:
                self._step = cast("Step", each.step)
                self._failed(each.name, Ended(problems=each.problems))
        return alone

    def _clean(self, log: Path | None) -> None:
        """Remove what a build left, except artifacts that wait to be published."""
        if self._options.output is not None:
            return
        self._take_compiler_logs(log)
        for path in self._output.iterdir():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name.startswith("."):  # a partially packed artifact
                path.unlink(missing_ok=True)

    def _begins(self, name: str, step: str) -> None:
        say(f"{name}: {step}")
        self._step = cast("Step", step)  # `make` reports only these

    def _failed(self, name: str, ended: Ended[Made]) -> None:
        result = ModelResult(model=name, status="failed", step=self._step, problems=ended.problems)
        self._run.record.give(replace(result, seconds=ended.seconds, log=self._run.log(name)))

    def _take_compiler_logs(self, log: Path | None) -> None:
        """Append the compilers' output to the model's log, before it is removed with the build."""
        for path in sorted((self._output / LOGS).rglob("*")):
            if path.is_file():
                text = f"{path.name}:\n{path.read_text(errors='replace')}\n"
                if log is None:
                    say(text)
                else:
                    with log.open("a") as file:
                        file.write(text)


def _with_members(options: DeliverOptions, manifest: Manifest, s3: S3Client) -> Iterator[str]:
    """Yield these names, with the members that need a build in place of their family."""
    for name in dict.fromkeys(options.names):
        if FORM_MARK in name or not may_be_family(name, options.models):
            yield name
            continue
        states = changed(
            [name],
            manifest,
            release=options.release,
            gpu=options.gpu,
            cpu=options.cpu,
            models=options.models,
            s3=s3,
        )
        if [each.model for each in states] == [name]:  # no family, or one that cannot be read
            yield name
            continue
        to_build = [each.model for each in states if each.state in {"changed", "broken"}]
        say(f"{name}: {len(states)} members, {len(to_build)} to build")
        yield from to_build


def _ready(options: DeliverOptions, s3: S3Client | None) -> tuple[S3Client, Manifest]:
    """Check everything the models share, and return a client for the repository, and its manifest."""
    release = release_named(options.release)
    if service_log() is None:
        try:
            options.logs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            what, fix = f"cannot create the log folder: {error.strerror}", "choose another folder with --logs"
            raise UNWRITABLE.error(what=what, where=str(options.logs), fix=fix) from None
    if options.gpu and is_rehearsal():
        stand_in(release=release, gpu=gpu_named(options.gpu))
    elif options.gpu:
        find_compiler(release=release, gpu=gpu_named(options.gpu), logs=options.logs)
    if options.verify:
        from triton_models.deliver.verify.server import find_server, numpy_of_models

        find_server()
        say(numpy_of_models())
    with opened(options.repository, s3) as store:
        manifest = read(store).manifest
    return store.s3, manifest


@contextlib.contextmanager
def _folder(options: DeliverOptions) -> Iterator[Path]:
    """Yield the folder to build in: the one to keep, or a temporary one."""
    if options.output is not None:
        yield options.output
        return
    with tempfile.TemporaryDirectory(prefix="fleet-deliver-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


LOG_GROUP_VARIABLE = "FLEET_LOG_GROUP"
"""The variable with the log group of a build; CodeBuild itself sets only the stream."""

# The file that describes a Processing job, and the log group of all jobs. Stream names begin with the job's
# name. Known from examples, not from AWS. Without the file, a result names the log less exactly.
PROCESSING_CONFIG = Path("/opt/ml/config/processingjobconfig.json")
_PROCESSING_GROUP = "/aws/sagemaker/ProcessingJobs"


def service_log(
    environment: Mapping[str, str] = os.environ, *, processing: Path = PROCESSING_CONFIG
) -> str | None:
    """Return the CloudWatch Logs stream of this process; None on a developer's machine.

    Models print to this stream if there is one, because files are lost with the machine.
    https://docs.aws.amazon.com/codebuild/latest/userguide/build-env-ref-env-vars.html, read 2026-11-21:
    CODEBUILD_LOG_PATH is the name of the log stream.
    """
    job = _processing_job(processing)
    if job is not None:
        return f"CloudWatch Logs {_PROCESSING_GROUP}, streams {job}/"
    build = environment.get("CODEBUILD_BUILD_ID")
    if not build or "CODEBUILD_LOG_PATH" not in environment:
        return None
    group = environment.get(LOG_GROUP_VARIABLE)
    where = f"CloudWatch Logs {group}" if group else f"the log of the CodeBuild build {build}"
    return f"{where}, stream {environment['CODEBUILD_LOG_PATH']}"


def log_file(folder: Path, model: str) -> Path:
    """Return the log file of a model on a developer's machine; the name may be any string."""
    return folder / f"{quote(model, safe=':')}.log"


def _processing_job(path: Path) -> str | None:
    try:
        return str(json.loads(path.read_text())["ProcessingJobName"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
