"""`fleet build`: from a declaration to an artifact root on disk, whole or not at all."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from triton_models.errors import FleetError, Problem, raise_if_any
from triton_models.instances import gpu as gpu_named
from triton_models.layout import BUILD_FILE
from triton_models.making import make
from triton_models.releases import DEFAULT_RELEASE
from triton_models.releases import release as release_named
from triton_models.spec import MODELS, BuildJob, ModelBuild, blame, load_build, load_builds
from triton_models.tensorrt import find_compiler


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What a run of `fleet build` made.

    Attributes:
        roots: The artifact roots, in the order of the names given.
    """

    roots: tuple[Path, ...]
    exit_code: int = 0

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready: each artifact root with the content of its build.json."""
        return {
            "built": [
                {"path": str(root), **json.loads((root / BUILD_FILE).read_text())} for root in self.roots
            ]
        }

    def lines(self) -> Iterator[str]:
        """The path of each artifact root."""
        return map(str, self.roots)


def run(arguments: argparse.Namespace) -> Built:
    """Build every model named, one after the other in this process, so that frameworks are imported once.

    All declarations are read first, so that a mistake in the last one is told before the first is exported.
    A model that fails later does not keep the others from being built.

    Raises:
        FleetError: What was wrong with each model that failed.
    """
    roots: list[Path] = []
    problems: list[Problem] = []
    load_builds(dict.fromkeys(arguments.names), arguments.models)
    for name in dict.fromkeys(arguments.names):
        if sys.stderr.isatty():
            sys.stderr.write(f"building {name} ...\n")
        try:
            roots.append(
                build(
                    name,
                    output=arguments.output,
                    release=arguments.release,
                    gpu=arguments.gpu,
                    cpu=arguments.cpu,
                    models=arguments.models,
                )
            )
        except FleetError as error:
            problems.extend(error.problems)
    raise_if_any(dict.fromkeys(problems))  # an unknown GPU would otherwise be told once for each model
    return Built(roots=tuple(roots))


def build(
    name: str,
    *,
    output: Path,
    release: str = DEFAULT_RELEASE,
    gpu: str | None = None,
    cpu: bool = False,
    models: Path | None = None,
) -> Path:
    """Build one model.

    Args:
        name: The model.
        output: The folder that gets the artifact root, under the model's name. An earlier build there is
            replaced once the new one is complete.
        release: The Triton release that will serve it.
        gpu: Compile plans for this GPU, which the machine must have. None makes a portable build: encoders
            stay ONNX files, for a server that has a stand-in for TensorRT.
        cpu: The model is served without a GPU: encoders stay ONNX files, and ONNX Runtime serves them.
        models: The folder of model builds; by default the one beside this package.

    Returns:
        The artifact root.

    Raises:
        FleetError: The model, release or GPU is unknown, the machine cannot compile for it, or the model's
            own code failed. Nothing is left behind then, and an earlier build stays as it was.
    """
    declaration = load_build(name, models)
    served_by = release_named(release)
    compiler = find_compiler(release=served_by, gpu=gpu_named(gpu)) if gpu else None
    target = output / name
    _refuse_foreign(target)
    with _staging(output, name) as staging:
        root = staging / name
        root.mkdir()
        source = (models or MODELS).resolve() / name
        job = BuildJob(root=root, release=served_by, source=source, compiler=compiler, cpu=cpu)
        _write(declaration, job)
        (root / BUILD_FILE).write_text(json.dumps(_about(declaration, job), indent=2) + "\n")
        _replace(root, target, aside=staging / "earlier")
    return target


def _write(declaration: ModelBuild, job: BuildJob) -> None:
    try:
        # Exporters print; standard output belongs to the command's result.
        with contextlib.redirect_stdout(sys.stderr):
            make(declaration, job)
    except FleetError as error:
        raise FleetError(
            replace(problem, where=f"model {declaration.name!r}: {problem.where}")
            for problem in error.problems
        ) from error
    except Exception as error:
        raise FleetError.of(
            what=f"building {declaration.name!r} failed: {type(error).__name__}: {error}",
            where=blame(error, job.source),
            expected="write() to fill the model directories",
            fix="install what models are built with: pip install -r model_builds/requirements.txt"
            if isinstance(error, ModuleNotFoundError)
            else "mend that line, then build again; nothing of this attempt was kept",
            rule="build-failed",
        ) from error
    if not any(job.root.glob("*/config.pbtxt")):
        raise FleetError.of(
            what=f"write() of {declaration.name!r} made no model directory",
            where=str(job.source / "build.py"),
            expected="at least one call of job.model(config)",
            fix="make the model directory with job.model and put the model's file into the folder it returns",
            rule="build-empty",
        )


def _about(declaration: ModelBuild, job: BuildJob) -> dict[str, Any]:
    """What build.json says. Without a plan an artifact belongs to no GPU, whatever GPU was asked for."""
    return {
        "model": declaration.name,
        "description": declaration.description,
        "release": job.release.name,
        "gpu": job.gpu.name if job.gpu and job.plans else None,
        "tensorrt": job.plans[0] if job.plans else None,
        "sources": dict(sorted(job.sources.items())),
    }


def _refuse_foreign(target: Path) -> None:
    if target.exists() and not (target / BUILD_FILE).is_file():
        raise FleetError.of(
            what=f"{target} exists and is no build",
            where="the output folder (-o)",
            expected=f"nothing there, or an earlier build with its {BUILD_FILE}",
            why="building replaces what is there",
            fix="move it away, or name another output folder",
            rule="output-taken",
        )


@contextlib.contextmanager
def _staging(output: Path, name: str) -> Iterator[Path]:
    """A temporary folder beside the target, so that moving a finished build there is a rename."""
    created = [folder for folder in (output, *output.parents) if not folder.exists()]
    try:
        output.mkdir(parents=True, exist_ok=True)
        temporary = tempfile.TemporaryDirectory(prefix=f".{name}-", dir=output)
    except OSError as error:
        raise FleetError.of(
            what=f"cannot write to {output}: {error.strerror}",
            where="the output folder (-o)",
            expected="a folder that can be written to",
            fix="name another one",
            rule="output-unwritable",
        ) from error
    try:
        with temporary as staging:
            yield Path(staging)
    except BaseException:
        for folder in created:
            with contextlib.suppress(OSError):  # another build may have put something there meanwhile
                folder.rmdir()
        raise


def _replace(built: Path, target: Path, *, aside: Path) -> None:
    if not target.exists():
        built.rename(target)
        return
    target.rename(aside)
    try:
        built.rename(target)
    except OSError:
        aside.rename(target)
        raise
