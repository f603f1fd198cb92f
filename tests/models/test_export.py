"""Exports of networks of a few numbers; the real ones are in test_model_builds.py."""

import subprocess
import sys

import onnx
import pytest
import torch

from triton_models.errors import FleetError
from triton_models.export.onnx import OPSET, export_onnx

AXES = {0: "batch", 1: "tokens"}
ONES = torch.ones((2, 8), dtype=torch.int32)


class Weighted(torch.nn.Module):
    """Two inputs with different roles."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([3.0]))

    def forward(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        return first.float() * self.weight + second.float()


class Deaf(torch.nn.Module):
    """Ignores its second input."""

    def forward(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        del second
        return first.float() * 2


@pytest.fixture
def path(tmp_path):
    folder = tmp_path / "net" / "1"
    folder.mkdir(parents=True)
    return folder / "model.onnx"


def export(module, path, *, first=ONES, second=ONES):
    export_onnx(
        module,
        path,
        inputs={"first": first, "second": second},
        outputs=["sum"],
        dynamic={"first": AXES, "second": AXES},
    )
    return onnx.load(path)


def test_names_types_and_open_dimensions_are_those_asked_for(path):
    model = export(Weighted(), path)
    onnx.checker.check_model(model, full_check=True)
    for value in model.graph.input:
        assert value.type.tensor_type.elem_type == onnx.TensorProto.INT32
        assert [size.dim_param for size in value.type.tensor_type.shape.dim] == ["batch", "tokens"]
    assert [value.name for value in model.graph.input] == ["first", "second"]
    assert [value.name for value in model.graph.output] == ["sum"]
    assert [(each.domain, each.version) for each in model.opset_import if not each.domain] == [("", OPSET)]


def test_one_tensor_given_for_two_inputs_stays_two_inputs(path):
    from onnx.reference import ReferenceEvaluator

    model = export(Weighted(), path, first=ONES, second=ONES)
    answer = ReferenceEvaluator(model).run(None, {"first": ONES.numpy(), "second": 5 * ONES.numpy()})[0]
    assert answer.ravel().tolist() == [8.0] * 16


def test_an_input_without_effect_is_refused(path):
    with pytest.raises(FleetError, match="the network makes no use of second"):
        export(Deaf(), path)
    assert not path.exists()


def test_the_network_is_exported_as_it_predicts_not_as_it_trains(path):
    class Dropping(Weighted):
        def forward(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.dropout(super().forward(first, second), training=self.training)

    model = export(Dropping().train(), path)
    assert not any("ropout" in node.op_type for node in model.graph.node)


def test_the_file_tells_nothing_about_the_machine_that_wrote_it(path):
    model = export(Weighted(), path)
    content = path.read_bytes()
    for secret in (__file__, torch.__file__, torch.__version__):
        assert secret.encode() not in content
    assert not model.metadata_props
    assert not any(node.metadata_props or node.doc_string for node in model.graph.node)


def test_exporting_prints_nothing(path, capfd):
    export(Weighted(), path)
    assert capfd.readouterr() == ("", "")


def test_the_exporters_modules_import_no_framework_by_themselves():
    for module in ("triton_models.export.onnx", "triton_models.export.weights"):
        code = f"import sys, {module}; sys.exit('torch' in sys.modules or 'onnx' in sys.modules)"
        subprocess.run([sys.executable, "-c", code], check=True)
