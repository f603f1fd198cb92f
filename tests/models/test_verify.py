"""`fleet verify`: a real server answers the examples of built models, and their source does too."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from triton_models.artifact.layout import REFUSED_FILE
from triton_models.artifact.pack.pack import pack
from triton_models.base.errors import FleetError
from triton_models.builds.build import build
from triton_models.cli.main import main
from triton_models.deliver.verify import server as process_module
from triton_models.deliver.verify import server as program_module
from triton_models.deliver.verify.comparing import difference
from triton_models.deliver.verify.server import Limits, Server, local_server
from triton_models.deliver.verify.verify import declaration_of, verify
from triton_models.spec import Example, ModelDefinition, load_build
from triton_rehearsal.triton import command

# Answers twice what it is asked, as an ONNX network behind a Python model: an ensemble of two.
TWICE = """
import numpy as np
from triton_models.spec import Example, ModelDefinition

def write(job):
    import onnx
    from onnx import TensorProto, helper
    from triton_models.artifact.pbtxt import ensemble, plain, step, tensor

    one, two = (job.model(plain(
        name=name, backend=backend, max_batch_size=4,
        inputs=[tensor("X", "FP32", [3])], outputs=[tensor("Y", "FP32", [3])],
    )) for name, backend in (("twice_copy", "python"), ("twice_sum", "onnxruntime")))
    (one / "model.py").write_text(COPY)
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 3]) for name in "XY"]
    graph = helper.make_graph([helper.make_node("Add", ["X", "X"], ["Y"])], "g", values[:1], values[1:])
    network = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(network, two / "model.onnx")
    job.model(ensemble(
        name="twice", max_batch_size=4,
        inputs=[tensor("X", "FP32", [3])], outputs=[tensor("Y", "FP32", [3])],
        steps=[
            step("twice_copy", inputs={"X": "X"}, outputs={"Y": "between"}),
            step("twice_sum", inputs={"X": "between"}, outputs={"Y": "Y"}),
        ],
    ))

COPY = '''
import triton_python_backend_utils as pb

class TritonPythonModel:
    def execute(self, requests):
        tensors = [pb.get_input_tensor_by_name(request, "X").as_numpy() for request in requests]
        return [pb.InferenceResponse([pb.Tensor("Y", tensor)]) for tensor in tensors]
'''

def examples():
    return [
        Example(name="small", inputs={"X": np.array([[1, 2, 3]], np.float32)}),
        Example(name="a batch", inputs={"X": np.array([[4, 5, 6], [7, 8, 9]], np.float32)}),
    ]

def reference(inputs):
    return {"Y": inputs["X"] * 2}

BUILD = ModelDefinition(
    name="twice", description="", write=write, examples=examples, reference=reference,
    output="Y", tolerance={"fp32": 1e-6, "fp16": 0.5},
)
"""

# Does what its input says; a Python model may answer with any type and shape.
MOODY = """
import numpy as np
from triton_models.spec import Example, ModelDefinition

def write(job):
    from triton_models.artifact.pbtxt import plain, tensor

    version = job.model(plain(
        name="moody", backend="python", max_batch_size=0,
        inputs=[tensor("MOOD", "STRING", [1])],
        outputs=[tensor("Y", "FP32", [2]), tensor("WORD", "STRING", [1])],
    ))
    (version / "model.py").write_text(CODE)

CODE = '''
import os, signal, threading
import numpy as np
import triton_python_backend_utils as pb

class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(pb.get_input_tensor_by_name(each, "MOOD").as_numpy()[0]) for each in requests]

    def answer(self, mood):
        y, word = np.array([1, 2], np.float32), np.array([mood], np.object_)
        if mood == b"an error":
            return pb.InferenceResponse(error=pb.TritonError("not today"))
        if mood == b"no word":
            return pb.InferenceResponse([pb.Tensor("Y", y)])
        if mood == b"another type":
            y = y.astype(np.float64)
        if mood == b"another shape":
            y = np.zeros(3, np.float32)
        if mood == b"not a number":
            y[1] = np.nan
        if mood == b"the end":
            os.kill(os.getppid(), signal.SIGKILL)
        if mood in {b"the end", b"no answer"}:
            threading.Event().wait()
        return pb.InferenceResponse([pb.Tensor("Y", y), pb.Tensor("WORD", word)])
'''

def asked(*moods):
    return [Example(name=mood, inputs={"MOOD": np.array([mood], np.object_)}) for mood in moods]

def reference(inputs):
    return {"Y": np.array([1, 2]), "WORD": inputs["MOOD"]}

BUILD = ModelDefinition(
    name="moody", description="", write=write, examples=lambda: asked("well"), reference=reference,
    output="Y", tolerance=0,
)
"""


@pytest.fixture(scope="module")
def declarations(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    for name, text in (("twice", TWICE), ("moody", MOODY)):
        (folder / name).mkdir()
        (folder / name / "build.py").write_text(text)
    return folder


@pytest.fixture(scope="module")
def roots(declarations: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both models, built; it is never written to."""
    output = tmp_path_factory.mktemp("roots")
    for name in ("twice", "moody"):
        build(name, output=output, models=declarations)
    return output


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A `tritonserver` as the build machine has it."""
    return command.install(tmp_path_factory.mktemp("bin")) / command.PROGRAM


@pytest.fixture
def on_path(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.pathsep.join([str(program.parent), os.environ["PATH"]]))


@pytest.fixture(scope="module")
def server(program: Path) -> Iterator[Server]:
    """One server for all tests; a test that ends it makes the next one start it again."""
    with local_server(program) as server:
        yield server


class Keeping(Server):
    """A server that keeps its models: Triton takes a second to unload one that is written in Python."""

    @contextmanager
    def loaded(self, _root: Path, _model: str, **_: bool) -> Iterator[None]:
        yield


@pytest.fixture(scope="module")
def keeping(program: Path, roots: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that has loaded both models, for tests of what they answer."""
    server = Keeping(program, tmp_path_factory.mktemp("keeping"), limits=Limits())
    with Server.loaded(server, roots / "twice", "twice"), Server.loaded(server, roots / "moody", "moody"):
        yield server
    server.stop()


@pytest.fixture
def twice(roots: Path, tmp_path: Path) -> Path:
    """A copy of a built root, to spoil."""
    return Path(shutil.copytree(roots / "twice", tmp_path / "twice"))


@pytest.fixture
def moody(roots: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(roots / "moody", tmp_path / "moody"))


def refusal(root: Path, declaration: ModelDefinition, server: Server) -> list[str]:
    """Return the problems, one per line."""
    with pytest.raises(FleetError) as caught:
        verify(root, declaration, server=server)
    return [f"{problem.rule}: {problem.what}, {problem.where}" for problem in caught.value.problems]


def in_a_mood(declarations: Path, *moods: str) -> ModelDefinition:
    declaration = load_build("moody", declarations)
    examples = [Example(name=mood, inputs={"MOOD": np.array([mood], np.object_)}) for mood in moods]
    return replace(declaration, examples=lambda: examples)


def precisions(root: Path, *names: str) -> None:
    record = json.loads((root / "build.json").read_text())
    (root / "build.json").write_text(json.dumps({**record, "precisions": names}))


def test_an_ensemble_that_answers_as_its_source_is_within_tolerance(declarations, twice, keeping):
    accuracy = verify(twice, load_build("twice", declarations), server=keeping)
    assert (accuracy.model, accuracy.precision, accuracy.examples) == ("twice", "fp32", 2)
    assert (accuracy.largest, accuracy.tolerance, accuracy.output) == (0.0, 1e-6, "Y")
    assert accuracy.line().startswith("twice: fp32, equal on 2 of your examples; largest difference 0.0e+00")


def test_the_line_says_what_the_build_compared_in_which_precision_and_range(declarations, twice, keeping):
    record = json.loads((twice / "build.json").read_text())
    span = {"X": {"between": [0.0, 255.0], "why": "pixels"}}
    drawn = {"examples": 2, "drawn": 512, "allowed": 0.5, "precision": "fp16"}
    (twice / "build.json").write_text(
        json.dumps({**record, "precisions": ["fp16"], "compared": {"twice": {**drawn, "ranges": span}}})
    )
    accuracy = verify(twice, load_build("twice", declarations), server=keeping)
    assert accuracy.line() == (
        "twice: fp16, equal on 2 of your examples and 512 drawn rows, X between 0 and 255 (pixels); "
        "largest difference 0.0e+00 in Y, allowed 0.5"
    )


@pytest.mark.parametrize(
    ("compares", "says"),
    [
        (True, "loads; answered 1 generated example as its source does; largest difference 0.0e+00 in Y, "),
        (False, "loads; answered 1 generated example"),
    ],
)
def test_a_model_with_generated_examples_alone_only_loads(compares, says, declarations, moody, keeping):
    declaration = in_a_mood(declarations, "well")
    (example,) = declaration.examples()
    declaration = replace(declaration, examples=lambda: [replace(example, generated=True)])
    if not compares:
        declaration = replace(declaration, reference=None, tolerance=None)
    accuracy = verify(moody, declaration, server=keeping)
    assert accuracy.line().startswith(f"moody: fp32, {says}")
    assert accuracy.as_dict()["status"] == "loads"


def test_a_model_without_an_example_only_loads(declarations, moody, keeping):
    accuracy = verify(moody, in_a_mood(declarations), server=keeping)
    assert accuracy.line() == "moody: fp32, loads; nothing was compared"


def test_a_plan_with_a_profile_for_small_batches_is_also_verified_in_a_full_one(declarations, twice, keeping):
    record = {**json.loads((twice / "build.json").read_text()), "plans": {"a plan": {"profiles": 2}}}
    (twice / "build.json").write_text(json.dumps(record))
    wrong_in_the_last_row = np.array([[8, 10, 12], [14, 16, 19]], np.float32)
    declaration = replace(
        load_build("twice", declarations),
        reference=lambda inputs: {"Y": inputs["X"] * 2 if len(inputs["X"]) == 1 else wrong_in_the_last_row},
    )
    assert verify(twice, load_build("twice", declarations), server=keeping).examples == 3
    assert (
        "the answer differs by 1 at [1, 2]: got 18, expected 19; 2 of 12"
        in refusal(twice, declaration, keeping)[1]
    )


def test_texts_are_compared_too(declarations, moody, keeping):
    declaration = in_a_mood(declarations, "grüß Gott", "well")
    assert verify(moody, declaration, server=keeping).largest == 0
    other = replace(declaration, reference=lambda inputs: {"Y": np.array([1, 2]), "WORD": np.array(["ill"])})
    found = refusal(moody, other, keeping)
    assert "got 'well', expected 'ill'" in found[1]
    assert found[1].endswith("model 'moody', example 'well', output 'WORD'")


@pytest.mark.story
def test_models_of_many_roots_share_one_server_though_their_parts_have_the_same_names(
    declarations, twice, moody, server
):
    first = load_build("twice", declarations)
    thrice = replace(first, reference=lambda inputs: {"Y": inputs["X"] * 3})
    verify(twice, first, server=server)
    process = server._process
    refusal(twice, thrice, server)
    verify(moody, load_build("moody", declarations), server=server)
    verify(twice, first, server=server)
    assert server._process is process


def test_a_difference_names_the_place_both_values_the_tolerance_and_how_much_is_wrong(
    declarations, twice, keeping
):
    def reference(inputs):
        expected = inputs["X"] * 2
        expected[-1, 1:] += [0.25, 0.125]
        return {"Y": expected}

    declaration = replace(load_build("twice", declarations), reference=reference)
    with pytest.raises(FleetError) as caught:
        verify(twice, declaration, server=keeping)
    second = caught.value.problems[1]
    assert second.where == "model 'twice', example 'a batch', output 'Y'"
    assert second.what == (
        "the answer differs by 0.25 at [1, 1]: got 16, expected 16.25; "
        "2 of 6 components are outside the tolerance of 1e-06 in fp32"
    )
    assert "with a higher precision" in second.fix


@pytest.mark.parametrize(
    ("served", "expected"),
    [(np.float32(0.9999999), np.float64(0.9999999)), (np.float32(16777216), np.float32(16777218))],
)
def test_values_that_differ_look_different(served, expected):
    found = difference(np.array([served]), np.array([expected]), tolerance=0)
    assert (found.outside, found.got != found.expected) == (1, True)
    equal = np.array([expected, np.inf, -np.inf])
    assert difference(equal, equal, tolerance=0).largest == 0


@pytest.mark.parametrize(
    ("served", "expected", "outside"),
    [
        ([1.0, np.nan], [1.0, np.nan], 0),
        ([1.0, np.nan], [2.0, np.nan], 1),
        ([np.nan, 1.0], [1.0, np.nan], 2),
        ([1.0, 2.0], [1.0, np.nan], 1),
        ([np.nan, np.nan], [np.nan, np.nan], 2),
    ],
)
def test_nan_equals_nan_unless_nothing_else_is_compared(served, expected, outside):
    assert difference(np.array(served), np.array(expected), tolerance=0.1).outside == outside


def test_a_corrupt_file_is_refused_with_tritons_reason_and_log(declarations, twice, server):
    (twice / "twice_sum" / "1" / "model.onnx").write_bytes(b"no network")
    with pytest.raises(FleetError, match="the Triton server does not load it") as caught:
        verify(twice, load_build("twice", declarations), server=server)
    (problem,) = caught.value.problems
    assert "twice_sum" in problem.what
    assert "    E" in problem.why
    assert "failed to load" in problem.why


def add_environment(model: Path, python: str) -> None:
    """Give a Python model an environment for another Python, which has a NumPy and `greeting`."""
    packages = model / "environment" / "lib" / f"python{python}" / "site-packages"
    (packages / "numpy").mkdir(parents=True)
    (packages / "numpy" / "__init__.py").write_text(
        "__version__ = '1.26.4'\ndef __getattr__(name): return object\n"
    )
    (packages / "greeting.py").write_text(
        "import sys; raise ImportError('imported by {0}.{1}'.format(*sys.version_info))\n"
    )
    (model / "environment" / "bin").mkdir()
    (model / "environment" / "bin" / "activate").write_text(
        'export PATH="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd):$PATH"\n'
    )
    (model / "environment" / "bin" / "python3").write_text("#!/bin/sh\n")
    (model / "environment" / "bin" / "python3").chmod(0o755)
    (model / "environment" / "pyvenv.cfg").write_text("home = /nowhere/bin\n")
    with (model / "config.pbtxt").open("a") as file:
        file.write(
            'parameters { key: "EXECUTION_ENV_PATH" '
            'value: { string_value: "$$TRITON_MODEL_DIRECTORY/environment" } }\n'
        )


def import_greeting(model: Path) -> None:
    code = model / "1" / "model.py"
    code.write_text(f"import greeting\n{code.read_text()}")


def test_a_model_without_its_environment_is_verified_with_that_said(declarations, twice, server):
    add_environment(twice / "twice_copy", "3.7")  # the server has no stub for it
    found = verify(twice, load_build("twice", declarations), server=server)
    assert found.environment_not_loaded.startswith("it is for Python 3.7, and this server's is 3.")
    assert found.environment_not_loaded in found.line()


def test_an_import_that_the_missing_environment_explains_is_not_called_the_endpoints(
    declarations, twice, server
):
    add_environment(twice / "twice_copy", "3.7")
    import_greeting(twice / "twice_copy")
    with pytest.raises(FleetError, match="No module named 'greeting'") as caught:
        verify(twice, load_build("twice", declarations), server=server)
    (problem,) = caught.value.problems
    assert problem.what.startswith("its environment is not loaded here: it is for Python 3.7, and this")
    assert "No module named 'greeting'" in problem.why
    assert "the endpoint would" not in problem.why
    assert "Python 3.7" in problem.fix


@pytest.mark.parametrize(
    ("mood", "said"),
    [
        ("an error", "not-served: the request fails with 500: not today"),
        ("no word", "output 'WORD'"),
        ("another type", "wrong-answer: output 'Y' has elements of type float64"),
        ("another shape", "wrong-answer: output 'Y' has the shape [3]"),
        ("not a number", "outside-tolerance: the answer differs at [1]: got nan, expected 2"),
    ],
)
def test_a_wrong_answer_is_refused_and_the_next_example_is_still_asked(
    mood, said, declarations, moody, keeping
):
    found = refusal(moody, in_a_mood(declarations, mood, "another shape"), keeping)
    assert said in found[0]
    assert f"model 'moody', example {mood!r}" in found[0]
    assert found[1].startswith("wrong-answer: output 'Y' has the shape [3]")


@pytest.mark.story
def test_a_server_that_dies_is_reported_and_restarted_for_the_next_model(declarations, twice, moody, server):
    found = refusal(moody, in_a_mood(declarations, "the end", "well"), server)
    assert len(found) == 1
    assert "not-served: the Triton server " in found[0]
    assert "before it answered, model 'moody', example 'the end'" in found[0]
    verify(twice, load_build("twice", declarations), server=server)


def test_a_model_that_does_not_answer_is_given_up_with_its_server(declarations, moody, program):
    with local_server(program, limits=Limits(answer_s=1)) as server:
        found = refusal(moody, in_a_mood(declarations, "no answer", "no answer"), server)
        assert len(found) == 1
        assert found[0].startswith("not-served: it is not answered within 1 seconds")
        assert not server.alive


def test_a_refused_root_is_not_packed_until_it_is_verified_again(declarations, twice, keeping, tmp_path):
    declaration = load_build("twice", declarations)
    before = pack(twice, output=tmp_path / "before").sha256
    refusal(twice, replace(declaration, reference=lambda inputs: {"Y": inputs["X"]}), keeping)
    with pytest.raises(FleetError, match="the verification refused it: the answer differs by 3 at"):
        pack(twice, output=tmp_path / "refused")
    assert not (tmp_path / "refused").exists()

    verify(twice, declaration, server=keeping)
    assert pack(twice, output=tmp_path / "after").sha256 == before


def test_a_mark_that_cannot_be_written_is_reported_beside_what_is_wrong(declarations, twice, keeping):
    (twice / REFUSED_FILE).mkdir()
    found = refusal(twice, replace(load_build("twice", declarations), reference=lambda inputs: {}), keeping)
    assert [line.partition(":")[0] for line in found] == ["reference", "reference", "unmarked"]
    with pytest.raises(FleetError, match="the verification refused it"):
        pack(twice, output=twice.parent / "out")


def test_a_portable_build_that_no_other_server_loads_says_what_it_lacks(declarations, twice, server):
    record = json.loads((twice / "build.json").read_text())
    (twice / "build.json").write_text(json.dumps({**record, "left_out": ["the plan of twice_sum"]}))
    (twice / "twice_sum" / "1" / "model.onnx").unlink()
    with pytest.raises(FleetError) as caught:
        verify(twice, load_build("twice", declarations), server=server)
    assert "lacks the plan of twice_sum" in caught.value.problems[0].fix


@pytest.mark.parametrize(("built_in", "passes"), [((), False), (("fp16", "fp32"), True)])
def test_the_tolerance_is_that_of_the_coarsest_precision_that_was_built_in(
    built_in, passes, declarations, twice, keeping
):
    precisions(twice, *built_in)
    near = replace(load_build("twice", declarations), reference=lambda inputs: {"Y": inputs["X"] * 2 + 0.25})
    if passes:
        accuracy = verify(twice, near, server=keeping)
        assert (accuracy.precision, accuracy.tolerance, accuracy.largest) == ("+".join(built_in), 0.5, 0.25)
    else:
        refusal(twice, near, keeping)


def test_without_a_reference_the_types_and_shapes_are_verified_and_the_line_says_so(
    declarations, moody, keeping
):
    declaration = replace(in_a_mood(declarations, "well"), reference=None, tolerance=None)
    accuracy = verify(moody, declaration, server=keeping)
    assert accuracy.line() == ("moody: fp32, loads; answered 1 of your examples, not compared")
    wrong = replace(in_a_mood(declarations, "another shape"), reference=None, tolerance=None)
    assert "has the shape [3]" in refusal(moody, wrong, keeping)[0]


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        (lambda inputs: {}, "reference: it gives nothing"),
        (lambda inputs: {"Y": 2 * inputs["X"], "Z": inputs["X"]}, "it gives 'Z'"),
        (lambda inputs: {"Y": inputs["X"][0]}, "the answer has the shape [1, 3]"),
        (lambda inputs: {"Y": inputs["X"] / 0 * 0}, "expected nan"),
        (lambda inputs: 1 / 0, "reference() of 'twice', example 'small' failed: ZeroDivisionError"),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_reference_that_cannot_be_compared_with_is_reported(reference, said, declarations, twice, keeping):
    declaration = replace(load_build("twice", declarations), reference=reference)
    assert said in refusal(twice, declaration, keeping)[0]


# The server


def test_no_server_is_an_error_that_says_where_there_is_one(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(program_module, "IMAGE_SERVER", tmp_path / "none")
    monkeypatch.setattr(program_module, "INSTALLED", tmp_path / "none")
    with pytest.raises(FleetError, match=r"tritonserver not found(.|\n)*`make rehearse`"), local_server():
        pass


def test_the_server_of_the_image_or_else_of_make_setup_is_found_without_path(monkeypatch, tmp_path, program):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(program_module, "INSTALLED", program)
    monkeypatch.setattr(program_module, "IMAGE_SERVER", tmp_path / "none")
    assert program_module.find_server() == program
    monkeypatch.setattr(program_module, "IMAGE_SERVER", Path(sys.executable))
    assert program_module.find_server() == Path(sys.executable)


def test_a_server_that_does_not_start_marks_no_model_and_shows_its_log(declarations, twice, tmp_path):
    broken = tmp_path / "tritonserver"
    broken.write_text("#!/bin/sh\necho no such GPU >&2\nexit 3\n")
    broken.chmod(0o755)
    with local_server(broken) as server, pytest.raises(FleetError) as found:
        verify(twice, load_build("twice", declarations), server=server)
    assert "the Triton server is not ready" in str(found.value)
    assert "no such GPU" in str(found.value)
    assert not (twice / REFUSED_FILE).exists()


def test_a_server_opens_the_plugins_of_the_plans_that_it_verifies(declarations, twice, tmp_path):
    echoing = tmp_path / "tritonserver"
    echoing.write_text('#!/bin/sh\necho "$@"\nexit 3\n')
    echoing.chmod(0o755)
    plans = {"a": {"plugins": "/opt/b.so;/opt/a.so"}, "b": {"plugins": "/opt/a.so"}, "c": {}}
    record = json.loads((twice / "build.json").read_text())
    with local_server(echoing) as server:
        for found, plugins in ((plans, " --backend-config=tensorrt,plugins=/opt/a.so;/opt/b.so"), ({}, "")):
            (twice / "build.json").write_text(json.dumps({**record, "plans": found}))
            with pytest.raises(FleetError) as error:
                verify(twice, load_build("twice", declarations), server=server)
            assert str(error.value).endswith(f"shm-default-byte-size=1048576{plugins}")


def test_a_server_that_is_never_ready_is_given_up_and_nothing_of_it_stays(tmp_path):
    silent = tmp_path / "tritonserver"
    silent.write_text("#!/bin/sh\nexec sleep 1000\n")
    silent.chmod(0o755)
    with local_server(silent, limits=Limits(start_s=0.3)) as server:
        left = Path(f"/dev/shm/{server._mark}by_a_killed_one")  # noqa: S108
        left.touch()
        with pytest.raises(FleetError, match=r"within 0\.3 seconds"):
            server.start()
        assert not server.alive
        assert not left.exists()


@pytest.mark.story
def test_a_port_that_another_server_took_meanwhile_is_left_to_it(monkeypatch, server, program):
    server.start()
    free = process_module._free_port()
    ports = iter([server._pool.port, free])
    monkeypatch.setattr(process_module, "_free_port", lambda: next(ports))
    with local_server(program) as other:
        other.start()
        assert other.alive
        assert other._pool.port == free
    assert server.alive


def test_nothing_of_a_server_stays(declarations, moody, program):
    with local_server(program) as server, server.loaded(moody, "moody"):
        mark, process = server._mark, server._process
        assert list(Path("/dev/shm").glob(f"{mark}*"))  # noqa: S108
    assert process is not None
    assert process.poll() is not None
    assert not list(Path("/dev/shm").glob(f"{mark}*"))  # noqa: S108
    assert not server.repository.exists()


# The command


def fleet(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    status = main(["verify", *map(str, arguments)])
    return status, capsys.readouterr().out


def test_the_command_says_a_line_for_each_model_and_refuses_only_what_is_wrong(
    declarations, twice, moody, on_path, capsys
):
    log = twice.parent / "triton.log"
    (twice / "twice_copy" / "1" / "model.py").write_text("import no_such_module")
    status, out = fleet(capsys, twice, moody, "--models", declarations, "--log", log)
    assert status == 1
    assert "No module named 'no_such_module'" in out
    assert out.endswith(
        f"{twice}: failed, 1 problem\n"
        "moody: fp32, equal on 1 of your examples; largest difference 0.0e+00 in Y, allowed 0\n"
    )
    assert "no_such_module" in log.read_text()


def test_the_command_as_json(declarations, moody, tmp_path, program, capsys):
    status, out = fleet(
        capsys, moody, tmp_path / "none", "--models", declarations, "--tritonserver", program, "--json"
    )
    document: dict[str, Any] = json.loads(out)
    assert status == 1
    assert document["verified"] is False
    assert document["paths"][str(moody)]["accuracy"] == {
        "model": "moody",
        "precision": "fp32",
        "examples": 1,
        "largest": 0.0,
        "tolerance": 0,
        "output": "Y",
        "environment_not_loaded": "",
        "status": "equal",
        "answers": "equal on 1 of your examples",
        "compared_examples": 1,
        "generated_examples": 0,
        "compared": {},
    }
    statuses = [document["paths"][str(path)]["status"] for path in (moody, tmp_path / "none")]
    assert statuses == ["equal", "failed"]
    assert document["paths"][str(tmp_path / "none")]["problems"][0]["rule"] == "no-build"


def test_a_model_that_answers_otherwise_than_its_source_differs(declarations, twice, on_path, capsys):
    folder = shutil.copytree(declarations, twice.parent / "declared")
    source = (folder / "twice" / "build.py").read_text()
    (folder / "twice" / "build.py").write_text(source.replace('inputs["X"] * 2', 'inputs["X"] * 3'))
    status, out = fleet(capsys, twice, "--models", folder)
    assert (status, out.splitlines()[-1]) == (1, f"{twice}: differs, 2 problems")


def test_another_form_of_a_network_is_found_by_its_own_name(declarations, tmp_path):
    folder = shutil.copytree(declarations, tmp_path / "models") / "twice"
    with (folder / "build.py").open("a") as file:
        file.write("import dataclasses\nFORMS = {'small': dataclasses.replace(BUILD, name='twice_small')}\n")
    root = tmp_path / "root"
    root.mkdir()
    (root / "build.json").write_text('{"model": "twice_small"}')
    assert declaration_of(root, folder.parent).name == "twice_small"
