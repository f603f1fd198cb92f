"""Configurations derived from a network's own inputs and outputs, and an ensemble's from its steps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from tests.triton_models.model_folders import PYTHON_CODE
from triton_models.artifact.networks import onnx_signature
from triton_models.artifact.pbtxt import plain, tensor, write_config
from triton_models.base.errors import FleetError
from triton_models.builds.derived import derived_ensemble, served_tensors
from triton_models.check.check import check_path
from triton_models.facts.releases import release
from triton_models.spec import DynamicDim, Ensemble, EnsembleStep, Tensor

Value = tuple[str, int, Sequence[Any] | None]

FP32, INT64, INT32 = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32


def network(folder: Path, inputs: Sequence[Value], outputs: Sequence[Value], **extra: Any) -> Path:
    """An ONNX file with those inputs and outputs; what it would calculate does not matter here."""
    sides = [[helper.make_tensor_value_info(*value) for value in side] for side in (inputs, outputs)]
    nodes = [helper.make_node("Identity", [inputs[0][0]], [value[0]]) for value in outputs]
    path = folder / "model.onnx"
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", *sides, **extra)), path)
    return path


def served(path: Path, **given: Any) -> tuple[list[Tensor], list[Tensor]]:
    options = {"backend": "onnxruntime", "max_batch_size": 8, "release": release("25.09"), **given}
    return served_tensors(onnx_signature(path), name="m", **options)


def refusal(path: Path, **given: Any) -> list[tuple[str, str]]:
    with pytest.raises(FleetError) as caught:
        served(path, **given)
    assert all(problem.where == "the network of 'm'" for problem in caught.value.problems)
    return [(problem.rule, problem.what) for problem in caught.value.problems]


def test_the_batch_is_left_out_and_open_sizes_are_minus_one(tmp_path: Path) -> None:
    path = network(
        tmp_path,
        [("ids", INT64, ["batch", "tokens"]), ("image", FP32, ["batch", 3, None, 224])],
        [
            ("scores", FP32, ["batch", "tokens", 7]),
            ("old", FP32, ["Addold_dim_0", 5]),
            ("no", FP32, [None, 5]),
        ],
    )
    assert served(path) == (
        [Tensor("ids", "TYPE_INT64", (-1,)), Tensor("image", "TYPE_FP32", (3, -1, 224))],
        [
            Tensor("scores", "TYPE_FP32", (-1, 7)),
            Tensor("old", "TYPE_FP32", (5,)),
            Tensor("no", "TYPE_FP32", (5,)),
        ],
    )


def test_weights_that_old_files_list_among_the_inputs_are_no_inputs(tmp_path: Path) -> None:
    weight = helper.make_tensor("w", FP32, [1], [1.0])
    path = network(
        tmp_path,
        [("x", FP32, ["batch", 1]), ("w", FP32, [1])],
        [("y", FP32, ["batch", 1])],
        initializer=[weight],
    )
    assert [each.name for each in served(path)[0]] == ["x"]


@pytest.mark.parametrize(
    ("kind", "backend", "without", "having"),
    [
        ("BFLOAT16", "onnxruntime", "25.12", "26.03"),
        ("BFLOAT16", "tensorrt", "24.05", "24.09"),
        ("INT64", "tensorrt", "24.03", "24.09"),  # which would change it
    ],
)
def test_a_type_is_refused_for_releases_whose_backend_lacks_it(
    kind: str, backend: str, without: str, having: str, tmp_path: Path
) -> None:
    path = network(tmp_path, [("x", TensorProto.DataType.Value(kind), ["b", 1])], [("y", FP32, ["b", 1])])
    ((tensor,), _) = served(path, backend=backend, release=release(having))
    ((rule, what),) = refusal(path, backend=backend, release=release(without))
    said = f"input 'x' is {tensor.data_type}, for {backend} of release {without}"
    assert (rule, what, tensor.dims) == ("network-type", said, (1,))


@pytest.mark.parametrize("kind", ["sequence", "COMPLEX64"])
def test_what_triton_has_no_type_for_is_refused(kind: str, tmp_path: Path) -> None:
    path = network(tmp_path, [("x", FP32, ["b", 1])], [("y", FP32, ["b", 1])])
    model = onnx.load(path)
    inner = helper.make_tensor_type_proto(FP32, ["b", 1])
    if kind == "sequence":
        made = helper.make_sequence_type_proto(inner)
    else:
        made = helper.make_tensor_type_proto(TensorProto.DataType.Value(kind), [1])
    model.graph.output[0].type.CopyFrom(made)
    onnx.save(model, path)
    assert refusal(path)[0] == ("network-type", f"output 'y' has the type {kind}")


@pytest.mark.parametrize(
    ("inputs", "output", "what"),
    [
        ([[4, 3]], ["b", 3], "input 'x0' has the shape [4, 3]: its first size is fixed to 4"),
        ([["b", 3]], [1, 3], "output 'y' has the shape [1, 3]: its first size is fixed to 1"),
        ([["b", 3], ["t", 3]], ["b", 3], "the first size of input 'x1' is 't', not 'b'"),
        ([["b", "t"]], ["t", "b"], "the first size of output 'y' is 't', not 'b'"),
    ],
)
def test_a_first_dimension_that_is_no_batch_is_refused(
    inputs: list[list[Any]], output: list[Any], what: str, tmp_path: Path
) -> None:
    values = [(f"x{number}", FP32, shape) for number, shape in enumerate(inputs)]
    assert refusal(network(tmp_path, values, [("y", FP32, output)])) == [("network-batch", what)]


@pytest.mark.parametrize(
    ("shape", "batch", "said"),
    [
        ([], 8, "output 'y' has the shape [], which leaves no dimension"),
        (None, 8, "output 'y' has an unknown number of dimensions"),
        (["b", 0], 8, "output 'y' has the shape [b, 0], which is empty"),
    ],
)
def test_a_shape_that_would_need_a_guess_is_refused(
    shape: list[Any] | None, batch: int, said: str, tmp_path: Path
) -> None:
    path = network(tmp_path, [("x", FP32, ["b", 3])], [("y", FP32, shape)])
    ((rule, what),) = refusal(path, max_batch_size=batch)
    assert rule == "network-shape"
    assert what.startswith(said)


@pytest.mark.parametrize(("shape", "batch", "reshape"), [(["b"], 8, ()), ([], 0, None)])
def test_a_number_without_dimensions_gets_one_as_the_backend_writes_it(
    shape: list[Any], batch: int, reshape: tuple[int, ...] | None, tmp_path: Path
) -> None:
    path = network(tmp_path, [("x", FP32, ["b", 3])], [("y", FP32, shape)])
    (_, outputs) = served(path, max_batch_size=batch)
    assert outputs == [Tensor("y", "TYPE_FP32", (1,), reshape=reshape)]
    # Other backends have no rule for scalars.
    if not batch:
        assert refusal(path, max_batch_size=batch, backend="tensorrt")[0][0] == "network-shape"


def test_a_declaration_that_differs_from_the_network_is_refused(tmp_path: Path) -> None:
    path = network(
        tmp_path,
        [("ids", TensorProto.FLOAT16, ["b", "t"]), ("more", FP32, ["b", 1])],
        [("y", FP32, ["b", 1])],
    )
    tokens = DynamicDim(name="t", max=8)
    assert [what for _, what in refusal(path, declared=[Tensor("ids", "FP32", [tokens])])] == [
        "input 'ids' is declared as TYPE_FP32 [-1]",
        "the input 'more' of the network is not declared",
    ]
    served(path, declared=[Tensor("ids", "FP16", [tokens]), Tensor("more", "FP32", [1])])


def _step(name: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor], batch: int = 8) -> Any:
    return plain(name=name, backend="python", max_batch_size=batch, inputs=inputs, outputs=outputs)


LONG, MISNAMED = tensor("ids", "INT64", [-1]), EnsembleStep(model_name="b", inputs={"id": "ids"})
TEXT, IDS, SCORES = tensor("TEXT", "STRING", [1]), tensor("ids", "INT32", [-1]), tensor("scores", "FP32", [7])


def test_an_ensembles_tensors_and_maps_are_those_of_its_steps(tmp_path: Path) -> None:
    steps = {"a": _step("a", [TEXT], [IDS]), "b": _step("b", [IDS], [SCORES], batch=4)}
    config = derived_ensemble(Ensemble(name="e", steps=["a", "b"]), steps)

    assert [(each.name, list(each.dims)) for each in config.input] == [("TEXT", [1])]
    assert [(each.name, list(each.dims)) for each in config.output] == [("scores", [7])]
    assert config.max_batch_size == 4
    for name, each in {**steps, "e": config}.items():
        write_config(each, tmp_path / name / "config.pbtxt")
        (tmp_path / name / "1").mkdir()
        (tmp_path / name / "1" / "model.py").write_bytes(PYTHON_CODE)
    assert check_path(tmp_path) == []


def test_names_that_differ_are_mapped(tmp_path: Path) -> None:
    steps = {"a": _step("a", [TEXT], [IDS]), "b": _step("b", [tensor("x", "INT32", [-1])], [SCORES])}
    mapped = EnsembleStep(model_name="b", inputs={"x": "ids"}, outputs={"scores": "ANSWER"})
    config = derived_ensemble(Ensemble(name="e", steps=["a", mapped]), steps)

    assert [each.name for each in config.output] == ["ANSWER"]
    assert dict(config.ensemble_scheduling.step[1].input_map) == {"x": "ids"}


@pytest.mark.parametrize(
    ("steps", "second", "said"),
    [
        (["a", "b"], _step("b", [LONG], [SCORES]), "TYPE_INT32 [-1] and TYPE_INT64 [-1]"),
        (["a", "b"], _step("b", [IDS], [IDS]), "two steps of 'e' produce 'ids'"),
        (["a", "b"], _step("b", [IDS], [SCORES], batch=0), "b of 'e' has no batch dimension"),
        (["a", MISNAMED], _step("b", [IDS], [SCORES]), "maps the input 'id'"),
    ],
)
def test_steps_that_do_not_fit_together_are_refused(
    steps: list[str | EnsembleStep], second: Any, said: str
) -> None:
    with pytest.raises(FleetError) as caught:
        derived_ensemble(Ensemble(name="e", steps=steps), {"a": _step("a", [TEXT], [IDS]), "b": second})
    assert any(said in problem.what for problem in caught.value.problems)


def test_what_no_plan_has_and_what_is_no_network_is_refused(tmp_path: Path) -> None:
    path = network(tmp_path, [("x", TensorProto.STRING, ["b", 1])], [("y", FP32, ["b", 1])])
    assert refusal(path, backend="tensorrt") == [
        ("network-type", "input 'x' is TYPE_STRING, which a TensorRT plan does not support")
    ]
    path.write_bytes(b"<html>404</html>")
    with pytest.raises(FleetError, match=r"cannot read .* as ONNX"):
        onnx_signature(path)
