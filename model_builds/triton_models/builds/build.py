"""`fleet build`: build an artifact root on disk from a declaration, atomically."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from triton_models.artifact.compared import COMPARED
from triton_models.artifact.evidence import PRECISION, evidence_of, precision_of
from triton_models.artifact.layout import (
    ANSWER,
    AUTO_COMPLETE,
    BUILD_FILE,
    MAX_BATCH_SIZE,
    REQUEST,
    TOLERANCE,
)
from triton_models.artifact.pbtxt import (
    CONFIG_FILE,
    ModelConfig,
    answer_of,
    read_config,
    request_of,
    schema,
    write_config,
)
from triton_models.artifact.plans import is_rehearsal
from triton_models.artifact.precision import precision_by_files
from triton_models.artifact.roots import refuse_foreign, replace_folder, staging_folder
from triton_models.base import options as opt
from triton_models.base.errors import FleetError, Problem, raise_if_any
from triton_models.base.outcome import JsonReady
from triton_models.base.suggest import did_you_mean
from triton_models.builds.job import Job
from triton_models.builds.making import make
from triton_models.builds.tensorrt.compiler import COMPILE_TIMEOUT_S, Compiler
from triton_models.builds.tensorrt.machine import find_compiler
from triton_models.builds.tensorrt.stand_in import StandIn, stand_in
from triton_models.builds.tensorrt.timing_cache import TIMING_CACHE_VARIABLE, TimingCache
from triton_models.check.onnx_network import ONNX_OUTPUTS
from triton_models.declare.declaration import ModelDefinition
from triton_models.declare.reading import blame, fix_of, folder_of, load_build, load_builds, place_of
from triton_models.declare.weights import RandomWeights
from triton_models.facts.image_contents import CUSTOM_IMAGE_ADDS
from triton_models.facts.instances import gpu as gpu_named
from triton_models.facts.releases import DEFAULT_RELEASE
from triton_models.facts.releases import release as release_named

LOGS = ".logs"
"""The folder of compiler logs, by model, next to the artifact roots; a "*" does not match it."""

CONFIG_HERE = Path("configs") / "cpu.pbtxt"
"""The configuration that the server of a rehearsal prefers, with `--model-config-name=cpu`."""

# The escape codes with which exporters color their messages.
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True, slots=True, kw_only=True)
class Built(JsonReady):
    """The result of `fleet build`."""

    roots: tuple[Path, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return each artifact root with its precision and its build.json, as JSON-ready data."""
        records = [(root, json.loads((root / BUILD_FILE).read_text())) for root in self.roots]
        return {
            "built": [
                {"path": str(root), "precision": precision_of(record), **record} for root, record in records
            ]
        }

    def lines(self) -> Iterator[str]:
        """Yield the path of each artifact root."""
        return map(str, self.roots)


@dataclass(frozen=True, kw_only=True)
class BuildOptions(opt.AccountOptions):
    """Options of `fleet build`."""

    names: Sequence[opt.Name] = opt.argument(opt.NAMES, nargs="+")
    output: opt.Folder = opt.option(
        "the folder to write to (default: %(default)s, in the current folder)",
        "-o",
        "--output",
        default=Path("build"),
    )
    gpu: str | None = opt.option(opt.GPU, within=opt.EITHER)
    cpu: bool = opt.flag(opt.CPU, within=opt.EITHER)
    release: str = opt.option(opt.RELEASE, default=DEFAULT_RELEASE)
    models: opt.Folder | None = opt.option(opt.MODELS)
    timing_cache: str | None = opt.option(
        "keep TensorRT's measurements in this folder or under s3://bucket/prefix/, for faster builds "
        "(default: the environment variable FLEET_TIMING_CACHE)",
        metavar="PLACE",
    )
    compile_timeout: opt.Seconds | None = opt.option(
        "stop compiling a plan after this time (default: an hour)"
    )


def run(options: BuildOptions) -> Built:
    """Build the named models one after the other in this process, so that frameworks are imported once.

    All declarations are read first, so an invalid one is reported before the first model is exported. A model
    that fails later does not stop the others.
    """
    roots: list[Path] = []
    problems: list[Problem] = []
    load_builds(dict.fromkeys(options.names), options.models)
    for name in dict.fromkeys(options.names):
        if sys.stderr.isatty():
            sys.stderr.write(f"building {name} ...\n")
        try:
            roots.append(
                build(
                    name,
                    output=options.output,
                    release=options.release,
                    gpu=options.gpu,
                    cpu=options.cpu,
                    models=options.models,
                    timing_cache=options.timing_cache,
                    compile_timeout_s=options.compile_timeout or COMPILE_TIMEOUT_S,
                )
            )
        except FleetError as error:
            problems.extend(error.problems)
        else:
            sys.stderr.write(f"{_said_of(roots[-1])}\n")
    raise_if_any(dict.fromkeys(problems))  # report an unknown GPU once, not per model
    return Built(roots=tuple(roots))


def _said_of(root: Path) -> str:
    """Return a model's precision, and what its build compared. Standard output has its path alone."""
    evidence = evidence_of(json.loads((root / BUILD_FILE).read_text()))
    answers = evidence.words() if evidence.compared else "not compared: `fleet verify` does that"
    return f"{root.name}: {evidence.precision}, {answers}"


def build(
    name: str,
    *,
    output: Path,
    release: str = DEFAULT_RELEASE,
    gpu: str | None = None,
    cpu: bool = False,
    models: Path | None = None,
    timing_cache: str | None = None,
    compile_timeout_s: float = COMPILE_TIMEOUT_S,
    declaration: ModelDefinition | None = None,
) -> Path:
    """Build one model, the name of a folder or `folder:form`, and return its artifact root.

    With a GPU, which the machine must have, plans are compiled for it. With `cpu`, ONNX Runtime serves what
    is declared for plans. With neither, the build is portable. A complete build replaces an earlier one of
    that name; the logs of trtexec are next to it, in .logs/. Without a timing cache, FLEET_TIMING_CACHE names
    it. Its declaration is given if it has just been read.

    Raises:
        FleetError: The model, release or GPU is unknown, the machine cannot compile for it, or the model's
            own code failed. Only logs remain then, and an earlier build is left unchanged.
    """
    declaration = declaration or load_build(name, models)
    served_by = release_named(release)
    rehearsed = is_rehearsal()
    compiler: Compiler | StandIn | None = None
    if gpu and rehearsed:
        compiler = stand_in(release=served_by, gpu=gpu_named(gpu))
    elif gpu:
        cache = timing_cache or os.environ.get(TIMING_CACHE_VARIABLE)
        compiler = find_compiler(
            release=served_by,
            gpu=gpu_named(gpu),
            logs=output / LOGS / declaration.name,
            timing_cache=TimingCache.at(cache) if cache else None,
            timeout_s=compile_timeout_s,
        )
    target = output / declaration.name
    refuse_foreign(target)
    with staging_folder(output, declaration.name) as staging:
        root = staging / declaration.name
        root.mkdir()
        source = folder_of(name, models)
        job = Job(
            root=root,
            release=served_by,
            source=source,
            compiler=compiler,
            cpu=cpu,
            rehearsed=rehearsed,
            check_tolerance=declaration.check_tolerance,
        )
        _write(declaration, job)
        # For verification here; other servers ignore the added configuration.
        for model, note in configure_for_rehearsal(root, cpu=cpu) if job.portable else ():
            sys.stderr.write(f"note: {model} {note}\n")
        if isinstance(declaration.weights, RandomWeights):
            sys.stderr.write(f"warning: {name} has random weights, so its answers are meaningless\n")
        (root / BUILD_FILE).write_text(json.dumps(_about(declaration, job), indent=2) + "\n")
        replace_folder(root, target, aside=staging / "earlier")
    return target


@contextlib.contextmanager
def explained(declaration: ModelDefinition, source: Path) -> Iterator[None]:
    """Run a declaration's own code: any failure is an error with its line, and what it prints is no result.

    Exporters print too, but standard output is reserved for the command's result.
    """
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except FleetError as error:
        raise FleetError(
            replace(problem, where=f"model {declaration.name!r}: {problem.where}")
            for problem in error.problems
        ) from error
    except (Exception, SystemExit) as error:
        said = _COLOUR.sub("", str(error))
        raise FleetError.of(
            what=f"building {declaration.name!r} failed: {type(error).__name__}: {said}",
            where=blame(error, source),
            fix=fix_of(error, otherwise="fix that line, then build again; this attempt left no files"),
            rule="build-failed",
        ) from error


def _write(declaration: ModelDefinition, job: Job) -> None:
    with explained(declaration, job.source):
        make(declaration, job)
    if not any(job.root.glob("*/config.pbtxt")):
        raise FleetError.of(
            what=f"write() of {declaration.name!r} created no model directory",
            where=str(job.source / "build.py"),
            fix="create the model directory with job.model and write the model's file to the returned folder",
            rule="build-empty",
        )
    raise_if_any(_unknown_output(declaration, job))


def _unknown_output(declaration: ModelDefinition, job: Job) -> Iterator[Problem]:
    path = job.root / declaration.name / CONFIG_FILE
    outputs = [each.name for each in read_config(path).output] if path.is_file() else []
    if outputs and declaration.output not in outputs:
        yield Problem(
            what=f"{declaration.name!r} has no output {declaration.output!r}",
            where=place_of(declaration, "output", job.source),
            fix=did_you_mean(declaration.output, outputs, otherwise=f"name one of {', '.join(outputs)}"),
            rule="unknown-output",
        )


def _about(declaration: ModelDefinition, job: Job) -> dict[str, Any]:
    """Return the content of build.json. An artifact without a plan has no GPU, even if one was requested.

    If something was left out, the artifact is portable and cannot be published for an endpoint.
    """
    versions = (each["tensorrt"] for each in job.plans.values() if "tensorrt" in each)
    signature: dict[str, Any] = {}  # against which the client checks requests
    with contextlib.suppress(FleetError):  # of a file written by a declaration: `fleet check` reports it
        config = read_config(job.root / declaration.name / CONFIG_FILE)
        signature[REQUEST], signature[ANSWER] = request_of(config), answer_of(config)
        signature[MAX_BATCH_SIZE] = config.max_batch_size
    added = sorted(declaration.custom_image_adds)
    allowed = declaration.allowed_of(job.precisions)
    compared = {name: comparison.as_dict() for name, comparison in sorted(job.compared.items())}
    return {
        "model": declaration.name,
        "description": declaration.description,
        "release": job.release.name,
        "gpu": job.gpu.name if job.gpu and job.plans else None,
        # if PyTorch compiled everything, the release's
        "tensorrt": next(versions, job.release.tensorrt) if job.plans else None,
        **({"plans": dict(sorted(job.plans.items()))} if job.plans else {}),
        "sources": dict(sorted(job.sources.items())),
        **signature,
        **({"networks": dict(sorted(job.networks.items()))} if job.networks else {}),
        **({COMPARED: compared} if compared else {}),
        **({ONNX_OUTPUTS: dict(sorted(job.onnx_outputs.items()))} if job.onnx_outputs else {}),
        **({"precisions": sorted(set(job.precisions))} if job.precisions else {}),
        **_precision_of_files(job),
        **({"left_out": sorted(job.left_out)} if job.left_out else {}),
        **({CUSTOM_IMAGE_ADDS: added} if added else {}),
        **({AUTO_COMPLETE: True} if declaration.auto_complete else {}),
        **({TOLERANCE: allowed} if allowed is not None else {}),
    }


def _precision_of_files(job: Job) -> dict[str, str]:
    """Return the precision of files that no declaration describes, such as those of an adopted directory."""
    described = job.compared or set(job.precisions) - {"tf32"}
    found = "" if described else precision_by_files(job.root)
    return {PRECISION: found} if found not in {"", "fp32"} else {}


def configure_for_rehearsal(root: Path, *, cpu: bool = False) -> Iterator[tuple[str, str]]:
    """Add a configuration for a rehearsal's server, which has no GPU, where needed.

    Yields the name of each such model, with what its own configuration asks for and what happens here. With
    `cpu`, the endpoint has no GPU either, so a model that asks for one fails here too.
    """
    for path in sorted(root.glob(f"*/{CONFIG_FILE}")):
        config, other = read_config(path), path.parent / CONFIG_HERE
        if other.exists():
            continue
        notes = [] if cpu else list(_without_gpu(config))
        if config.platform == "torch_aoti":
            notes.append("asks for the platform torch_aoti; this server refuses it: verify in the image")
        if notes:
            other.parent.mkdir(exist_ok=True)
            write_config(config, other)
        yield from ((path.parent.name, note) for note in notes)


def _without_gpu(config: ModelConfig) -> Iterator[str]:
    needs_gpu = schema().ModelInstanceGroup.KIND_GPU
    groups = [each for each in config.instance_group if each.kind == needs_gpu or each.gpus]
    for group in groups:  # the server then chooses, and has no choice but the CPU
        group.ClearField("kind")
        group.ClearField("gpus")
    if groups:
        yield "asks for a GPU (KIND_GPU); here it runs on the CPU"
