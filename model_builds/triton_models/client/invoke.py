"""`fleet invoke`: ask a deployed model, with values from the command line, files or a declared example."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from triton_models.base import options as opt
from triton_models.base.checks import FROM_ARGUMENTS, Check, Report
from triton_models.base.encoding import DATATYPES, Tensors
from triton_models.base.suggest import did_you_mean
from triton_models.client.batches import Answer
from triton_models.client.client import Client
from triton_models.client.signature import Signature, Tensor
from triton_models.declare.reading import load_build
from triton_models.repository.objects import opened

INVOKE_INPUT = Check(id="invoke-input", source=FROM_ARGUMENTS)
INVOKE_EXAMPLE = Check(id="invoke-example", source=FROM_ARGUMENTS)

_HOW = "write NAME=VALUE with JSON or a text, or NAME=@FILE: .npy, .json, or the bytes of another file"
_SHOWN = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Invoked:
    """The answer of a model."""

    model: str
    artifact: str
    endpoint: str
    seconds: float
    answer: Answer
    saved: Path | None = None

    @property
    def exit_code(self) -> int:
        """0: a request that fails is an error."""
        return 0

    def as_dict(self) -> dict[str, Any]:
        """Return the answer as JSON-ready data."""
        return {
            "model": self.model,
            "artifact": self.artifact,
            "endpoint": self.endpoint,
            "seconds": round(self.seconds, 4),
            "outputs": {
                name: {
                    "datatype": DATATYPES.get(each.dtype.str, "BYTES"),
                    "shape": list(each.shape),
                    "data": _plain(each.tolist()),
                }
                for name, each in self.answer.items()
            },
        }

    def lines(self) -> Iterator[str]:
        """Yield what answered, and the outputs."""
        yield f"{self.artifact} of {self.endpoint} answered in {self.seconds * 1e3:,.0f} ms"
        for name, each in self.answer.items():
            yield f"{name}  {DATATYPES.get(each.dtype.str, 'BYTES')} {list(each.shape)}"
            yield from (f"  {line}" for line in _shown(each).splitlines())
        if self.saved is not None:
            yield f"saved to {self.saved}"


@dataclass(frozen=True, kw_only=True)
class InvokeOptions(opt.RepositoryOptions):
    """Options of `fleet invoke`."""

    model: opt.Name = opt.argument("the model's name in the repository")
    input: Sequence[str] = opt.option(
        "an input: JSON, a text, or @FILE: .npy, .json, or the bytes of another file; once for each",
        action="append",
        default=(),
        metavar="NAME=VALUE",
        within=opt.EITHER,
    )
    example: opt.Name | None = opt.option(
        "an example of its declaration (default, without --input: the first)", within=opt.EITHER
    )
    output: Sequence[opt.Name] = opt.option("only this output; once for each", action="append", default=())
    save: opt.File | None = opt.option("write the outputs to this .npz file too")
    deadline: opt.Seconds = opt.option("the time limit", default=360.0)
    alias: opt.Name | None = opt.option(opt.ALIAS, within=opt.ONE)
    endpoint: opt.Name | None = opt.option(opt.ENDPOINT, within=opt.ONE)
    target: opt.Target | None = opt.option(opt.ENDPOINT_TARGET)
    models: opt.Folder | None = opt.option(opt.MODELS)


def run(options: InvokeOptions) -> Invoked:
    """Run `fleet invoke MODEL [--input NAME=VALUE ...] [--example NAME]`."""
    import numpy as np

    with opened(options.repository) as store:
        client = Client(
            alias=options.alias,
            endpoint_name=options.endpoint,
            target=options.target,
            repository=store.url,
            deadline_s=options.deadline,
        )
    artifact, signature = client.target_model(options.model), client.signature(options.model)
    if options.input:
        inputs: Tensors = valued(named(options.input), signature)
    else:
        inputs = _example(options.model, options.example, options.models)
    begun = time.monotonic()
    answer = client.infer(model=options.model, inputs=inputs, outputs=options.output or None)
    seconds = time.monotonic() - begun
    if options.save is not None:
        with options.save.open("wb") as file:
            np.savez(file, **{name: _savable(each) for name, each in answer.items()})
    return Invoked(
        model=options.model,
        artifact=artifact,
        endpoint=client.endpoint_name,
        seconds=seconds,
        answer=answer,
        saved=options.save,
    )


def named(written: Sequence[str]) -> dict[str, str]:
    """Return the values that are written as NAME=VALUE, by name.

    Raises:
        FleetError: Some are not; all are listed.
    """
    report, found = Report("--input"), dict[str, str]()
    for each in written:
        name, is_one, text = each.partition("=")
        if not is_one or not name:
            report(INVOKE_INPUT, f"{each!r} is no input", fix=_HOW)
        elif name in found:
            report(INVOKE_INPUT, f"{name!r} is given twice", fix="give each input once")
        else:
            found[name] = text
    report.raise_if_any()
    return found


def valued(texts: Mapping[str, str], signature: Signature | None) -> dict[str, Any]:
    """Return the inputs of these texts; single values get the shapes of a model's inputs.

    Raises:
        FleetError: Some cannot be read; all are listed.
    """
    report, known = Report("--input"), signature.inputs if signature else {}
    found = {name: _value(name, text, known.get(name), report) for name, text in texts.items()}
    report.raise_if_any()
    return found


def _value(name: str, text: str, tensor: Tensor | None, report: Report) -> Any:
    """Return a value as it is written, or in a file; a single one gets the shape of its input."""
    import numpy as np

    is_text = tensor is not None and tensor.data_type == "STRING"
    value: Any = text
    try:
        if text.startswith("@"):
            path = Path(text[1:])
            if path.suffix == ".npy":
                return np.load(path, allow_pickle=False)
            value = json.loads(path.read_text()) if path.suffix == ".json" else path.read_bytes()
        elif not is_text or text.startswith("["):
            value = json.loads(text)
    except OSError as error:
        report(INVOKE_INPUT, f"{name!r} cannot be read: {error}", fix=_HOW)
    except ValueError as error:
        report(INVOKE_INPUT, f"{name!r} is {text[:60]!r}: {error}", fix=_HOW)
    if tensor is None or isinstance(value, list):
        return value
    return np.full(tensor.smallest, value, dtype=object if isinstance(value, (str, bytes)) else None).tolist()


def _example(model: str, name: str | None, models: Path | None) -> Tensors:
    """Return the inputs of a declared example: the named one, or the first."""
    build = load_build(model, models)
    examples = list(map(build.as_sent, build.examples()))
    named = {each.name: each for each in examples}
    if name is None and examples:
        return examples[0].first
    if name not in named:
        listed = ", ".join(named) or "none"
        raise INVOKE_EXAMPLE.error(
            what=f"{model!r} declares no example {name!r}" if name else f"{model!r} declares no examples",
            where=f"the declaration of {model!r}",
            fix=did_you_mean(
                name or "", named, otherwise=f"name one of its examples: {listed}; or use --input"
            ),
        )
    return named[name].first


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else value


def _shown(array: Any) -> str:
    import numpy as np

    if array.dtype.kind == "O":
        array = np.array(_plain(array.tolist()), dtype=object)
    return str(
        np.array2string(array, threshold=4 * _SHOWN, edgeitems=_SHOWN // 2, separator=", ", precision=6)
    )


def _savable(array: Any) -> Any:
    """Return an array without Python objects, which a file is not trusted with."""
    return array.astype(bytes) if array.dtype.kind == "O" else array
