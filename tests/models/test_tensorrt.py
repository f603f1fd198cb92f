"""Everything up to trtexec is real; trtexec and nvidia-smi are executables that a test puts on PATH."""

import json
from contextlib import nullcontext

import pytest
from gpu_machine import plan

from tests.reported import reported
from triton_models.artifact.pbtxt import read_config
from triton_models.base.errors import FleetError
from triton_models.builds.build import build
from triton_models.builds.tensorrt.compiler import plan_version
from triton_models.builds.tensorrt.machine import find_compiler
from triton_models.check.check import check_path
from triton_models.check.target import target
from triton_models.facts.instances import gpu
from triton_models.facts.releases import release

ENCODER = """
import onnx
from onnx import TensorProto, helper
axes = ["batch", "tokens"]
inputs = [helper.make_tensor_value_info(name, TensorProto.INT32, axes) for name in ("ids", "mask")]
output = helper.make_tensor_value_info("sum", TensorProto.INT32, axes)
graph = helper.make_graph([helper.make_node("Add", ["ids", "mask"], ["sum"])], "g", inputs, [output])
network = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
onnx.save(network, version / "model.onnx")
sizes = ShapeRange(min=(1, 16), opt=(16, 128), max=(32, 256))
job.compile_plan(version / "model.onnx", shapes={shapes}, precision="{precision}")
"""

BATCHED = """
version = job.model(plain(
    name="other", backend="tensorrt", max_batch_size=8,
    inputs=[tensor("ids", "INT32", [-1])], outputs=[tensor("sum", "INT32", [-1])],
))
"""


def encoder(shapes='{"ids": sizes, "mask": sizes}', precision="fp32") -> str:
    return ENCODER.replace("{shapes}", shapes).replace("{precision}", precision)


def rules(error) -> list[str]:
    return [problem.rule for problem in error.value.problems]


def test_a_build_for_a_gpu_holds_the_plan_instead_of_the_onnx_file_and_records_what_compiled_it(
    machine, tiny
):
    machine()
    root = tiny(encoder(precision="fp16"), gpu="A10G")
    assert (root / "tiny" / "1" / "model.plan").read_bytes() == plan(10, 13, 3, 9)
    assert not (root / "tiny" / "1" / "model.onnx").exists()
    record = json.loads((root / "build.json").read_text())
    assert (record["gpu"], record["tensorrt"]) == ("A10G", "10.13.3.9")
    about = {"gpu": "A10G", "device": "NVIDIA A10G", "precision": "fp16", "tensorrt": "10.13.3.9"}
    assert record["plans"] == {"tiny/1/model.plan": about}


def test_a_network_that_fixes_every_shape_is_compiled_without_shapes(machine, tiny):
    """trtexec ends with "Static model does not take explicit shapes" otherwise."""
    log = machine()
    sizes = "ShapeRange(min=(4, 8), opt=(4, 8), max=(4, 8))"
    fixed = encoder(f'{{"ids": {sizes}, "mask": {sizes}}}').replace(
        'axes = ["batch", "tokens"]', "axes = [4, 8]"
    )
    tiny(fixed, gpu="A10G")
    assert log.read_text().split()[2:] == ["--skipInference", "--noTF32"]


def test_a_model_without_a_plan_belongs_to_no_gpu_even_if_built_for_one(machine, tiny):
    machine()
    root = tiny(gpu="A10G")
    assert json.loads((root / "build.json").read_text())["gpu"] is None


def test_a_rehearsal_of_a_gpu_needs_none_and_says_what_a_plan_stands_for(tiny, models, tmp_path, monkeypatch):
    monkeypatch.setenv("FLEET_PORTABLE", "1")
    monkeypatch.setenv("PATH", str(tmp_path))
    root = tiny(encoder(precision="fp16"), gpu="A10G")
    about = {"gpu": "A10G", "device": "stand-in", "precision": "fp32", "tensorrt": "10.13.3.9"}
    record = json.loads((root / "build.json").read_text())
    assert {path.name for path in (root / "tiny" / "1").iterdir()} == {"model.py", "model.plan"}
    assert record["plans"] == {"tiny/1/model.plan": about}
    assert (record["gpu"], record["tensorrt"]) == ("A10G", plan_version(root / "tiny" / "1" / "model.plan"))
    assert record["left_out"] == ["the plan of tiny"]
    with pytest.raises(FleetError) as caught:
        build("tiny", output=tmp_path / "out", models=models, gpu="V100")
    assert rules(caught) == ["gpu-too-old"]


def test_all_that_is_wrong_with_a_machine_is_reported_at_once(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("triton_models.builds.tensorrt.machine.IMAGE_TRTEXEC", tmp_path / "trtexec")
    with pytest.raises(FleetError) as caught:
        find_compiler(release=release("25.09"), gpu=gpu("V100"), logs=tmp_path)
    assert rules(caught) == ["gpu-too-old", "gpu-absent", "trtexec-missing"]
    assert "no NVIDIA GPU" in caught.value.problems[1].what


@pytest.mark.parametrize(
    ("shown", "wanted", "problems"),
    [
        (["NVIDIA A10G"], "A10G", []),
        (["NVIDIA A100-SXM4-40GB"], "A100-40GB", []),
        (["NVIDIA H100 80GB HBM3"], "H100", []),
        (["NVIDIA A10"], "A10G", ["gpu-absent"]),
        (["NVIDIA A100-SXM4-80GB"], "A100-40GB", ["gpu-absent"]),
        (["NVIDIA A10G", "Tesla T4"], "A10G", ["gpu-absent"]),
    ],
)
def test_nvidia_smis_name_of_a_gpu_is_understood_and_another_one_refused(
    shown, wanted, problems, machine, tmp_path
):
    machine(gpus=shown)
    with reported(*problems) if problems else nullcontext():
        found = find_compiler(release=release("25.09"), gpu=gpu(wanted), logs=tmp_path)
        assert found.gpu.name == wanted


@pytest.mark.parametrize(
    ("banner", "name", "problems"),
    [
        ("[TensorRT v101303] [b9]", "25.09", []),
        ("[TensorRT v101303]", "25.09", []),
        ("[TensorRT v8603] [b1]", "24.03", []),
        ("[TensorRT v110000] [b7]", "26.06", []),
        ("[TensorRT v101303] [b8]", "25.09", ["TensorRT 10.13.3.8"]),
        ("[TensorRT v8601]", "25.09", ["TensorRT 8.6.1"]),
        ("trtexec, of sorts", "25.09", ["TensorRT unknown"]),
    ],
)
def test_a_trtexec_of_the_releases_tensorrt_is_accepted_and_another_refused(
    banner, name, problems, machine, tmp_path
):
    machine(banner=banner)
    with pytest.raises(FleetError) if problems else nullcontext() as caught:
        find_compiler(release=release(name), gpu=gpu("A10G"), logs=tmp_path)
    assert [problem.what for problem in (caught.value.problems if caught else [])] == problems


def test_the_trtexec_in_the_releases_image_is_right_if_the_table_is_not(machine, tiny, monkeypatch, capsys):
    machine(banner="[TensorRT v101304] [b2]", version=(10, 13, 4, 2))
    monkeypatch.setenv("NVIDIA_TRITON_SERVER_VERSION", "25.09")
    root = tiny(encoder(), gpu="A10G")
    assert "has TensorRT 10.13.4.2, not 10.13.3.9" in capsys.readouterr().err
    assert json.loads((root / "build.json").read_text())["tensorrt"] == "10.13.4.2"
    config = root / "tiny" / "config.pbtxt"
    config.write_text(config.read_text().replace('"python"', '"tensorrt"'))
    for name, expected in (("25.09", []), ("25.12", ["plan-version"])):
        found = [each.rule for each in check_path(root, target=target(release=name))]
        assert [rule for rule in found if rule == "plan-version"] == expected


def test_a_plan_of_another_tensorrt_than_its_compiler_claims_is_refused(machine, tiny, tmp_path):
    machine(version=(10, 13, 2, 6))
    with pytest.raises(FleetError) as caught:
        tiny(encoder(), gpu="A10G")
    assert rules(caught) == ["tensorrt-version"]
    assert [path.name for path in (tmp_path / "out").iterdir()] == [".logs"]


@pytest.mark.parametrize(
    ("shapes", "said"),
    [
        ('{"ids": sizes}', "no range for mask"),
        ('{"ids": sizes, "mask": sizes, "more": sizes}', "a range for more"),
        ('{"ids": sizes, "mask": ShapeRange(min=(1,), opt=(1,), max=(1,))}', "mask: (1,)"),
        ('{"ids": sizes, "mask": ShapeRange(min=(1, 16), opt=(64, 16), max=(32, 16))}', "best (64, 16)"),
    ],
)
def test_wrong_shapes_are_found_without_a_gpu(shapes, said, tiny):
    with pytest.raises(FleetError) as caught:
        tiny(encoder(shapes))
    assert rules(caught) == ["plan-shapes"]
    assert said in caught.value.problems[0].what


def test_a_profile_that_ends_at_another_batch_than_the_configuration_is_refused(tiny):
    with pytest.raises(FleetError, match="end at a batch of 32, and max_batch_size is 8") as caught:
        tiny("from triton_models.artifact.pbtxt import plain, tensor\n" + BATCHED + encoder())
    assert rules(caught) == ["plan-shapes"]


@pytest.mark.parametrize("content", [b"", b"ftrt", plan(10, 0, 0, 0)[:27], b"ONNX" + plan(10, 0, 0, 0)[4:]])
def test_a_file_that_is_no_plan_is_refused(content, tmp_path):
    (tmp_path / "model.plan").write_bytes(content)
    with pytest.raises(FleetError, match="is not a TensorRT plan"):
        plan_version(tmp_path / "model.plan")


def test_a_range_must_agree_with_a_dimension_that_the_network_fixes(tiny):
    fixed = encoder().replace('axes = ["batch", "tokens"]', 'axes = ["batch", 128]')
    with pytest.raises(FleetError, match="128 in the dimension that the network fixes to 128"):
        tiny(fixed)


def test_a_declared_network_is_compiled_for_the_sizes_and_precision_it_declares(
    machine, declare_network, models, small_networks_gain, tmp_path
):
    log = machine()
    tokens = '[DynamicDim(name="tokens", min=16, opt=128, max=256)]'
    layer = "torch.nn.functional.linear(ids.float()[..., None], torch.ones(1, 1))[..., 0]"
    forward = f"lambda self, ids, mask: {layer}.tanh() * (mask > 0)"
    between = 'inputs_between=dict.fromkeys(("ids", "mask"), Between(0, 1, why="bits"))'
    bits = '__import__("numpy").ones((1, 16), "int32")'
    declare_network(
        "declared",
        'reference=dict, tolerance={"fp32": 1e-4, "fp16": 0.01}',
        network=f'type("Product", (torch.nn.Module,), {{"forward": {forward}}})()',
        inputs=f'Tensor("ids", "INT32", {tokens}), Tensor("mask", "INT32", {tokens})',
        output="sum",
        backend=f"TensorRt(opt_batch=4), {between}",
        examples=f'lambda: [Example(name="ones", inputs=dict.fromkeys(("ids", "mask"), {bits}))]',
    )
    root = build("declared", output=tmp_path / "out", models=models, gpu="A10G")
    assert log.read_text().split()[2:] == [
        "--skipInference",
        "--fp16",
        "--minShapes=ids:1x16,mask:1x16",
        "--optShapes=ids:4x128,mask:4x128",
        "--maxShapes=ids:8x256,mask:8x256",
    ]
    config = read_config(root / "declared" / "config.pbtxt")
    assert [(each.name, list(each.dims)) for each in (*config.input, *config.output)] == [
        ("ids", [-1]),
        ("mask", [-1]),
        ("sum", [-1]),
    ]
    assert config.backend == "tensorrt"
