"""The stand-ins serve and refuse the same models and requests as the real backends."""

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import onnx
import pytest

from tests.rehearsal.model_server import ModelServer, contract_of
from tests.rehearsal.served_models import (
    FLOATS_IN,
    FLOATS_OUT,
    batch_size_onnx,
    config,
    copying_onnx,
    ensemble,
    network,
    onnx_model,
    scaling_onnx,
    write,
)
from triton_models.builds.build import configure_for_rehearsal
from triton_models.builds.tensorrt.options import PlanOptions
from triton_models.builds.tensorrt.stand_in import stand_in
from triton_models.facts.instances import gpu as gpu_named
from triton_models.facts.releases import release
from triton_models.facts.tensorrt import Hardware
from triton_models.spec import ShapeRange
from triton_rehearsal.triton.backend_directory import make_backends, new_mark
from triton_rehearsal.triton.machine import Machine
from triton_rehearsal.triton.runtime import find_runtime

pytestmark = pytest.mark.story

CPU_CONFIG = "instance_group [{count: 1 kind: KIND_CPU}]"
# Runs as soon as six rows are queued, long before the delay ends.
WAIT_FOR_SIX = (
    f"dynamic_batching {{preferred_batch_size: [6] max_queue_delay_microseconds: 5000000}}\n{CPU_CONFIG}"
)


SPELLINGS = ("onnxruntime", "tensorrt", 'platform: "onnxruntime_onnx"', 'platform: "tensorrt_plan"')
NAMED = f'default_model_filename: "{{}}"\n{CPU_CONFIG.replace("{", "{{").replace("}", "}}")}'
THREADS = f'parameters {{ key: "intra_op_thread_count" value {{ string_value: "2" }} }}\n{CPU_CONFIG}'


class Server(ModelServer):
    """A server to which tests send the rows of one tensor."""

    def invoke(self, name, rows, *, datatype="FP32", tensor="X"):
        shape = [len(rows), len(rows[0])]
        data = [value for row in rows for value in row]
        request = {"inputs": [{"name": tensor, "shape": shape, "datatype": datatype, "data": data}]}
        body = json.dumps(request).encode()
        return self.post(name, body)

    def ask(self, name, rows, **tensor):
        answer = self.invoke(name, rows, **tensor)
        assert answer.ok, answer.text
        output = json.loads(answer.body)["outputs"][0]
        width = output["shape"][1]
        return [output["data"][i : i + width] for i in range(0, len(output["data"]), width)]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("backends")
    with contract_of(folder) as contract:
        yield Server(contract, folder)


def without_batches(factor):
    """A model over [n, n]."""
    files = onnx_model(factor, batch=0, extra=CPU_CONFIG)
    text = files["scaling/config.pbtxt"].replace(b"dims: [-1]", b"dims: [-1, -1]")
    return {**files, "scaling/config.pbtxt": text}


@pytest.mark.parametrize(
    "files",
    [
        *(onnx_model(2.0, backend=backend, extra=CPU_CONFIG) for backend in SPELLINGS),
        onnx_model(2.0, file="w.onnx", extra=NAMED.format("w.onnx")),
        onnx_model(2.0, backend="tensorrt", file="fp16.onnx", extra=NAMED.format("fp16.plan")),
        without_batches(2.0),
        onnx_model(2.0, extra=THREADS),
    ],
    ids=[
        *("onnxruntime", "tensorrt", "ONNX platform", "plan platform", "a named file"),
        *("the twin of a named plan", "no batches", "threads"),
    ],
)
def test_a_network_is_served(server, files):
    assert server.ask(server.serve(files), [[1, 2], [3, 4]]) == [[2, 4], [6, 8]]


def test_requests_that_wait_together_run_as_one_batch_and_get_their_own_rows(server):
    files = onnx_model(1.0, extra=WAIT_FOR_SIX, batch=6)
    rows = [[[1]], [[2], [3]], [[4], [5], [6]]]
    for file, expected in (
        (batch_size_onnx(), [[[6]], [[6], [6]], [[6], [6], [6]]]),
        (scaling_onnx(10.0), [[[10]], [[20], [30]], [[40], [50], [60]]]),
    ):
        name = server.serve({**files, "scaling/1/model.onnx": file})
        with ThreadPoolExecutor(3) as pool:
            assert list(pool.map(lambda each, name=name: server.ask(name, each), rows)) == expected


def test_requests_that_fail_together_get_an_error_each_and_the_next_ones_an_answer(server):
    files = onnx_model(2.0, extra=WAIT_FOR_SIX, batch=6)
    three = network(onnx.helper.make_node("Mul", ["X", "factors"], ["Y"]), factors=[2.0, 2.0, 2.0])
    text = files["scaling/config.pbtxt"].replace(
        b'"Y" data_type: TYPE_FP32 dims: [-1]', b'"Y" data_type: TYPE_FP32 dims: [3]'
    )
    name = server.serve({"scaling/config.pbtxt": text, "scaling/1/model.onnx": three})
    with ThreadPoolExecutor(2) as pool:
        for refused in pool.map(lambda _: server.invoke(name, [[1, 2, 3, 4]] * 3), range(2)):
            assert refused.status == 400
            assert "onnx runtime error" in refused.text
    assert server.ask(name, [[1, 2, 3]] * 6) == [[2, 4, 6]] * 6


def test_text_passes_through_a_model(server):
    kinds = {"inputs": {"X": "TYPE_STRING"}, "outputs": {"Y": "TYPE_STRING"}}
    text = config(backend="onnxruntime", extra=CPU_CONFIG, **kinds)
    name = server.serve(
        {
            "text/config.pbtxt": text.encode(),
            "text/1/model.onnx": copying_onnx("Y", kind=onnx.TensorProto.STRING),
        }
    )
    assert server.ask(name, [["häuser", "家"], ["", "b"]], datatype="BYTES") == [["häuser", "家"], ["", "b"]]


def test_two_ensembles_whose_steps_share_names_answer_each_with_its_own_steps(server):
    first, second = server.serve(ensemble(10.0)), server.serve(ensemble(100.0, backend="tensorrt"))
    texts = {"datatype": "BYTES", "tensor": "TEXT"}
    assert server.ask(first, [["a"], ["abc"]], **texts) == [[10], [30]]
    assert server.ask(second, [["a"], ["abc"]], **texts) == [[100], [300]]


@pytest.mark.parametrize("group", ["kind: KIND_GPU", "count: 2 gpus: [0]"])
def test_a_gpu_model_of_a_rehearsed_build_runs_here(group, server, tmp_path):
    root = write(onnx_model(2.0, extra=f"instance_group [{{{group}}}]"), tmp_path / "built")
    assert [model for model, _ in configure_for_rehearsal(root)] == ["scaling"]
    files = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    name = server.serve(files)
    assert server.ask(name, [[1]]) == [[2]]


ROWS_TO_4, ROWS_TO_2 = (
    {"X": ShapeRange(min=(1, 1), opt=(rows, 2), max=(rows, 2))} for rows in (4, 2)
)  # both profiles take up to two columns


def stand_in_for(
    plan: str,
    *,
    gpu: str,
    folder: Path,
    hardware: Hardware = "this-gpu",
    profiles: Sequence[Mapping[str, ShapeRange]] = (),
    extra: str = CPU_CONFIG,
) -> dict[str, bytes]:
    """Return a model whose plan is the stand-in of a portable build for a GPU and a release."""
    onnx = folder / "model.onnx"
    onnx.write_bytes(scaling_onnx(2.0))
    compiler = stand_in(release=release(plan), gpu=gpu_named(gpu))
    compiler.compile(onnx, folder / "model.plan", profiles=profiles, options=PlanOptions(hardware=hardware))
    files = onnx_model(2.0, backend="tensorrt", file="model.plan", extra=extra)
    return {**files, "scaling/1/model.plan": (folder / "model.plan").read_bytes()}


@pytest.fixture(scope="module")
def g5(tmp_path_factory):
    """A server as on an ml.g5.2xlarge with release 25.09."""
    folder = tmp_path_factory.mktemp("g5")
    machine = Machine.of(image="repository:25.09-py3", instance_type="ml.g5.2xlarge")
    with contract_of(folder, machine=machine) as contract:
        yield Server(contract, folder)


@pytest.mark.parametrize(("gpu", "hardware"), [("A10G", "this-gpu"), ("L4", "ampere+")])
def test_a_stand_in_for_a_plan_is_served_on_the_target_that_it_was_made_for(g5, tmp_path, gpu, hardware):
    name = g5.serve(stand_in_for("25.09", gpu=gpu, folder=tmp_path, hardware=hardware))
    assert g5.ask(name, [[1, 2]]) == [[2, 4]]


@pytest.mark.parametrize(
    ("plan", "gpu", "message"),
    [
        ("25.09", "L4", "an incompatible device, expecting compute 8.6 got compute 8.9, please rebuild."),
        ("25.04", "A10G", "version of TensorRT, expecting library version 10.13.3.9 got 10.9.0.34, please"),
    ],
)
def test_a_stand_in_is_refused_where_tensorrt_refuses_the_plan(g5, tmp_path, plan, gpu, message):
    answer = g5.load(stand_in_for(plan, gpu=gpu, folder=tmp_path))[1]
    assert answer.status == 400
    assert message in answer.text


def test_each_batch_runs_in_a_profile_that_takes_it_and_others_are_refused(g5, tmp_path):
    both = "instance_group [{kind: KIND_CPU profile: ['0', '1']}]"
    profiles = [ROWS_TO_2, ROWS_TO_4]
    name = g5.serve(stand_in_for("25.09", gpu="A10G", folder=tmp_path, profiles=profiles, extra=both))
    assert g5.ask(name, [[1, 2]] * 4) == [[2, 4]] * 4
    refused = g5.invoke(name, [[1, 2, 3]])
    assert refused.status == 400
    assert "expected the shape of dimension 1 to be between 1 and 2 but received 3" in refused.text


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ("instance_group [{kind: KIND_CPU profile: ['0', '2']}]", "optimization profile 2[2] for"),
        (f"optimization {{cuda {{graphs: true graph_spec {{batch_size: 9}}}}}} {CPU_CONFIG}", "<= 8"),
    ],
)
def test_a_plan_is_refused_with_a_profile_or_a_graph_that_it_does_not_have(g5, tmp_path, extra, message):
    profiles = [ROWS_TO_4, ROWS_TO_2]
    files = stand_in_for("25.09", gpu="A10G", folder=tmp_path, profiles=profiles, extra=extra)
    answer = g5.load(files)[1]
    assert (answer.status, message in answer.text) == (400, True), answer.text


def test_a_server_of_the_image_for_cpus_has_no_tensorrt(tmp_path):
    machine = Machine.of(image="repository:25.09-py3-cpu", instance_type="ml.c7i.2xlarge")
    make_backends(find_runtime(), tmp_path, mark=new_mark(), of_image=machine.backends())
    backends = ["dali", "fil", "identity", "onnxruntime", "python", "pytorch"]
    assert sorted(path.name for path in tmp_path.iterdir()) == backends


def test_the_identity_backend_answers_with_its_input(server):
    name = server.serve(identity("INPUT0", "OUTPUT0"))
    assert server.ask(name, [[1, 2], [3, 4]], tensor="INPUT0") == [[1, 2], [3, 4]]


def identity(given, output, *, kind="TYPE_FP32"):
    text = config(backend="identity", inputs={given: "TYPE_FP32"}, outputs={output: kind})
    return {"scaling/config.pbtxt": text.encode(), "scaling/1/.keep": b""}


def declared(inputs=FLOATS_IN, outputs=FLOATS_OUT):
    """A network whose configuration may contradict it."""
    text = config(backend="onnxruntime", inputs=inputs, outputs=outputs)
    return {**onnx_model(2.0), "scaling/config.pbtxt": text.encode()}


def test_the_scalar_of_a_network_without_batches_is_one_element(server):
    value = onnx.helper.make_tensor_value_info
    x, y = value("X", onnx.TensorProto.FLOAT, []), value("Y", onnx.TensorProto.FLOAT, [])
    graph = onnx.helper.make_graph([onnx.helper.make_node("Neg", ["X"], ["Y"])], "g", [x], [y])
    opsets = [onnx.helper.make_opsetid("", 17)]
    text = config(backend="onnxruntime", inputs=FLOATS_IN, outputs=FLOATS_OUT, batch=0, extra=CPU_CONFIG)
    name = server.serve(
        {
            "scaling/config.pbtxt": text.replace("dims: [-1]", "dims: [1]").encode(),
            "scaling/1/model.onnx": onnx.helper.make_model(
                graph, opset_imports=opsets, ir_version=9
            ).SerializeToString(),
        }
    )
    request = {"inputs": [{"name": "X", "shape": [1], "datatype": "FP32", "data": [3]}]}
    (output,) = json.loads(server.post(name, json.dumps(request).encode()).body)["outputs"]
    assert (output["shape"], output["data"]) == ([1], [-3.0])


STATES = """sequence_batching {
  control_input [{ name: "START" control [{ kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] }] }]
  state [{
    input_name: "S" output_name: "T" data_type: TYPE_FP32 dims: [ 1 ]
    initial_state { name: "zero" data_type: TYPE_FP32 dims: [ 1 ] zero_data: true }
  }]
}
"""


def test_a_network_with_a_control_and_an_implicit_state_loads(server):
    value, node = onnx.helper.make_tensor_value_info, onnx.helper.make_node
    x, s, start, y, t = (
        value(name, onnx.TensorProto.FLOAT, ["b", 1]) for name in ("X", "S", "START", "Y", "T")
    )
    nodes = [node("Sum", ["X", "S", "START"], ["Y"]), node("Identity", ["Y"], ["T"])]
    graph = onnx.helper.make_graph(nodes, "g", [x, s, start], [y, t])
    opsets = [onnx.helper.make_opsetid("", 17)]
    text = config(backend="onnxruntime", inputs=FLOATS_IN, outputs=FLOATS_OUT, extra=CPU_CONFIG + STATES)
    content = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
    files = {
        "scaling/config.pbtxt": text.replace("dims: [-1]", "dims: [1]").encode(),
        "scaling/1/model.onnx": content,
    }
    assert server.load(files)[1].status == 200


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            onnx_model(2.0, backend="tensorrt", file="model.plan"),
            "runs only on the GPU model it was compiled for",
        ),
        (onnx_model(2.0, backend="tensorrt", file="other.bin"), "unable to find"),
        (
            onnx_model(2.0, extra="instance_group [{kind: KIND_GPU}]"),
            "has kind KIND_GPU but no GPUs are available",
        ),
        (identity("X", "OUTPUT0"), "expected input name to follow INPUT<index> pattern"),
        (identity("INPUT0", "OUTPUT0", kind="TYPE_INT8"), "expected input and output datatype to match"),
        (
            declared({"X": "TYPE_INT64"}),
            "configuration expects datatype TYPE_INT64 for input 'X', model provides TYPE_FP32",
        ),
        (declared({"Q": "TYPE_FP32"}), "unexpected inference input 'Q', allowed inputs are: X"),
        (declared(outputs={"Z": "TYPE_FP32"}), "unexpected inference output 'Z', allowed outputs are: Y"),
        (
            {
                name: content.replace(b"dims: [-1]", b"dims: [-1, 3]")
                for name, content in onnx_model(2.0).items()
            },
            "the model expects 2 dimensions (shape [-1,-1]) but the model configuration specifies 3",
        ),
    ],
)
def test_what_the_real_backend_refuses_is_refused_with_its_reason(server, files, message):
    answer = server.load(files)[1]
    assert (answer.status, message in answer.text) == (400, True), answer.text
