"""Reading a declaration reports all of its mistakes, each with its line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from triton_models.artifact.pbtxt import data_types
from triton_models.base.errors import FleetError, Problem
from triton_models.builds.build import BuildOptions, run
from triton_models.declare.tensors import DATA_TYPES
from triton_models.spec import load_build, load_builds

SOUND = """
from triton_models.spec import *

TOKENS = DynamicDim(name="tokens", min=16, opt=128, max=256)

BUILD = ModelDefinition(
    name="text",
    description="made up",
    weights=HubWeights(id="owner/name", revision="0123456789abcdef0123456789abcdef01234567", file="net.pt"),
    models=[
        PythonModel(
            name="tokenizer",
            code="tokenizer.py",
            inputs=[Tensor("TEXT", "STRING", [1])],
            outputs=[Tensor("ids", "INT32", [TOKENS])],
            max_batch_size=8,
        ),
        PyTorchNetwork(
            name="encoder",
            network=print,
            inputs=[Tensor("ids", "INT32", [TOKENS])],
            outputs=["scores"],
            backend=TensorRt(precision="fp32", opt_batch=4),
            max_batch_size=8,
            batching=DynamicBatching(preferred=[4, 8]),
            warm_up=WarmUp(batch_sizes=[1, 8]),
        ),
        Ensemble(name="text", steps=["tokenizer", "encoder"]),
    ],
    examples=list,
    reference=dict,
    output="scores",
    tolerance=1e-4,
)
"""


@pytest.fixture
def read(models: Path):
    """Read the sound declaration with some of its text replaced, and return what is wrong with it."""

    def problems(*changes: tuple[str, str], text: str = SOUND) -> list[Problem]:
        for old, new in changes:
            assert old in text, old
            text = text.replace(old, new, 1)
        (models / "text").mkdir(exist_ok=True)
        (models / "text" / "build.py").write_text(text)
        (models / "text" / "tokenizer.py").touch()
        try:
            load_build("text", models)
        except FleetError as error:
            return list(error.problems)
        return []

    return problems


def line_of(text: str, within: str = SOUND) -> int:
    return within[: within.index(text)].count("\n") + 1


def test_a_sound_declaration_is_read_without_a_word(read):
    assert read() == []


# (what is replaced, by what, what the error says, the line's text or None if only the file is certain)
MISTAKES = [
    ("max_batch_size=8", 'max_batch_size="8"', "PythonModel.max_batch_size is '8'", "max_batch_size=8"),

    ('outputs=["scores"]', 'outputs="scores"', "outputs is 'scores'", 'outputs=["scores"]'),
    ('precision="fp32"', 'precision="fp7"', "precision is 'fp7'", "backend=TensorRt"),
    ("backend=TensorRt", "backend=PythonBackend() or TensorRt", "backend is Python", "backend="),
    ('"INT32", [TOKENS])],\n            outputs', '"INT31", [TOKENS])],\n            outputs', "INT31", None),
    ("preferred=[4, 8]", "preferred=[4, 16]", "a batch of 16", "batching=Dynamic"),
    ("batch_sizes=[1, 8]", "batch_sizes=[1, 9]", "a batch of 9", "warm_up=WarmUp"),
    ("opt_batch=4", "opt_batch=40", "opt_batch 40", "backend=TensorRt"),
    ("min=16", "min=200", "goes from 200 to 256, with opt 128", "max=256"),

    ("0123456789abcdef0123456789abcdef01234567", "v2", "the revision 'v2'", "weights=Hub"),
    ('"tokenizer", "encoder"]', '"tokeniser", "encoder"]', "has the step 'tokeniser'", "steps="),
    ('output="scores"', 'output="score"', "the output 'score'", 'output="scores"'),
    ('Ensemble(name="text"', 'Ensemble(name="all"', "no model is called 'text'", "models=["),
    ('name="encoder"', 'name="en coder"', "the model's name 'en coder'", 'name="encoder"'),
    ("tolerance=1e-4", 'tolerance={"fp16": 1}', "no tolerance for fp32", "tolerance="),
    ('code="tok', 'weights_files=["a"], code="tok', "takes a from the weights", "weights=Hub"),
    ("tolerance=1e-4", "tolerance=-1", "the tolerance -1", "tolerance="),
    ("tolerance=1e-4,", "tolerance=1e-4, trial=Trial(share=1.0),", "a share of 1.0", "tolerance="),
    ('code="tokenizer.py"', 'code="tokenise.py"', "no file 'tokenise.py'", "code="),
    ('"INT32", [TOKENS])],', '"INT64", [7])],', "TYPE_INT64 [7] and TYPE_INT32 [-1]", "steps="),
]  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES, ids=[each[1][:30] for each in MISTAKES])
def test_a_mistake_is_named_with_its_line(mistake, read, models):
    old, new, said, line = mistake
    problems = read((old, new))
    assert [said in problem.what for problem in problems].count(True) == 1, problems
    found = next(problem for problem in problems if said in problem.what)
    if line is not None:
        assert found.where == f"{models / 'text' / 'build.py'}:{line_of(line)}"
    assert found.where.startswith(str(models / "text" / "build.py"))


@pytest.mark.parametrize(
    ("of_the_tensor", "said"),
    [
        (
            ('"INT32", [TOKENS])],\n            outputs', '"INT31", [TOKENS])],\n            outputs'),
            "'INT31'",
        ),
        (
            ('"INT32", [TOKENS])],\n            outputs', "5, [TOKENS])],\n            outputs"),
            "Tensor.data_type is 5",
        ),
    ],
)
def test_a_wrong_tensor_hides_no_mistake_of_what_holds_it(of_the_tensor, said, read):
    problems = read(
        of_the_tensor, ("max_batch_size=8", "max_batch_size=-1"), ("tolerance=1e-4", "tolerance=-1")
    )

    for what in (said, "max_batch_size -1", "the tolerance -1"):
        assert [what in problem.what for problem in problems].count(True) == 1, problems


def test_all_mistakes_are_reported_at_once(read):
    wrong = ("preferred=[4, 8]", "preferred=8"), ("min=16", 'min="16"'), ('"owner/name"', "7")
    more = "max_batch_size=8,", "max_batch_size=8, instances=Instances(gpu_memory_mb=0.5),"
    assert sorted(problem.what for problem in read(*wrong, more)) == [
        "DynamicBatching.preferred is 8 (int)",
        "DynamicDim.min is '16' (str)",
        "HubWeights.id is 7 (int)",
        "Instances.gpu_memory_mb is 0.5 (float)",
    ]


def test_one_mistake_in_two_places_is_reported_of_both(read, models):
    problems = read(("max_batch_size=8", "max_batch_size=-8"), ("max_batch_size=8", "max_batch_size=-8"))
    first = line_of("max_batch_size=8")
    second = first + line_of("max_batch_size=8", SOUND[SOUND.index("max_batch_size=8") + 5 :]) - 1
    path = models / "text" / "build.py"
    places = [problem.where for problem in problems if problem.what.startswith("max_batch_size -8")]
    assert places == [f"{path}:{first}", f"{path}:{second}"]


def test_arguments_that_no_class_has_are_reported_at_once_with_a_guess(read, models):
    problems = read(("opt_batch=4", "optbatch=4"), ("preferred=", "prefered="), ("min=16", 'min="16"'))
    found = {problem.what: (problem.where, problem.fix) for problem in problems}
    path = models / "text" / "build.py"
    assert found == {
        "TensorRt has no 'optbatch'": (f"{path}:{line_of('opt_batch')}", "did you mean opt_batch?"),
        "DynamicBatching has no 'prefered'": (f"{path}:{line_of('preferred')}", "did you mean preferred?"),
        "DynamicDim.min is '16' (str)": (f"{path}:{line_of('min=16')}", "write the number without quotes"),
    }


def test_a_missing_argument_is_named(read, models):
    problems = read(("            code=", "            files=[], # code="))
    (problem,) = problems
    assert problem.what == "PythonModel lacks code"
    assert problem.where == f"{models / 'text' / 'build.py'}:{line_of('PythonModel(')}"


def test_wrong_weights_are_refused_by_their_form(read):
    address = SOUND[SOUND.index("HubWeights") : SOUND.index(",\n    models")]
    assert read((address, 'S3Weights(url="s3://bucket/folder/weights.pt")')) == []
    assert read((address, 'S3Weights(url="https://bucket/weights.pt")'))[0].what.startswith("the S3 address")
    assert "3 to 63" in read((address, 'S3Weights(url="s3://b/resnet.pt")'))[0].fix


def test_an_import_of_a_file_that_is_not_there_is_answered_with_the_file(read):
    (problem,) = read(("TOKENS =", "from .nets import mpl\nTOKENS ="))
    assert "nets.py" in problem.fix


def test_reading_a_wrong_declaration_imports_no_framework_either(read):
    before = set(sys.modules)
    read(("min=16", "min=200"))
    assert not {"torch", "onnx"} & (set(sys.modules) - before)


def test_several_declarations_are_read_together_and_blamed_together(declare, models):
    declare("one", declaration="BUILD = 1")
    declare("two")
    declare("three", declaration="BUILD = 3")
    with pytest.raises(FleetError) as caught:
        load_builds(["one", "two", "three"], models)
    assert [problem.what for problem in caught.value.problems] == ["BUILD is 1", "BUILD is 3"]
    assert [build.name for build in load_builds(["two"], models)] == ["two"]


def test_a_wrong_declaration_is_reported_before_any_model_is_built(declare, models, tmp_path):
    declare("good")
    declare("wrong", declaration="BUILD = 1")
    options = BuildOptions(names=["good", "wrong"], output=tmp_path / "out", models=models)
    with pytest.raises(FleetError, match="BUILD is 1"):
        run(options)
    assert not (tmp_path / "out").exists()


def test_models_may_have_a_dot_in_their_names_and_files_of_one_name_beside_their_declarations(
    declare, models
):
    for name in ("v1.2", "v1.3"):
        path = declare(name)
        path.write_text("from .network import NAME  # noqa\n" + path.read_text().replace('"made up"', "NAME"))
    for name, description in (("v1.2", "one"), ("v1.3", "other"), ("v1.2", "one, changed")):
        (models / name / "network.py").write_text(f"NAME = {description!r}\n")
        assert load_build(name, models).description == description


def test_the_data_types_of_a_declaration_are_those_of_nvidias_schema():
    assert {f"TYPE_{name}" for name in DATA_TYPES} == set(data_types())


@pytest.mark.parametrize(("name", "other"), [("OpenVino", "OnnxRuntime()"), ("AotInductor", "TensorRt()")])
def test_an_import_of_a_removed_name_says_what_to_use(name, other, read):
    (problem,) = read(("import *", f"import *\nfrom triton_models.spec import {name}"))
    assert f"{name} was removed from triton_models.spec: use " in problem.what
    assert other in problem.what
    assert problem.where.endswith("build.py:3")
