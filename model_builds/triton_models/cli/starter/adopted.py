"""`fleet adopt`: make a model of the fleet from a Triton model directory, as it is."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from triton_models.artifact.layout import read_layout
from triton_models.artifact.pbtxt import COMPLETED_BY, CONFIG_FILE, read_config
from triton_models.base import options as opt
from triton_models.base.errors import FleetError, Problem, raise_if_any
from triton_models.base.processes import stopped_by_sigterm
from triton_models.builds.adopted import (
    adopted,
    drawn_examples,
    models_in,
    recorded_examples,
    recorded_reference,
)
from triton_models.builds.export.weights import fetch
from triton_models.builds.job import Job
from triton_models.check.check import check_path
from triton_models.check.target import MULTI_MODEL_ENDPOINT, CheckTarget, target
from triton_models.cli.starter.cdk_json import cdk_json
from triton_models.cli.starter.from_file import literal, refuse_unprintable
from triton_models.cli.starter.new import REPLACE_EXAMPLES, Begun, begin, check_name
from triton_models.declare.weights import LocalWeights, S3Weights, Weights, weights_at
from triton_models.facts.releases import DEFAULT_RELEASE, Release, release

_ADD_EXAMPLES = "write examples, because none can be drawn for this model,"
_DIRECTORY, _REQUESTS = "directory", "requests.jsonl"
_HERE = f'LocalWeights(path=str(Path(__file__).with_name("{_DIRECTORY}")))'

_DECLARATION = """\
{about}

from __future__ import annotations

{path}from triton_models.base.processes import stopped_by_sigterm
from triton_models.builds.adopted import adopted, {functions}
from triton_models.spec import {weights}, ModelDefinition

DIRECTORY = {directory}
{requests}
BUILD = ModelDefinition(
    name={name},
    description={description},
    weights=DIRECTORY,
    write=adopted(DIRECTORY, name={name}),
{examples}    output={output},
{served_by})
"""
_RECORDED = """\
    examples=recorded_examples(REQUESTS),
    reference=recorded_reference(REQUESTS),
    tolerance={"fp32": 1e-4, "tf32": 1e-2},  # TF32 on a GPU, where the configuration allows it
"""


@dataclass(frozen=True, kw_only=True)
class AdoptOptions:
    """Options of `fleet adopt`."""

    source: str = opt.argument(
        "a model directory, a folder of those of an ensemble, or an archive; also s3://bucket/prefix/", "DIR"
    )
    name: opt.Name | None = opt.option("the new model's name (default: the directory's)")
    requests: opt.File | None = opt.option(
        "recorded requests with their answers, which every build must reproduce: JSON lines with inputs "
        "and outputs"
    )
    auto_complete: bool = opt.flag(opt.AUTO_COMPLETE)
    image_adds: Sequence[opt.Name] = opt.option(opt.IMAGE_ADDS, action="append", default=())
    models: opt.Folder | None = opt.option(opt.MODELS)


def run(options: AdoptOptions) -> Begun:
    """Run `fleet adopt`, for the release in cdk.json."""
    weights = weights_at(options.source, otherwise=LocalWeights(path=options.source))
    if isinstance(weights, LocalWeights) and not Path(weights.path).exists():
        raise FleetError.of(
            what=f"there is no {options.source}",
            where="fleet adopt DIR",
            fix="give a model directory, a folder of model directories, or an archive",
            rule="adopted-directory",
        )
    folder = fetch(weights)
    top, _ = models_in(folder, options.source)
    read_layout(folder)  # refuses links that lead out or never end
    config = read_config(top / CONFIG_FILE)
    name = config.name or top.name if options.name is None else options.name
    models = check_name(name, options.models, command="fleet adopt")
    if models.resolve().is_relative_to(folder.resolve()):
        raise FleetError.of(
            what=f"{models}, the folder of model builds, is inside {options.source}",
            where="fleet adopt DIR",
            fix="name the model's own directory, or another folder of model builds in --models",
            rule="adopted-directory",
        )
    fleet = cdk_json(models)
    served_by = release(fleet.release(DEFAULT_RELEASE) if fleet else DEFAULT_RELEASE)
    endpoint = target(
        release=served_by.name,
        endpoint=MULTI_MODEL_ENDPOINT,
        auto_complete=options.auto_complete,
        image_adds=options.image_adds,
    )
    outputs = [each.name for each in config.output]
    if options.requests is not None:
        first, *_ = recorded_examples(options.requests)()
        outputs.extend(recorded_reference(options.requests)(first.inputs))
    source, output = Path(options.source).name, next(iter(outputs), "")
    refuse_unprintable([source, output, *endpoint.image_adds], where="fleet adopt DIR")
    raise_if_any(_problems(weights, folder, name, served_by, endpoint))

    def write(made: Path) -> None:
        made.mkdir()
        if isinstance(weights, LocalWeights):
            shutil.copytree(folder, made / _DIRECTORY)
        if options.requests is not None:
            shutil.copyfile(options.requests, made / _REQUESTS)
        text = _text(
            weights,
            name=name,
            source=source,
            output=output,
            recorded=options.requests is not None,
            endpoint=endpoint,
        )
        (made / "build.py").write_text(text, encoding="utf-8")

    with stopped_by_sigterm():
        begun = begin(
            name, write, models=options.models, command="fleet adopt", servable=not endpoint.auto_complete
        )
    next_step = "set the tolerance"
    if options.requests is None:
        next_step = REPLACE_EXAMPLES if drawn_examples(weights)() else _ADD_EXAMPLES
    next_step = next_step if output else f"name the output and {next_step}"
    return replace(begun, next=next_step, needs=tuple(_needs(endpoint)))


def _needs(endpoint: CheckTarget) -> Iterator[str]:
    if endpoint.image_adds:
        yield f"an image with {', '.join(sorted(endpoint.image_adds))}: name it in `image` in cdk.json"
    if endpoint.auto_complete:
        yield f"a MultiModelEndpoint(server={COMPLETED_BY}): the fleet of cdk.json has no such setting"


def _text(
    weights: Weights, *, name: str, source: str, output: str, recorded: bool, endpoint: CheckTarget
) -> str:
    is_local = isinstance(weights, LocalWeights)
    directory = f"S3Weights(url={literal(weights.url)})" if isinstance(weights, S3Weights) else repr(weights)
    return _DECLARATION.format(
        about=literal(f"{name}: a Triton model directory, served as it is."),
        name=literal(name),
        description=literal(f"adopted from {source}"),
        output=literal(output),
        path="from pathlib import Path\n\n" if is_local or recorded else "",
        functions="recorded_examples, recorded_reference" if recorded else "drawn_examples",
        weights=type(weights).__name__,
        directory=_HERE if is_local else directory,
        requests=f'REQUESTS = Path(__file__).with_name("{_REQUESTS}")\n' if recorded else "",
        examples=_RECORDED if recorded else "    examples=drawn_examples(DIRECTORY),\n",
        served_by=_served_by(endpoint),
    )


def _served_by(endpoint: CheckTarget) -> str:
    adds = ", ".join(map(literal, sorted(endpoint.image_adds)))
    return (f"    custom_image_adds=[{adds}],\n" if adds else "") + (
        "    auto_complete=True,\n" if endpoint.auto_complete else ""
    )


def _problems(
    weights: Weights, folder: Path, name: str, served_by: Release, endpoint: CheckTarget
) -> Iterator[Problem]:
    """Yield what an endpoint would refuse."""
    plans = [path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*.plan"))]
    if plans:
        yield Problem(
            what=f"{plans[0]} is a plan",
            where=str(folder),
            why="a plan loads on one GPU model, in one version of TensorRT",
            fix="declare its ONNX file instead: OnnxFile(..., backend=TensorRt())",
            rule="adopted-plan",
        )
        return
    with tempfile.TemporaryDirectory(prefix="fleet-adopt-") as staging:
        root = Path(staging) / name
        root.mkdir()
        adopted(weights, name=name)(Job(root=root, release=served_by, source=root))
        for problem in check_path(root, target=endpoint):
            yield replace(problem, where=problem.where.replace(str(root), str(folder)))
