"""New model builds: a minimal one, and those of a trained file, with names, types and shapes from it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triton_models.artifact.networks import read_onnx_file, side_files
from triton_models.base.errors import FleetError, Problem, one_line, raise_if_any
from triton_models.base.processes import tie_to_parent
from triton_models.builds.derived import served_tensors
from triton_models.builds.export.weights import fetch
from triton_models.check.onnx_network import session_signature
from triton_models.declare.requires import REQUIREMENTS
from triton_models.declare.tensors import NUMPY_TYPES, Tensor
from triton_models.declare.weights import LocalWeights
from triton_models.facts.releases import DEFAULT_RELEASE, release

if TYPE_CHECKING:
    from triton_models.artifact.networks import Signature

_BATCH = 8
_FOREST_BATCH = 4096
# Limits of evaluating a network once, which takes milliseconds for most.
_EVALUATE_S = 60.0
_BATCHES_S = 30.0
_MOST_BYTES = 8 << 30
_EVALUATE = """
import sys

file, most, *sys.path = sys.argv[1:]

import json
import resource
import numpy as np
from onnx.reference import ReferenceEvaluator

resource.setrlimit(resource.RLIMIT_AS, (int(most), int(most)))
ReferenceEvaluator(file).run(None, {name: eval(value, {"np": np}) for name, value in json.load(sys.stdin)})
"""
_BATCHES = """
import sys

file, batch, *sys.path = sys.argv[1:]

from pathlib import Path
from triton_models.builds.verified import prevents_batches

print(prevents_batches(Path(file), int(batch)))
"""
_QUOTES = frozenset("\"'`\\")
_OPEN_SIZE = 4  # of an open dimension of the example

# The reference runs in Python; for larger files it would take minutes.
_LARGEST_REFERENCE_BYTES = 64 << 20

# How each exporter, by its name in the file, writes tensors instead of maps; CatBoost's cannot.
_ZIP_MAP_OPTIONS = {
    "skl2onnx": 'export it again with to_onnx(..., options={"zipmap": False})',
    "OnnxMLTools": "export it again with zipmap=False",
}

_FRAMEWORKS = {"xgboost": "xgboost-cpu", "lightgbm": "lightgbm"}

_MINIMAL = """\
{about}

from triton_models.builds.export.reference import network_reference
from triton_models.spec import Example, ModelDefinition, PyTorchNetwork

def network():
    import torch
    torch.manual_seed(7)
    return torch.nn.Linear(4, 2)

def examples():
    import numpy as np
    return [Example(name="ones", inputs={{"FEATURES": np.ones((1, 4), np.float32)}}, generated=True)]

BUILD = ModelDefinition(
    name={name}, description="4 numbers to 2 scores", output="SCORES", examples=examples,
    models=[PyTorchNetwork(name={name}, network=network, outputs=["SCORES"], max_batch_size=8)],
    reference=network_reference(network, outputs=["SCORES"]), tolerance=1e-4,
)
"""

_ONNX = '''\
{about}

from __future__ import annotations

from pathlib import Path

from triton_models.spec import Example, LocalWeights, ModelDefinition, OnnxFile, Tensors

FILE = Path(__file__).with_name({file})


def examples() -> list[Example]:
    """Requests that every build must answer: replace them by real ones."""
    import numpy as np

    return [
        Example(
            name="ones",
            generated=True,  # made up: remove this line with the values
            inputs={{
{inputs}
            }},
        )
    ]
{reference}

BUILD = ModelDefinition(
    name={name},
    description={description},
    weights=LocalWeights(path=str(FILE)),
    models=[OnnxFile(name={name}, max_batch_size={batch})],
    examples=examples,
{options}    output={output},
)
'''

_REFERENCE = '''

def reference(inputs: Tensors) -> Tensors:
    """The answer of ONNX's own evaluator. Better still: of the framework that trained the network."""
    from onnx.reference import ReferenceEvaluator

    network = ReferenceEvaluator(str(FILE))
    return dict(zip(network.output_names, network.run(None, dict(inputs)), strict=True))
'''

_RESHAPED = '''

def reference(inputs: Tensors) -> Tensors:
    """The answer of ONNX's own evaluator. Better still: of the framework that trained the network."""
    import numpy as np
    from onnx.reference import ReferenceEvaluator

    # Triton gives each of these tensors a size of 1, which the network does not have.
    taken, given = {taken}, {given}
    network = ReferenceEvaluator(str(FILE))
    values = {{name: np.reshape(value, taken.get(name, np.shape(value))) for name, value in inputs.items()}}
    answers = zip(network.output_names, network.run(None, values), strict=True)
    return {{name: np.reshape(value, given.get(name, np.shape(value))) for name, value in answers}}
'''

_COMPARED = """\
    reference=reference,
    tolerance=1e-4,
    # FP16: real requests as examples, inputs_between, OnnxRuntime(precision="fp16"), tolerance={"fp16": 1e-2}
"""

_FOREST = '''\
{about}

from __future__ import annotations

from pathlib import Path

from triton_models.builds.export.forests import forest_reference
from triton_models.spec import Example, Forest, LocalWeights, ModelDefinition

WEIGHTS = LocalWeights(path=str(Path(__file__).with_name({file})))
{remarks}

def examples() -> list[Example]:
    """Requests that every build must answer: replace them by real ones."""
    import numpy as np

    zeros = np.zeros((1, {features}), np.float32)
    return [Example(name="zeros", inputs={{"input__0": zeros}}, generated=True)]


BUILD = ModelDefinition(
    name={name},
    description={description},
    weights=WEIGHTS,
    models=[Forest(name={name}, max_batch_size={batch}{options})],
    examples=examples,
    reference=forest_reference(WEIGHTS{options}),
    output="output__0",
    tolerance=1e-5,
)
'''


def write_minimal(folder: Path) -> None:
    """Write the smallest declaration: a PyTorch network whose inputs are those of its example."""
    folder.mkdir()
    name = folder.name
    text = _MINIMAL.format(about=literal(f"{name}: 4 numbers to 2 scores."), name=literal(name))
    (folder / "build.py").write_text(text, encoding="utf-8")


def write_onnx(file: Path, folder: Path) -> None:
    """Write the declaration of an ONNX file, with the file and its side file."""
    signature = _signature(file)
    _refuse_sequences(file, signature)
    tensors = (*signature.inputs, *signature.outputs)
    sides = side_files(file)
    refuse_unprintable([file.name, *sides, *(tensor.name for tensor in tensors)], where="--onnx")
    others = [file.with_name(name) for name in sides]
    raise_if_any(
        Problem(
            what=f"{side.name} is a link to {side.readlink()}",
            where=str(side),
            why="its content would be copied and published",
            fix=f"copy the file there: cp --remove-destination {side.resolve()} {side}",
            rule="side-file-link",
        )
        for side in others
        if side.is_symlink() and not side.resolve().is_relative_to(file.parent.resolve())
    )
    _copy([file, *others], folder)
    batched = all(tensor.dims and not isinstance(tensor.dims[0], int) for tensor in tensors)
    batched = batched and not _prevents_batches(file)
    batch = _BATCH if batched else 0
    inputs, outputs = served_tensors(
        signature,
        name=folder.name,
        backend="onnxruntime",
        max_batch_size=batch,
        release=release(DEFAULT_RELEASE),
    )
    words = _known_words(file)
    examples = [_example(tensor, batched=batched, word=words.get(tensor.name, "text")) for tensor in inputs]
    # Without a dimension besides the batch.
    scalars = {tensor.name for tensor in tensors if len(tensor.dims or ()) == batched}
    taken = {tensor.name: (-1,) if batched else () for tensor in inputs if tensor.name in scalars}
    given = {tensor.name: (-1, 1) if batched else (1,) for tensor in outputs if tensor.name in scalars}
    evaluated = _evaluates(
        folder / file.name,
        [(name, f"{value}.reshape({taken[name]})" if name in taken else value) for name, value in examples],
    )
    reference = _RESHAPED.format(taken=taken, given=given) if taken or given else _REFERENCE
    compared = next((tensor for tensor in outputs if "FP" in tensor.full_type), outputs[0])
    text = _ONNX.format(
        **_names(folder, file, "network"),
        batch=batch,
        inputs="\n".join(f"                {literal(name)}: {value}," for name, value in examples),
        reference=reference if evaluated else "",
        options=_COMPARED if evaluated else "",
        output=literal(compared.name),
    )
    text = text if evaluated else text.replace(", Tensors\n", "\n", 1)
    (folder / "build.py").write_text(text, encoding="utf-8")


def _run(code: str, *arguments: str, timeout: float, stdin: bytes = b"") -> bytes | None:
    """Return what Python code prints in a process of its own; None if it fails or takes too long."""
    try:
        run = subprocess.run(
            [sys.executable, "-c", code, *arguments, *sys.path],
            input=stdin,
            capture_output=True,
            timeout=timeout,
            check=False,
            preexec_fn=tie_to_parent,
        )
    except subprocess.TimeoutExpired:
        return None
    return run.stdout if run.returncode == 0 else None


def _prevents_batches(file: Path) -> str:
    """Return why requests cannot be joined, by running batches of 1 and 3; empty if they can, or unknown."""
    printed = _run(_BATCHES, str(file), str(_BATCH), timeout=_BATCHES_S) or b""
    reason = printed.decode(errors="replace").strip()
    if reason:
        sys.stderr.write(f"note: max_batch_size is 0, because {reason}\n")
    return reason


def fixed_batch(file: Path) -> int | None:
    """Return the first size of an ONNX file's tensors if they all have the same fixed one; otherwise None.

    Networks without a batch have tensors of one dimension, or of different first sizes.
    """
    signature = _signature(file)
    tensors = (*signature.inputs, *signature.outputs)
    (size, *others) = {tensor.dims[0] if tensor.dims else None for tensor in tensors}
    rows = any(tensor.dims and len(tensor.dims) > 1 for tensor in signature.inputs)
    return size if isinstance(size, int) and not others and rows else None


def write_forest(file: Path, folder: Path) -> str:
    """Write the declaration of a forest, with its file, and return its framework: xgboost or lightgbm."""
    from triton_models.builds.export.forest_source import describe_forest

    about = describe_forest(LocalWeights(path=str(file)), name=folder.name)
    refuse_unprintable([file.name], where="--forest")
    _copy([file], folder)
    names = _names(folder, file, "forest")
    text = _FOREST.format(
        **names,
        features=about.features,
        batch=_FOREST_BATCH,
        remarks="".join(f"{line}\n" for line in about.remarks),
        options="".join(f", {name}={value}" for name, value in about.options.items()),
    )
    (folder / "build.py").write_text(text, encoding="utf-8")
    (folder / REQUIREMENTS).write_text(f"{_FRAMEWORKS[about.framework]}\n")
    return about.framework


def literal(text: str) -> str:
    """Return a string as Python source code, in double quotes."""
    return json.dumps(text, ensure_ascii=False)


def refuse_unprintable(names: Iterable[str], *, where: str) -> None:
    """Refuse names that a declaration cannot show as they are."""
    raise_if_any(
        Problem(
            what=f"the name {name!r}",
            where=where,
            why="it becomes a part of build.py, which is code",
            fix="rename the file or the tensor, with printable characters, without quotes and backslashes",
            rule="unprintable-name",
        )
        for name in dict.fromkeys(names)
        if not name.isprintable() or not _QUOTES.isdisjoint(name)
    )


def _names(folder: Path, file: Path, kind: str) -> dict[str, str]:
    """Return the names in a declaration, as source code."""
    description = f"the {kind} in {file.name}"
    return {
        "about": literal(f"{folder.name}: {description}."),
        "name": literal(folder.name),
        "file": literal(file.name),
        "description": literal(description),
    }


def _signature(file: Path) -> Signature:
    head, why = None, "it is not an ONNX file"
    try:
        path = fetch(LocalWeights(path=str(file)))
        head = read_onnx_file(path)
    except OSError as error:
        why = error.strerror or str(error)
    if head is None or not head.signature.outputs:
        raise FleetError.of(
            what=f"{one_line(str(file))} cannot be read: {why}",
            where="--onnx",
            fix="check the path, or export it again",
            rule="network-file",
        )
    return session_signature(path)


def _refuse_sequences(file: Path, signature: Signature) -> None:
    """Refuse outputs that are no tensors: ONNX Runtime's backend loads no network with one, listed or not."""
    sequences = [tensor.name for tensor in signature.outputs if tensor.data_type in {"sequence", "map"}]
    if not sequences:
        return
    import onnx

    network = onnx.load_model(file, load_external_data=False)
    cut = _cut(network.graph.node, sequences, file.name)
    raise_if_any(
        Problem(
            what=f"output {name!r} is a sequence of maps, not a tensor",
            where=f"the network in {file.name}",
            why="Triton has no maps, and does not load a network with such an output",
            fix=_ZIP_MAP_OPTIONS.get(network.producer_name) or f"cut it out: python -c '{cut}'",
            rule="network-type",
        )
        for name in sequences
    )


def _cut(nodes: Iterable[Any], outputs: Iterable[str], file: str) -> str:
    """Return the code that replaces outputs of ZipMap by the tensors that it turns into maps."""
    tensors = {name: node.input[0] for node in nodes if node.op_type == "ZipMap" for name in node.output}
    names = {name: tensors[name] for name in outputs if name in tensors}
    return (
        f"import onnx; m = onnx.load({literal(file)}); g = m.graph; t = {json.dumps(names)}; "
        "o = [t.get(v.name, v.name) for v in g.output]; "
        "n = [n for n in g.node if n.output[0] not in t]; v = [v for v in g.output if v.name not in t]; "
        "v += [onnx.helper.make_tensor_value_info(t[k], 1, [None, None]) for k in t]; "
        "v.sort(key=lambda each: o.index(each.name)); del g.node[:], g.output[:]; "
        f"g.node.extend(n); g.output.extend(v); onnx.save(m, {literal('tensors.onnx')})"
    )


def _copy(files: list[Path], folder: Path) -> None:
    raise_if_any(
        Problem(
            what=f"a file is called {file.name}",
            where=str(file),
            why="a build would run it, or install what it lists",
            fix="rename it; for a side file, save the network again with location=NAME",
            rule="reserved-name",
        )
        for file in files
        if file.suffix == ".py" or file.name == "requirements.txt"
    )
    folder.mkdir()
    for file in files:
        shutil.copyfile(file, folder / file.name)


def _known_words(path: Path) -> dict[str, str]:
    """Return a word that each input's graph knows: some encoders refuse all others."""
    import onnx

    from triton_models.builds.export.accepted import accepted_by

    network = onnx.load(str(path), load_external_data=False)
    return {name: accepted.words[0] for name, accepted in accepted_by(network).items() if accepted.words}


def _example(tensor: Tensor, *, batched: bool, word: str) -> tuple[str, str]:
    """Return the name of an input and NumPy's expression for an example of it."""
    sizes = [_OPEN_SIZE if size == -1 else size for size in tensor.dims if isinstance(size, int)]
    shape = tuple([1, *sizes] if batched else sizes)
    kind = tensor.full_type.removeprefix("TYPE_")
    if kind == "STRING":
        text = f"b{literal(word)}" if word.isascii() else f"{literal(word)}.encode()"
        return tensor.name, f"np.full({shape}, {text}, np.object_)"
    if kind not in NUMPY_TYPES:
        raise FleetError.of(
            what=f"input {tensor.name!r} is {kind}",
            where="--onnx",
            why="NumPy has no such type, so there can be no example",
            fix=f"cast it to STRING or one of {', '.join(NUMPY_TYPES)} inside the network, or declare an "
            "OnnxFile without examples",
            rule="network-type",
        )
    return tensor.name, f"np.ones({shape}, np.{NUMPY_TYPES[kind] if kind != 'BOOL' else 'bool_'})"


def _evaluates(file: Path, examples: list[tuple[str, str]]) -> bool:
    """Return whether ONNX's evaluator can answer the example in time.

    It fails for operators of other domains and for shapes that do not fit, and a network may loop forever.
    """
    if sum(path.stat().st_size for path in file.parent.iterdir()) > _LARGEST_REFERENCE_BYTES:
        return False
    stdin = json.dumps(examples).encode()
    return _run(_EVALUATE, str(file), str(_MOST_BYTES), timeout=_EVALUATE_S, stdin=stdin) is not None
