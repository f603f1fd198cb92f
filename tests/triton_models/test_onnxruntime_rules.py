"""The rules of ONNX Runtime's backend, in its own words, with fixes that it accepts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from triton_models.artifact.pbtxt import as_json, parse_config
from triton_models.check.backend_rules.onnxruntime import (
    Network,
    Tensor,
    complete,
    refusals,
    request_refusals,
)
from triton_models.check.backend_rules.refusal import Refusal


def tensor(text: str) -> Tensor:
    """A tensor such as "x FP32 -1 4"."""
    name, kind, *sizes = text.split()
    if kind in {"sequence", "map", "optional"}:
        return Tensor(name=name, data_type=kind, dims=(), kind=kind)
    return Tensor(name=name, data_type=f"TYPE_{kind}", dims=tuple(map(int, sizes)))


def network(inputs: Sequence[str], outputs: Sequence[str] = (), initializers: Sequence[str] = ()) -> Network:
    sides = (tuple(map(tensor, side)) for side in (inputs, outputs, initializers))
    return Network(**dict(zip(("inputs", "outputs", "initializers"), sides, strict=True)))


def listed(side: str, *tensors: str) -> str:
    """The tensors of a side, such as "x FP32 4 optional: true"."""
    entries = []
    for text in tensors:
        head, _, extra = text.partition(" + ")
        name, kind, *sizes = head.split()
        dims = ", ".join(sizes)
        entries.append(f'{{ name: "{name}" data_type: TYPE_{kind} dims: [ {dims} ] {extra} }}')
    return f"{side} [ {', '.join(entries)} ]\n" if entries else ""


def config(batch: int, inputs: Sequence[str], outputs: Sequence[str], extra: str = "") -> str:
    return f"max_batch_size: {batch}\n{listed('input', *inputs)}{listed('output', *outputs)}{extra}"


def ask(text: str, of: Network, *, completes: bool = False, has_bf16: bool = True) -> list[Refusal]:
    return refusals(
        as_json(parse_config(text, where="m")), of, model="m", completes=completes, has_bf16=has_bf16
    )


def control(name: str, values: str = "fp32_false_true: [ 0, 1 ]", kind: str = "START") -> str:
    return f'control_input [{{ name: "{name}" control [{{ kind: CONTROL_SEQUENCE_{kind} {values} }}] }}]'


def state(source: str, target: str) -> str:
    names = f'input_name: "{source}" output_name: "{target}"'
    return f"sequence_batching {{ state [{{ {names} data_type: TYPE_FP32 dims: [ 7 ] }}] }}"


ROWS = network(["x FP32 -1 4"], ["y FP32 -1 2"])
IMAGE = network(["x FP32 1 3 8 8"], ["y FP32 1 5"])
OVERRIDABLE = network(["x FP32 -1 4"], ["y FP32 -1 4"], ["w FP32 4"])
SEQUENCE = network(["x FP32 -1 4", "START FP32 -1 1"], ["y FP32 -1 4"])
RIGHT = config(8, ["x FP32 4"], ["y FP32 2"])
RAGGED = "allow_ragged_batch: true"
BATCH_INPUT = (
    'batch_input [{ kind: BATCH_ELEMENT_COUNT target_name: "n" data_type: TYPE_FP32 source_input: "x" }]'
)
FOUR = (["x FP32 4"], ["y FP32 4"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong:
    """A refused configuration, with the backend's words, a part of the fix, and what it leads to."""

    network: Network
    text: str
    message: str
    fix: str
    fixed: str | None
    has_bf16: bool = True
    completes: bool = False


WRONG = {
    "an output of another size": Wrong(
        network=ROWS,
        text=config(8, ["x FP32 4"], ["y FP32 3"]),
        message="model 'm', tensor 'y': the model expects 2 dimensions (shape [-1,2]) but the model "
        "configuration specifies 2 dimensions (an initial batch dimension because max_batch_size > 0 "
        "followed by the explicit tensor shape, making complete shape [-1,3])",
        fix="write dims: [ 2 ], without the batch",
        fixed=RIGHT,
    ),
    "an output that is open in the network alone": Wrong(
        network=network(["x FP32 -1 4"], ["y FP32 -1 -1"]),
        text=RIGHT,
        message="(shape [-1,-1]) but the model configuration specifies 2 dimensions",
        fix="write dims: [ -1 ], without the batch",
        fixed=config(8, ["x FP32 4"], ["y FP32 -1"]),
    ),
    "an output that is open in the configuration alone": Wrong(
        network=network(["x FP32 91 4"], ["y FP32 91 4"]),
        text=config(0, ["x FP32 91 4"], ["y FP32 -1 4"]),
        message="model 'm', tensor 'y': the model expects 2 dimensions (shape [91,4]) but the model "
        "configuration specifies 2 dimensions (shape [-1,4])",
        fix="write dims: [ 91, 4 ]",
        fixed=config(0, ["x FP32 91 4"], ["y FP32 91 4"]),
    ),
    "an input that is open in the configuration alone": Wrong(
        network=ROWS,
        text=config(8, ["x FP32 -1"], ["y FP32 2"]),
        message="making complete shape [-1,-1])",
        fix="write dims: [ 4 ], without the batch",
        fixed=RIGHT,
    ),
    "a reshape to another size": Wrong(
        network=ROWS,
        text=config(8, ["x FP32 4 + reshape { shape: [ 2, 2 ] }"], ["y FP32 2"]),
        message="making complete shape [-1,2,2])",
        fix="remove reshape, and write dims: [ 4 ], without the batch",
        fixed=RIGHT,
    ),
    "one number for each row": Wrong(
        network=network(["x FP32 -1 4"], ["label INT64 -1"]),
        text=config(8, ["x FP32 4"], ["label INT64 1"]),
        message="the model expects 1 dimensions (shape [-1])",
        fix="write dims: [ 1 ] and reshape { shape: [ ] }",
        fixed=config(8, ["x FP32 4"], ["label INT64 1 + reshape { shape: [ ] }"]),
    ),
    "a fixed first size": Wrong(
        network=IMAGE,
        text=config(1, ["x FP32 3 8 8"], ["y FP32 5"]),
        message="model 'm', tensor 'x': for the model to support batching the shape should have at least 1 "
        "dimension and the first dimension must be -1; but shape expected by the model is [1,3,8,8]",
        fix="write max_batch_size: 0, and all sizes as dims, without reshape: x [ 1, 3, 8, 8 ]; y [ 1, 5 ]",
        fixed=config(0, ["x FP32 1 3 8 8"], ["y FP32 1 5"]),
    ),
    "an output without a batch": Wrong(
        network=network(["x FP32 -1 4"], ["y FP32 1"]),
        text=config(8, ["x FP32 4"], ["y FP32 1 + reshape { shape: [ ] }"]),
        message="but shape expected by the model is [1]",
        fix="max_batch_size: 0, and all sizes as dims, without reshape: x [ -1, 4 ]; y [ 1 ]",
        fixed=config(0, ["x FP32 -1 4"], ["y FP32 1"]),
    ),
    "a scalar of two": Wrong(
        network=network(["x FP32 -1 4"], ["y FP32"]),
        text=config(0, ["x FP32 -1 4"], ["y FP32 2"]),
        message="unable to load model 'm', scalar tensor 'y', should only provide 1 in the model "
        "configuration when the model doesn't support batching. Model configuration provided: [2].",
        fix="write dims: [ 1 ]",
        fixed=config(0, ["x FP32 -1 4"], ["y FP32 1"]),
    ),
    "an open scalar": Wrong(
        network=network(["s FP32"], ["y FP32"]),
        text=config(0, ["s FP32 -1"], ["y FP32 1"]),
        message="scalar tensor 's', should only provide 1",
        fix="write dims: [ 1 ]",
        fixed=config(0, ["s FP32 1"], ["y FP32 1 1"]),
    ),
    "an initializer that is required": Wrong(
        network=OVERRIDABLE,
        text=config(8, ["x FP32 4", "w FP32 4"], ["y FP32 4"]),
        message="unable to load model 'm', configuration expects 2 inputs, model provides 1",
        fix="remove it",
        fixed=config(8, *FOUR),
    ),
    "an initializer that is required, without batches": Wrong(
        network=OVERRIDABLE,
        text=config(0, ["x FP32 -1 4", "w FP32 4"], ["y FP32 -1 4"]),
        message="configuration expects 2 inputs, model provides 1",
        fix="add optional: true, or remove it",
        fixed=config(0, ["x FP32 -1 4", "w FP32 4 + optional: true"], ["y FP32 -1 4"]),
    ),
    "an optional input with batches": Wrong(
        network=OVERRIDABLE,
        text=config(8, ["x FP32 4", "w FP32 4 + optional: true"], ["y FP32 4"]),
        message="unable to load model 'm', optional input 'w' is not supported for models that "
        "support batching",
        fix="remove the input: the file has a value for it",
        fixed=config(8, *FOUR),
    ),
    "an optional input without a value": Wrong(
        network=ROWS,
        text=config(0, ["x FP32 -1 4 + optional: true"], ["y FP32 -1 2"]),
        message="configuration expects 0 inputs, model provides 1",
        fix="remove optional",
        fixed=config(0, ["x FP32 -1 4"], ["y FP32 -1 2"]),
    ),
    "an input too few": Wrong(
        network=network(["x FP32 -1 4", "m INT64 -1 4"], ["y FP32 -1 2"]),
        text=RIGHT,
        message="configuration expects 1 inputs, model provides 2",
        fix="list every input of the network: x, m",
        fixed=config(8, ["x FP32 4", "m INT64 4"], ["y FP32 2"]),
    ),
    "an unknown input": Wrong(
        network=ROWS,
        text=config(8, ["FEATURES FP32 4"], ["y FP32 2"]),
        message="unexpected inference input 'FEATURES', allowed inputs are: x",
        fix="use one of x",
        fixed=RIGHT,
    ),
    "an unknown output": Wrong(
        network=network(["x FP32 -1 4"], ["scores FP32 -1 2", "label FP32 -1"]),
        text=config(8, ["x FP32 4"], ["score FP32 2"]),
        message="unexpected inference output 'score', allowed outputs are: label, scores",
        fix="did you mean 'scores'?",
        fixed=config(8, ["x FP32 4"], ["scores FP32 2"]),
    ),
    "another type": Wrong(
        network=ROWS,
        text=config(8, ["x INT64 4"], ["y FP32 2"]),
        message="unable to load model 'm', configuration expects datatype TYPE_INT64 for input 'x', model "
        "provides TYPE_FP32",
        fix="write data_type: TYPE_FP32",
        fixed=RIGHT,
    ),
    "another type of strings": Wrong(
        network=network(["x FP32 -1 4"], ["y STRING -1 2"]),
        text=RIGHT,
        message="configuration expects datatype TYPE_FP32 for output 'y', model provides TYPE_BYTES",
        fix="write data_type: TYPE_STRING",
        fixed=config(8, ["x FP32 4"], ["y STRING 2"]),
    ),
    "BF16 of a release without it": Wrong(
        network=network(["x BF16 -1 4"], ["y FP32 -1 2"]),
        text=config(8, ["x BF16 4"], ["y FP32 2"]),
        message="unsupported datatype TYPE_BF16 for input 'x' for model 'm'",
        fix="cast it to FP32 inside the network, or serve it with release 26.03 or newer",
        fixed=None,
        has_bf16=False,
    ),
    "a ragged input of rows": Wrong(
        network=ROWS,
        text=config(8, [f"x FP32 4 + {RAGGED}"], ["y FP32 2"]),
        message="unable to load model 'm', configuration expects model provides input with shape [-1]  for "
        "ragged input 'x', model provides [-1,4]",
        fix="remove allow_ragged_batch",
        fixed=RIGHT,
    ),
    "a batch_input with two targets": Wrong(
        network=network(["x FP32 -1", "n FP32 -1", "k FP32 -1"], ["y FP32 -1"]),
        text=config(
            8,
            [f"x FP32 -1 + {RAGGED}"],
            ["y FP32 1 + reshape { shape: [ ] }"],
            BATCH_INPUT.replace('"n"', '["n", "k"]'),
        ),
        message="configuration expects 2 inputs, model provides 3",
        fix="write one batch_input for each target_name",
        fixed=config(
            8,
            [f"x FP32 -1 + {RAGGED}"],
            ["y FP32 1 + reshape { shape: [ ] }"],
            BATCH_INPUT + BATCH_INPUT.replace('"n"', '"k"'),
        ),
    ),
    "a control that the network lacks": Wrong(
        network=SEQUENCE,
        text=config(8, *FOUR, f"sequence_batching {{ {control('BEGIN')} }}"),
        message="configuration specified sequence control 'BEGIN', but model does not provide that input",
        fix="use one of x, START",
        fixed=config(8, *FOUR, f"sequence_batching {{ {control('START')} }}"),
    ),
    "a control of another type": Wrong(
        network=SEQUENCE,
        text=config(8, *FOUR, f"sequence_batching {{ {control('START', 'int32_false_true: [ 0, 1 ]')} }}"),
        message="unable to load model 'm', sequence control 'START', the model expects data-type FLOAT but "
        "the model configuration specifies data-type TYPE_INT32",
        fix="write fp32_false_true: [ 0, 1 ]",
        fixed=config(8, *FOUR, f"sequence_batching {{ {control('START')} }}"),
    ),
    "a control of another shape": Wrong(
        network=network(["x FP32 -1 4", "START FP32 -1"], ["y FP32 -1 4"]),
        text=config(8, *FOUR, f"sequence_batching {{ {control('START')} }}"),
        message="unable to load model 'm', sequence control 'START' in model has dims [] but dims [1] is "
        "expected",
        fix="export the network with the shape [batch, 1] for 'START'",
        fixed=None,
    ),
    "a correlation id of another type": Wrong(
        network=network(["x FP32 -1 4", "ID INT64 -1 1"], ["y FP32 -1 4"]),
        text=config(8, *FOUR, f"sequence_batching {{ {control('ID', 'data_type: TYPE_UINT64', 'CORRID')} }}"),
        message="sequence control 'ID', the model expects data-type INT64 but the model configuration "
        "specifies data-type TYPE_UINT64",
        fix="write data_type: TYPE_INT64",
        fixed=config(8, *FOUR, f"sequence_batching {{ {control('ID', 'data_type: TYPE_INT64', 'CORRID')} }}"),
    ),
    "an output that is a sequence, and not listed": Wrong(
        network=network(["x FP32 -1 4"], ["y FP32 -1 2", "maps sequence"]),
        text=RIGHT,
        message="Unsupported ONNX Type 'ONNX_TYPE_SEQUENCE' for I/O 'maps', expected 'ONNX_TYPE_TENSOR'.",
        fix="remove the output from the network, or export it as a tensor",
        fixed=None,
    ),
    "sizes with the batch, in a configuration that the server completes": Wrong(
        network=ROWS,
        text=config(0, ["x FP32 -1 4"], []),
        message="making complete shape [-1,-1,4])",
        fix="write dims: [ 4 ], without the batch",
        fixed=config(0, ["x FP32 4"], []),
        completes=True,
    ),
    "an input without dims, which the backend does not complete": Wrong(
        network=ROWS,
        text=config(8, ["x FP32"], ["y FP32 2"]),
        message="model input 'x' must specify 'dims'",
        fix="write its dims",
        fixed=RIGHT,
        completes=True,
    ),
    "a completed output that is empty": Wrong(
        network=network(["x FP32 -1 4"], ["y FP32 -1 0"]),
        text=config(8, ["x FP32 4"], []),
        message="model output 'y' dimension must be integer >= 1, or -1 to indicate a "
        "variable-size dimension",
        fix="export the network with a size of 1 or more",
        fixed=None,
        completes=True,
    ),
    "a batch that the server refuses to complete": Wrong(
        network=IMAGE,
        text=config(8, ["x FP32 3 8 8"], []),
        message="autofill failed for model 'm': model does not support batching while non-zero "
        "max_batch_size is specified",
        fix="write max_batch_size: 0",
        fixed=config(0, [], []),
        completes=True,
    ),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_what_the_backend_refuses_is_refused_in_its_words_with_a_fix_that_works(wrong: Wrong) -> None:
    found = ask(wrong.text, wrong.network, completes=wrong.completes, has_bf16=wrong.has_bf16)
    assert any(wrong.message in refusal.message and wrong.fix in refusal.fix for refusal in found), found
    if wrong.fixed is not None:
        assert ask(wrong.fixed, wrong.network, completes=wrong.completes) == []


RIGHT_ONES = {
    "rows": (ROWS, RIGHT),
    "an input that is fixed in the configuration alone": (network(["x FP32 -1 -1"], ["y FP32 -1 2"]), RIGHT),
    "one number for each row, with a reshape": (
        network(["x FP32 -1 4"], ["label INT64 -1"]),
        config(8, ["x FP32 4"], ["label INT64 1 + reshape { shape: [ ] }"]),
    ),
    "the scalar of a network without batches": (
        network(["x FP32 -1 512", "sr INT64"], ["y FP32 -1 1"]),
        config(0, ["x FP32 -1 512", "sr INT64 1"], ["y FP32 -1 1"]),
    ),
    "an output whose number of dimensions is unknown": (
        network(["x FP32 -1 4"], ["y FP32"]),
        config(8, ["x FP32 4"], ["y FP32 1"]),
    ),
    "a ragged input": (
        network(["x FP32 -1", "n FP32 -1"], ["y FP32 -1"]),
        config(8, [f"x FP32 -1 + {RAGGED}"], ["y FP32 1 + reshape { shape: [ ] }"], BATCH_INPUT),
    ),
    "an output of a batch_output, of any size": (
        network(["x FP32 -1", "n FP32 -1"], ["y FP32 7"]),
        config(
            8,
            [f"x FP32 -1 + {RAGGED}"],
            ["y FP32 -1"],
            BATCH_INPUT
            + 'batch_output [{ target_name: "y" kind: BATCH_SCATTER_WITH_INPUT_SHAPE source_input: "x" }]',
        ),
    ),
    "an initializer that is not listed": (OVERRIDABLE, config(8, *FOUR)),
    "an optional initializer": (
        OVERRIDABLE,
        config(0, ["x FP32 -1 4", "w FP32 4 + optional: true"], ["y FP32 -1 4"]),
    ),
    "a control": (SEQUENCE, config(8, *FOUR, f"sequence_batching {{ {control('START')} }}")),
    "an implicit state": (
        network(["x FP32 -1 4", "s FP32 -1 7"], ["y FP32 -1 4", "t FP32 -1 7"]),
        config(8, *FOUR, state("s", "t")),
    ),
    "an output that is not listed": (network(["x FP32 -1 4"], ["y FP32 -1 2", "z FP32 1 7"]), RIGHT),
}


@pytest.mark.parametrize(("of", "text"), RIGHT_ONES.values(), ids=RIGHT_ONES)
def test_what_the_backend_loads_is_accepted(of: Network, text: str) -> None:
    assert ask(text, of) == []


def test_all_tensors_that_cannot_batch_are_named_at_once() -> None:
    (refusal,) = ask(config(1, ["x FP32 3 8 8"], ["y FP32 5"]), IMAGE)
    assert (
        refusal.what == "the network cannot batch: the first size of 'x' [1, 3, 8, 8], 'y' [1, 5] is not open"
    )


@pytest.mark.parametrize(
    ("of", "batch", "dims", "reshape"),
    [
        (ROWS, 4, [2], None),
        (network(["x FP32 -1 4"], ["y FP32 -1"]), 4, [1], {"shape": []}),
        (network(["x FP32 -1 4"], ["y FP32 1 2"]), 0, [1, 2], None),
        (network(["x FP32 -1 4"], ["y FP32"]), 0, [1], None),
    ],
)
def test_a_configuration_is_completed_as_the_backend_does(
    of: Network, batch: int, dims: list[int], reshape: object
) -> None:
    completed = complete({"input": [], "output": []}, of)
    (output,) = completed["output"]
    assert (completed.get("max_batch_size", 0), output["dims"], output.get("reshape")) == (
        batch,
        dims,
        reshape,
    )
    assert refusals(completed, of, model="m") == []


def test_a_state_that_the_network_lacks_fails_every_request() -> None:
    of = network(["x FP32 -1 4", "s FP32 -1 7"], ["y FP32 -1 4", "t FP32 -1 7"])
    document = as_json(parse_config(config(8, *FOUR, state("q", "t")), where="m"))
    assert refusals(document, of, model="m") == []  # the backend only counts
    (refusal,) = request_refusals(document, of)
    assert refusal.what == "the network has no input 'q', which a state names"
