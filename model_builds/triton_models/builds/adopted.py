"""Models that are Triton directories already: served as they are, with recorded or drawn examples."""

from __future__ import annotations

import functools
import json
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triton_models.artifact.layout import read_layout
from triton_models.artifact.pbtxt import COMPLETED_BY, CONFIG_FILE, read_config, schema
from triton_models.base.encoding import decode
from triton_models.base.errors import FleetError
from triton_models.base.json_text import parsed
from triton_models.base.suggest import some_of
from triton_models.builds.export.weights import address_of, fetch
from triton_models.builds.job import Job
from triton_models.declare.declaration import Example, Tensors
from triton_models.declare.tensors import NUMPY_TYPES
from triton_models.declare.weights import Weights

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from triton_models.artifact.pbtxt import ModelConfig

_OPEN_SIZE = 4
_JSON = "application/json"
_USE_TF32 = ("onnxruntime", "onnxruntime_onnx", "pytorch", "pytorch_libtorch")


def adopted(directory: Weights, *, name: str) -> Callable[[Job], None]:
    """Return the `write` of a declaration whose models are a Triton directory.

    ```python
    ModelDefinition(
        name="ranker",
        description="a ranker",
        weights=DIRECTORY,
        write=adopted(DIRECTORY, name="ranker"),
        examples=drawn_examples(DIRECTORY),
        output="SCORES",
    )
    ```

    Args:
        directory: A model directory, or a folder of model directories that belong to one ensemble.
        name: The name of the declaration, which the ensemble or the only model gets.
    """
    return functools.partial(_write, directory, name)


def drawn_examples(directory: Weights) -> Callable[[], list[Example]]:
    """Return examples drawn from the configuration: ones of the declared shapes, with 4 for open sizes.

    Empty for strings, because any text may be wrong, for sequences, whose requests belong together, and for
    configurations that the server completes, because they may not list every input.

    Args:
        directory: As for `adopted`.
    """
    return functools.partial(_drawn, directory)


def recorded_examples(path: Path) -> Callable[[], list[Example]]:
    """Return the recorded requests in a file.

    Args:
        path: A file of JSON lines, each an object with the "inputs" of a request and the "outputs" of its
            answer, as in Triton's HTTP protocol.
    """
    return functools.partial(_recorded, path)


def recorded_reference(path: Path) -> Callable[[Tensors], Tensors]:
    """Return a reference that gives the recorded answers.

    Args:
        path: As for `recorded_examples`.
    """
    return functools.partial(_answered, path)


def models_in(folder: Path, source: str) -> tuple[Path, Sequence[Path]]:
    """Return the model directory that answers requests, and all model directories.

    Raises:
        FleetError: There is no model directory, or there are several without an ensemble.
    """
    if (folder / CONFIG_FILE).is_file():
        return folder, [folder]
    found = sorted(path.parent for path in folder.glob(f"*/{CONFIG_FILE}"))
    ensembles = [each for each in found if read_config(each / CONFIG_FILE).HasField("ensemble_scheduling")]
    if not found:
        raise FleetError.of(
            what="there is no model directory",
            where=source,
            why="a multi-model endpoint does not complete configurations",
            fix=f"write a {CONFIG_FILE}: `fleet check` names what is missing in it; it may be empty with "
            f"--auto-complete of `fleet adopt`, for {COMPLETED_BY}",
            rule="adopted-directory",
        )
    tops = ensembles or found
    if len(tops) > 1:
        raise FleetError.of(
            what=f"{len(tops)} models can answer: {some_of([each.name for each in tops])}",
            where=source,
            why="SageMaker loads one model per artifact, and the models that it depends on",
            fix='adopt each model\'s directory by itself: `for d in */; do fleet adopt "$d"; done`',
            rule="adopted-directory",
        )
    return tops[0], found


def _write(directory: Weights, name: str, job: Job) -> None:
    folder = fetch(directory)
    top, found = models_in(folder, address_of(directory))
    read_layout(folder)  # refuses links that lead out or never end
    if job.compiler and not job.rehearsed and any(_uses_tf32(each, job) for each in found):
        job.precisions.append("tf32")
    for each in found:
        target = job.root / (name if each == top else each.name)
        shutil.copytree(each, target)
        config = target / CONFIG_FILE
        own = read_config(config).name
        if each == top and own not in {"", name}:
            line = rf"""\bname\s*:\s*["']{re.escape(own)}["']"""
            config.write_text(re.sub(line, f'name: "{name}"', config.read_text(), count=1))
        if read_config(config).HasField("ensemble_scheduling"):
            # Its version folder is empty, and neither git nor an archive need keep an empty folder.
            (target / "1").mkdir(exist_ok=True)
            (target / "1" / ".keep").touch()


def _uses_tf32(model: Path, job: Job) -> bool:
    """Return True if a model may compute FP32 in TF32 on a GPU, as ONNX Runtime and PyTorch do by default."""
    if not job.release.switches_tf32:
        return False  # the server has it off
    config = read_config(model / CONFIG_FILE)
    accelerators = config.optimization.execution_accelerators.gpu_execution_accelerator
    if any(each.name == "cuda" and each.parameters.get("use_tf32") == "0" for each in accelerators):
        return False
    return config.backend in _USE_TF32 or config.platform in _USE_TF32


def _drawn(directory: Weights) -> list[Example]:
    top, _ = models_in(fetch(directory), address_of(directory))
    config = read_config(top / CONFIG_FILE)
    unknown = config.HasField("sequence_batching") or not (config.input and config.output)
    if unknown or any(_type(each) not in NUMPY_TYPES for each in config.input):
        return []
    inputs = {each.name: _ones(each, config) for each in config.input}
    return [Example(name="ones", inputs=inputs, generated=True)]


def _ones(tensor: Any, config: ModelConfig) -> NDArray[Any]:
    import numpy as np

    sizes = [_OPEN_SIZE if size == -1 else size for size in tensor.dims]
    shape = [1, *sizes] if config.max_batch_size else sizes
    return np.ones(shape, NUMPY_TYPES[_type(tensor)])


def _type(tensor: Any) -> str:
    return str(schema().DataType.Name(tensor.data_type)).removeprefix("TYPE_")


def _recorded(path: Path) -> list[Example]:
    return [
        Example(name=f"recorded {number}", inputs=inputs)
        for number, (inputs, _) in enumerate(_records(path), start=1)
    ]


def _answered(path: Path, inputs: Tensors) -> Tensors:
    wanted = _exactly(inputs)
    for request, answer in _records(path):
        if _exactly(request) == wanted:
            return answer
    raise _unusable(
        path,
        "there is no recorded answer to this request",
        fix="give the recorded requests as the only examples: examples=recorded_examples(REQUESTS)",
    )


def _exactly(tensors: Tensors) -> dict[str, tuple[str, tuple[int, ...], object]]:
    """Return tensors in a form that is equal for the same bits: NaN equals itself, and -0.0 is not 0.0."""
    import numpy as np

    arrays = {name: np.asarray(tensor) for name, tensor in tensors.items()}
    return {
        name: (array.dtype.str, array.shape, array.tolist() if array.dtype.hasobject else array.tobytes())
        for name, array in arrays.items()
    }


@functools.cache
def _records(path: Path) -> tuple[tuple[Tensors, Tensors], ...]:
    """Return the requests and answers of a file, which is read once per process."""
    return tuple(_parsed(path))


def _parsed(path: Path) -> Iterator[tuple[Tensors, Tensors]]:
    import numpy as np

    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise _unusable(
            path, f"the recorded requests cannot be read: {error}", fix="check the path"
        ) from error
    if not any(line.strip() for line in lines):
        fix = "record at least one request and its answer, or draw examples"
        raise _unusable(path, "there are no recorded requests", fix=fix)
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                record = parsed(line)
                inputs, outputs = _tensors(record["inputs"]), _tensors(record["outputs"])
                for name, answer in outputs.items():
                    if answer.dtype.kind == "f" and answer.size and np.isnan(answer).all():
                        raise ValueError(f"every value of its answer is NaN in {name!r}")
                yield inputs, outputs
            except (ValueError, KeyError, TypeError, RecursionError, FleetError) as error:
                said = error.problems[0].what if isinstance(error, FleetError) else f"{error}"
                fix = 'record {"inputs": [...], "outputs": [...]}, the bodies of a request and its answer'
                raise _unusable(path, f"line {number} is not a recorded request: {said}", fix=fix) from error


def _unusable(path: Path, what: str, *, fix: str) -> FleetError:
    return FleetError.of(what=what, where=str(path), fix=fix, rule="recorded-request")


def _tensors(listed: Any) -> Tensors:
    for tensor in listed:
        if _has_null(tensor["data"]):  # which NumPy reads as NaN, and JavaScript writes for infinity too
            raise ValueError(f"{tensor['name']!r} has null among its values")
    return decode(json.dumps({"outputs": listed}).encode(), _JSON, where="a recorded request")


def _has_null(data: Any) -> bool:
    return any(map(_has_null, data)) if isinstance(data, list) else data is None
