"""`fleet deliver`: from declarations to published models, each on its own.

Every model is built, checked, verified and packed in a worker process, and published. One that raises, hangs
or crashes is one failed model with its reason and its log; the others go on. There is a result on every
model, whatever ends the run.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from triton_models.artifact.plans import is_rehearsal
from triton_models.artifact.targets import ArtifactTarget, built_target
from triton_models.base.errors import FleetError, Problem
from triton_models.base.processes import stopped_by_sigterm
from triton_models.builds.build import LOGS
from triton_models.builds.tensorrt.machine import find_compiler
from triton_models.builds.tensorrt.stand_in import stand_in
from triton_models.deliver.building import Order
from triton_models.deliver.logs import log_file, service_log
from triton_models.deliver.places import Place
from triton_models.deliver.publisher import Publisher
from triton_models.deliver.record import Record, say
from triton_models.deliver.results import ModelResult, Results, Step
from triton_models.deliver.steps import Made, make
from triton_models.deliver.worker import Ended, Worker
from triton_models.facts.instances import gpu as gpu_named
from triton_models.facts.releases import DEFAULT_RELEASE
from triton_models.facts.releases import release as release_named
from triton_models.repository.manifest import Repository
from triton_models.repository.publish import Published, publish
from triton_models.repository.s3 import aws_errors, repository_client, wanted_repository
from triton_models.repository.sbom import sbom
from triton_models.repository.stored_manifest import read

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

# Frameworks keep a little of every export. A new process costs their import, seconds, once in so many models.
_MODELS_PER_PROCESS = 200

MODEL_SECONDS = 3600.0
"""How long the making of one model may take, unless it is said. TensorRT takes minutes for most networks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What a run is to do with each model.

    Attributes:
        repository: The model repository, such as s3://bucket/models/.
        release: The Triton release that will serve the models.
        gpu: Compile plans for this GPU, which the machine must have. None makes portable builds.
        cpu: The models are served without a GPU.
        models: The folder of model builds; None for the one beside this package.
        portable: Whether artifacts may be portable: no endpoint on AWS serves this repository.
        verify: Whether a Triton server of this machine must answer as the declaration says.
        model_seconds: How long the making of one model may take.
        output: The folder that keeps artifact roots and artifacts. None keeps nothing once it is published.
        logs: The folder that gets a log for each model, where no service keeps what is printed.
    """

    repository: str
    release: str = DEFAULT_RELEASE
    gpu: str | None = None
    cpu: bool = False
    models: Path | None = None
    portable: bool = False
    verify: bool = True
    model_seconds: float = MODEL_SECONDS
    output: Path | None = None
    logs: Path = Path("build") / LOGS

    @property
    def target(self) -> ArtifactTarget | None:
        """The target of the endpoint that is built for; None if it is built for none."""
        return built_target(release=self.release, gpu=self.gpu, cpu=self.cpu)

    def order(self, name: str, output: Path) -> Order:
        """What is to be made of a model."""
        return Order(
            name=name,
            release=self.release,
            gpu=self.gpu,
            cpu=self.cpu,
            models=self.models,
            output=output,
            verify=self.verify,
        )


def run(arguments: argparse.Namespace) -> Results:
    """`fleet deliver NAME...`."""
    delivery = Delivery(
        repository=wanted_repository(arguments.repository),
        release=arguments.release,
        gpu=arguments.gpu,
        cpu=arguments.cpu,
        models=arguments.models,
        portable=arguments.portable or is_rehearsal(),
        verify=not arguments.unverified,
        model_seconds=arguments.model_timeout,
        output=arguments.output,
        logs=arguments.logs,
    )
    place = Place(address=arguments.results) if arguments.results else None
    with stopped_by_sigterm():
        return deliver(arguments.names, delivery, place=place)


def deliver(
    names: Sequence[str], delivery: Delivery, *, place: Place | None = None, s3: S3Client | None = None
) -> Results:
    """Make and publish models, one after the other.

    A model's publication goes on while the next one is made. The document of results is written before the
    first model, now and then, and at the end: also when the run is interrupted, once all that was ready by
    then is published.

    Args:
        names: The models, or `folder:form`; each is made once.
        delivery: What to do with each.
        place: Where the document of results is written.
        s3: The client to publish with, for many threads; one from the environment if None.

    Raises:
        FleetError: Nothing was begun: the release or the GPU is unknown, the machine cannot compile or
            verify for them, or the repository cannot be read. Or the results cannot be written.
    """
    record = Record(dict.fromkeys(names), place)
    try:
        client = _ready(delivery, s3)
    except FleetError as error:
        record.refuse(error.problems)
        raise
    finished = False
    try:
        with _folder(delivery) as output:
            _Run(delivery, record, client, output).all()
        finished = True
    finally:
        record.write(finished=finished)
    return record.results(finished=True)


class _Run:
    """One run over its models."""

    def __init__(self, delivery: Delivery, record: Record, s3: S3Client, output: Path) -> None:
        self._delivery, self._record, self._s3, self._output = delivery, record, s3, output
        self._service = service_log()
        self._seconds: dict[str, float] = {}
        self._sbom = sbom(release=delivery.release)
        self._step: Step = "read"

    def all(self) -> None:
        """Make and publish every model; whatever interrupts it, what is ready is published."""
        publisher = Publisher(self._publish, self._published)
        try:
            with Worker(most_tasks=_MODELS_PER_PROCESS) as worker:
                for name in self._record.without():
                    self._one(name, worker, publisher)
                    self._record.write_if_due()
        except BaseException:
            with contextlib.suppress(FleetError):
                self._record.write(finished=False)  # publishing may take longer than whoever ends this waits
            raise
        finally:
            publisher.close()

    def _one(self, name: str, worker: Worker, publisher: Publisher) -> None:
        log = None
        if self._service is None:
            log = log_file(self._delivery.logs, name)
            log.unlink(missing_ok=True)
        say(f"{name}: begins")
        self._step = "read"
        try:
            ended = worker.do(
                make,
                self._delivery.order(name, self._output),
                name=name,
                seconds=self._delivery.model_seconds,
                log=log,
                told=self._begins,
            )
        except BaseException:
            self._failed(name, Ended(problems=(_interrupted(name),)))
            raise
        if self._delivery.output is None:
            self._take_compiler_logs(log)
            self._clean()
        if ended.answer is None:
            self._failed(name, ended)
            return
        self._seconds[name] = ended.seconds
        publisher.add(ended.answer)

    def _begins(self, step: str) -> None:
        self._step = cast("Step", step)  # `make` reports no other

    def _failed(self, name: str, ended: Ended[Made]) -> None:
        self._record.give(
            ModelResult(
                model=name,
                status="failed",
                step=self._step,
                problems=ended.problems,
                seconds=ended.seconds,
                log=self._log(name),
            )
        )

    def _publish(self, made: Sequence[Made]) -> Published:
        return publish(
            [each.artifact for each in made],
            repository=self._delivery.repository,
            s3=self._s3,
            portable=self._delivery.portable,
            inputs={each.artifact.model: each.inputs for each in made},
            target=self._delivery.target,
            sbom=self._sbom,
        )

    def _published(self, made: Made, published: Published | None, problems: tuple[Problem, ...]) -> None:
        unchanged = published is not None and made.artifact.model in published.unchanged
        self._record.give(
            ModelResult(
                model=made.name,
                status="failed" if published is None else "unchanged" if unchanged else "published",
                step="publish",
                problems=problems,
                seconds=self._seconds[made.name],
                artifact=made.artifact.path.name,
                log=self._log(made.name),
            )
        )
        if self._delivery.output is None:
            made.artifact.path.unlink(missing_ok=True)

    def _take_compiler_logs(self, log: Path | None) -> None:
        """Add what compilers have said to the model's log, before it is removed with what was built."""
        for path in sorted((self._output / LOGS).rglob("*")):
            if path.is_file():
                text = f"{path.name}:\n{path.read_text(errors='replace')}\n"
                if log is None:
                    say(text)
                else:
                    with log.open("a") as file:
                        file.write(text)

    def _clean(self) -> None:
        """Remove what is left of a model or a killed build, but for what waits to be published."""
        for path in self._output.iterdir():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name.startswith("."):  # an artifact that was not packed to its end
                path.unlink(missing_ok=True)

    def _log(self, name: str) -> str:
        return self._service or str(log_file(self._delivery.logs, name))


def _ready(delivery: Delivery, s3: S3Client | None) -> S3Client:
    """A client for the repository, when all that the models share is there.

    Raises:
        FleetError: It is not.
    """
    release = release_named(delivery.release)
    if service_log() is None:
        _make(delivery.logs)
    if delivery.gpu and is_rehearsal():
        stand_in(release=release, gpu=gpu_named(delivery.gpu))
    elif delivery.gpu:
        find_compiler(release=release, gpu=gpu_named(delivery.gpu), logs=delivery.logs)
    if delivery.verify:
        from triton_models.verify.program import find_server, numpy_of_models

        find_server()
        say(numpy_of_models())
    where = Repository.parse(delivery.repository)
    with aws_errors(where.url):
        client = s3 if s3 is not None else repository_client()
        read(where, client)
    return client


def _make(logs: Path) -> None:
    try:
        logs.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FleetError.of(
            what=f"cannot make the folder of logs: {error.strerror}",
            where=str(logs),
            expected="a folder that can be written to",
            fix="give another one with --logs",
            rule="unwritable",
        ) from None


def _interrupted(name: str) -> Problem:
    return Problem(
        what="the run was interrupted while this model was made",
        where=f"model {name!r}",
        expected="a run that comes to its end",
        why="nothing of it was published",
        fix="find out what ended the run, and deliver this model again",
        rule="interrupted",
    )


@contextlib.contextmanager
def _folder(delivery: Delivery) -> Iterator[Path]:
    """The folder that is built in: the one that keeps everything, or one that is gone in the end."""
    if delivery.output is not None:
        yield delivery.output
        return
    with tempfile.TemporaryDirectory(prefix="fleet-deliver-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)
