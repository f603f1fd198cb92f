"""The folder that builds are made from: what is wrong with it, and what it becomes at deployment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from aws_cdk import IgnoreMode
from aws_cdk import aws_s3_assets as assets
from constructs import Construct

from triton_fleet.arguments.findings import Findings, FleetError, Problem
from triton_models.declaring.reading import FORM_MARK, load_build
from triton_models.releases import Release
from triton_models.servable import unservable
from triton_models.source_files import LEFTOVERS
from triton_models.suggest import did_you_mean

# With what builds and tools leave behind, the same source would not be the same asset.
_NOT_SOURCE = (*LEFTOVERS, "/build", "/artifacts")

_READS_VARIABLE = re.compile(r"""environ(?:\.get\(|\[)\s*["']([A-Za-z0-9_]+)["']""")


def source_asset(scope: Construct, source: str | Path) -> assets.Asset:
    """The folder as what a deployment uploads."""
    return assets.Asset(
        scope,
        "Source",
        path=str(source),
        exclude=list(_NOT_SOURCE),
        ignore_mode=IgnoreMode.GIT,
        display_name="Model builds",
    )


def declared_models(source: Path) -> tuple[str, ...]:
    """The names of the folders that declare a model."""
    return tuple(sorted(path.parent.name for path in source.glob("models/*/build.py")))


def variables_read(source: Path) -> frozenset[str]:
    """The environment variables that the declarations in a source folder read."""
    return frozenset(
        name
        for path in sorted(source.glob("models/*/**/*.py"))
        for name in _READS_VARIABLE.findall(path.read_text(encoding="utf-8", errors="replace"))
    )


def source_problems(source: Path, models: Sequence[str] | None, findings: Findings) -> Iterator[Problem]:
    """What is wrong with a source folder, and with the names of the models to build from it.

    Args:
        source: The folder.
        models: The names; None is every model that it declares.
        findings: Say where the arguments are.
    """
    if not (source / "requirements.txt").is_file():
        yield Problem(
            what=f"{source} is not a folder with a requirements.txt",
            where=findings.where("source"),
            expected="the folder that holds requirements.txt, triton_models/ and models/",
            why="it is what the build job downloads, installs from and runs",
            fix="give the path of the folder model_builds/",
            rule="build-source",
        )
        return
    folders = declared_models(source)
    if not (folders if models is None else models):
        yield Problem(
            what="no model to build",
            where=findings.where("models"),
            expected="one or more names of folders in models/",
            why="a build would do nothing and succeed",
            fix="name a model, or leave ModelBuilds out",
            rule="model-build-exists",
        )
    for model in models or ():
        folder = model.partition(FORM_MARK)[0]
        if folder not in folders:
            yield Problem(
                what=f"no model build {model!r}",
                where=findings.where("models"),
                expected=f"a folder with a build.py in {source / 'models'}: {', '.join(folders) or 'none'}",
                why="the build job would fail on it, minutes after it was started",
                fix=did_you_mean(folder, folders, otherwise=f"add models/{folder}/build.py"),
                rule="model-build-exists",
            )


def declared_problems(
    source: Path, models: Sequence[str] | None, *, release: Release, gpu: bool
) -> Iterator[Problem]:
    """What of the declared models the release could not serve. They are read, which imports no framework.

    Args:
        source: The folder.
        models: The names of those to build; None is every model that it declares.
        release: The Triton release that serves them.
        gpu: Whether GPUs serve them.
    """
    folders = declared_models(source)
    builds = {}
    for name in dict.fromkeys(folders if models is None else models):
        if name.partition(FORM_MARK)[0] in folders:  # of any other it is told already that it is not there
            try:
                builds[name] = load_build(name, source / "models")
            except FleetError as error:
                yield from error.problems
    yield from unservable(builds, models=source / "models", release=release, gpu=gpu)
