"""Find what Triton or SageMaker would refuse or silently get wrong, in milliseconds and without either.

A model is checked for a target. If the release, the GPU or the endpoint is unknown, its checks are skipped.
Problems that only loading can show are not found: a file that the backend cannot read, a GPU or a library
that the host lacks, and errors in a model's own code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from triton_models.artifact.evidence import precision_of
from triton_models.artifact.layout import BUILD_FILE, Layout, read_layout
from triton_models.artifact.pbtxt import CONFIG_FILE
from triton_models.artifact.precision import precision_by_files
from triton_models.base import options as opt
from triton_models.base.errors import FleetError, Problem, one_line
from triton_models.check import (
    configuration,
    ensemble,
    forests,
    layout,
    networks,
    parameters,
    python,
    release,
)
from triton_models.check.estimate import of_layout
from triton_models.check.fits import NO_ROOM, Fits, no_room, no_room_for_hot, room_of
from triton_models.check.subject import Findings, Subject, subject_of
from triton_models.check.target import ENDPOINTS, MULTI_MODEL, MULTI_MODEL_ENDPOINT, CheckTarget, target
from triton_models.facts.instances import instance_type

OF_ARTIFACTS = (layout, python, ensemble, forests)
OF_MODELS = (layout, configuration, parameters, release, python, networks, forests)


def check_layout(content: Layout, *, target: CheckTarget = MULTI_MODEL) -> list[Problem]:
    """Return all problems of a layout. Facts that the target lacks are taken from build.json."""
    return _problems(subject_of(content, target))


def check_path(path: Path, *, target: CheckTarget = MULTI_MODEL) -> list[Problem]:
    """Return all problems of a file or directory; empty if it is accepted.

    An archive is not unpacked to disk. For a plain Triton server, all links are followed, as the server does,
    and the composing models of an ensemble are looked up next to it.
    """
    try:
        content = read_layout(path, follow_links=target.endpoint is None)
        subject = subject_of(content, target)
        if target.endpoint is None:
            subject = _with_composing_models(subject, path, target)
    except FleetError as error:
        return list(error.problems)
    return _problems(subject)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The outcome of `fleet check`: each path with its problems.

    Attributes:
        precisions: The precision of each path with a record of its build, or with ONNX files.
        fits: How many of them an instance holds; None if it was not asked.
    """

    problems: Mapping[str, tuple[Problem, ...]]
    precisions: Mapping[str, str] = field(default_factory=dict)
    fits: Fits | None = None

    @property
    def exit_code(self) -> int:
        """0 if every path is accepted, otherwise 1."""
        return 1 if any(self.problems.values()) else 0

    def as_dict(self) -> dict[str, Any]:
        """Return each path with its problems, as JSON-ready data."""
        return {
            "accepted": self.exit_code == 0,
            "paths": {
                path: [problem.as_dict() for problem in found] for path, found in self.problems.items()
            },
            "precisions": dict(self.precisions),
            **({"fits": self.fits.as_dict()} if self.fits else {}),
        }

    def lines(self) -> Iterator[str]:
        """Yield the problems in full, and a line per path."""
        for path, found in self.problems.items():
            for problem in found:
                yield from (str(problem), "")
            count = len(found)
            precision = f", {self.precisions[path]}" if path in self.precisions else ""
            said = f"{count} problem{'s' * (count != 1)}" if found else f"accepted{precision}"
            yield f"{one_line(path)}: {said}"
        if self.fits is not None:
            yield from self.fits.lines()


@dataclass(frozen=True, kw_only=True)
class CheckOptions:
    """Options of `fleet check`."""

    paths: Sequence[opt.AnyPath] = opt.argument(
        "a built model, a Triton model directory, a model repository or a .tar.gz", nargs="+"
    )
    release: str | None = opt.option(
        "check for this Triton release, such as 25.09 (default: the release of the build, if any)"
    )
    gpu: str | None = opt.option(
        "check for this GPU, such as A10G (default: the GPU of the build, if any)", within=opt.EITHER
    )
    instance_type: opt.Type | None = opt.option(opt.INSTANCE_TYPE, within=opt.EITHER)
    endpoint_kind: str | None = opt.option(
        "check for a SageMaker endpoint of this kind (default: multi-model for the output of `fleet "
        "build`, otherwise a Triton server of your own, which completes configurations)",
        choices=ENDPOINTS,
    )
    fits: opt.Type | None = opt.option(
        "say how many of them an instance of this type, such as ml.g5.xlarge, holds at a time"
    )
    hot: Sequence[str] = opt.option(
        "with --fits: check that these models fit together, next to the largest other one",
        nargs="+",
        default=(),
        metavar="MODEL",
    )
    auto_complete: bool = opt.flag(opt.AUTO_COMPLETE)
    image_adds: Sequence[opt.Name] = opt.option(opt.IMAGE_ADDS, action="append", default=())


def run(options: CheckOptions) -> Checked:
    """Run `fleet check PATH...` for the target of its options.

    Without --endpoint-kind, artifacts of `fleet build`, packed or not, are checked for a multi-model
    endpoint, and everything else for a plain Triton server.
    """
    asked = target(
        release=options.release,
        gpu=options.gpu,
        instance_type=options.instance_type,
        endpoint=options.endpoint_kind,
        auto_complete=options.auto_complete,
        image_adds=options.image_adds,
    )
    ours = replace(asked, endpoint=MULTI_MODEL_ENDPOINT, auto_complete=options.auto_complete)
    found: dict[str, tuple[Problem, ...]] = {}
    precisions: dict[str, str] = {}
    for path in options.paths:
        build, problems = _check_as_asked(path, asked, ours)
        found[str(path)] = tuple(problems)
        precision = precision_of(build) if build.get("model") else precision_by_files(path)
        if precision:
            precisions[str(path)] = precision
    if options.hot and options.fits is None:
        fix = "name the instance type, such as --fits ml.g5.xlarge"
        raise NO_ROOM.error(what="the instance type is missing", where="--hot", fix=fix)
    if options.fits is None or any(found.values()):
        return Checked(problems=found, precisions=precisions)
    about = instance_type(options.fits)
    profiles = {str(path): of_layout(read_layout(path)) for path in options.paths}
    backends = frozenset().union(*(each.backends for each in profiles.values()))
    room = room_of(about, backends=backends, where="--fits")
    found = {path: tuple(no_room(each, room, about)) for path, each in profiles.items()}
    if options.hot:
        found["--hot"] = tuple(no_room_for_hot(options.hot, tuple(profiles.values()), room, about))
    fits = Fits(type=about, room=room, profiles=tuple(profiles.values()))
    return Checked(problems=found, precisions=precisions, fits=fits)


def _check_as_asked(
    path: Path, asked: CheckTarget, ours: CheckTarget
) -> tuple[Mapping[str, Any], list[Problem]]:
    """Return the record of a path's build, and its problems."""
    if not path.is_file():
        is_built = (path / BUILD_FILE).is_file()
        problems = check_path(path, target=ours if is_built and asked.endpoint is None else asked)
        return read_layout(path).build() if is_built and not problems else {}, problems
    try:
        content = read_layout(path)
        is_built = BUILD_FILE in content.texts
        problems = check_layout(content, target=ours if is_built and asked.endpoint is None else asked)
        return content.build(), problems
    except FleetError as error:
        return {}, list(error.problems)


def _problems(subject: Subject) -> list[Problem]:
    report = Findings(subject)
    for module in OF_ARTIFACTS:
        module.check_artifact(report, subject)
    for model, config in subject.parsed():
        own = report.of(model)
        for module in OF_MODELS:
            module.check_model(own, model, config)
    return list(report.problems)


def _with_composing_models(subject: Subject, path: Path, target: CheckTarget) -> Subject:
    neighbors = path.absolute().parent
    if len(subject.models) != 1 or not path.is_dir() or not (path / CONFIG_FILE).is_file():
        return subject
    content, tried = subject.layout, {subject.models[0].folder}
    while missing := subject.step_names() - tried - {model.folder for model in subject.models}:
        tried |= missing
        for name in sorted(missing):
            if name and "/" not in name and (neighbors / name).is_dir():
                content = content.joined(read_layout(neighbors / name, follow_links=True))
        subject = subject_of(content, target)
    return subject
