"""The folder that builds are made from: what it declares, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from triton_fleet.arguments.findings import Findings, Problem
from triton_models.base.suggest import did_you_mean
from triton_models.declare.reading import FORM_MARK


def declared_models(source: Path) -> tuple[str, ...]:
    """The names of the folders that declare a model."""
    return tuple(sorted(path.parent.name for path in source.glob("models/*/build.py")))


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
