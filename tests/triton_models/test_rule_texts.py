"""A problem names the mistake that was made, and its way out is one: taken, the rule is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.triton_models.correct_artifacts import (
    BERT,
    DIALOGUE,
    MERGED_BERT,
    MINILM,
    OWN_SERVER,
    REPOSITORY,
    RESNET50,
)
from tests.triton_models.model_folders import Edit
from tests.triton_models.rule_case import Case, Correct, Server, Spoil
from tests.triton_models.spoils import (
    both,
    built_for,
    edited,
    listing_twice,
    moved,
    said,
    stepped,
    without,
    written,
)
from triton_models.base.errors import Problem
from triton_models.facts.instances import GPUS
from triton_models.facts.releases import RELEASES

SEVERAL_OF_ONE_NAME = "1 of 2 inputs, because several inputs of the model have one name"


def problem_of(tmp_path: Path, correct: Correct, spoil: Spoil, **elsewhere: str | None) -> Problem:
    """The one problem with an artifact that was spoilt."""
    root = tmp_path / correct.name
    correct.write(root)
    (problem,) = Case("", "", correct, spoil, elsewhere=elsewhere).problems(root)
    return problem


def run_by(number: int, name: str) -> Spoil:
    """A step of the ensemble `minilm` runs another model."""
    return stepped(number, lambda step: setattr(step, "model_name", name))


# The configuration


def test_an_input_that_is_listed_twice_is_no_mistake_of_the_warm_up(tmp_path: Path) -> None:
    problem = problem_of(tmp_path, RESNET50, listing_twice("resnet50", "input"))

    assert (problem.rule, problem.what) == ("tensor-twice", "2 inputs called 'image'")


def test_a_server_of_ones_own_minds_it_only_in_the_warm_up_which_says_so(tmp_path: Path) -> None:
    problem = problem_of(tmp_path, RESNET50.on(OWN_SERVER), listing_twice("resnet50", "input"))

    assert (problem.rule, problem.what) == ("warm-up", SEVERAL_OF_ONE_NAME)
    assert problem.fix == "list each input of the model once"


def test_a_warm_up_names_the_inputs_that_it_lacks(tmp_path: Path) -> None:
    problem = problem_of(tmp_path, RESNET50, said("resnet50", "optional: true", "optional: false"))

    assert (problem.rule, problem.what) == ("warm-up", "it lacks the inputs 'mean'")


def test_an_unknown_platform_is_to_be_left_out(tmp_path: Path) -> None:
    spoil = said("resnet50", "backend:", "platform:")
    problem = problem_of(tmp_path, RESNET50, spoil)

    assert problem.what == "platform 'onnxruntime' tells no backend"
    assert "files" not in problem.why
    assert problem.fix == 'leave platform out, and write backend: "onnxruntime"'

    fixed = said("resnet50", "platform:", "backend:")
    assert RESNET50.server.problems(spoilt(tmp_path / "fixed", RESNET50, both(spoil, fixed))) == []


@pytest.mark.parametrize(
    ("platform", "fix"),
    [
        ("keras", "leave platform out, and name the backend"),
        ("onnx", "did you mean onnxruntime_onnx?"),
        ("tensorrt_plna", "did you mean tensorrt_plan?"),
    ],
)
def test_a_platform_that_is_called_like_no_backend_is_answered(
    platform: str, fix: str, tmp_path: Path
) -> None:
    spoil = said("resnet50", 'backend: "onnxruntime"', f'platform: "{platform}"')

    assert problem_of(tmp_path, RESNET50, spoil).fix == fix


def test_only_without_a_platform_and_a_files_name_triton_looks_at_the_files(tmp_path: Path) -> None:
    named = said("resnet50", 'backend: "onnxruntime"', 'default_model_filename: "weights.bin"')
    neither = both(
        said("resnet50", 'backend: "onnxruntime"', ""),
        moved("resnet50/1/model.onnx", "resnet50/1/weights.bin"),
    )

    assert "'weights.bin' in default_model_filename" in problem_of(tmp_path / "named", RESNET50, named).why
    assert "from the files in the version folder" in problem_of(tmp_path / "neither", RESNET50, neither).why


@pytest.mark.parametrize(
    ("right", "wrong", "what"),
    [
        ("[ 3, 224, 224 ]", "[ 3, 50176 ]", "input 'image' has format FORMAT_NCHW and 2 dims, [3, 50176]"),
        (
            "format: FORMAT_NCHW dims: [ 3, 224, 224 ]",
            "format: FORMAT_NHWC dims: [ 224 ]",
            "input 'image' has format FORMAT_NHWC and 1 dims, [224]",
        ),
    ],
)
def test_a_format_is_named_with_its_dims(right: str, wrong: str, what: str, tmp_path: Path) -> None:
    problem = problem_of(tmp_path, RESNET50, both(said("resnet50", right, wrong), without_warm_up))

    assert (problem.rule, problem.what) == ("tensor-format", what)
    assert problem.fix == "write all three sizes, or leave format out"


def test_a_memory_layout_is_named_with_its_dims(tmp_path: Path) -> None:
    problem = problem_of(tmp_path, BERT, non_linear)

    assert problem.what == "output 'hidden' has is_non_linear_format_io and 2 dims, [-1, 384]"
    assert problem.fix == "write all three sizes, or leave is_non_linear_format_io out"


def test_a_shape_tensor_of_an_ensemble_is_one_of_no_backend(tmp_path: Path) -> None:
    of_ensemble = edited("minilm", lambda it: setattr(it.input[0], "is_shape_tensor", True))
    of_model = edited("resnet50", lambda it: setattr(it.input[0], "is_shape_tensor", True))

    assert problem_of(tmp_path, MINILM, of_ensemble).what == "is_shape_tensor in an ensemble"
    assert problem_of(tmp_path, RESNET50, of_model).what == "is_shape_tensor in a model of 'onnxruntime'"


def test_an_unknown_kind_of_a_batch_input_is_named(tmp_path: Path) -> None:
    problem = problem_of(tmp_path, RESNET50, said("resnet50", "BATCH_ITEM_SHAPE", "9"))

    assert problem.what == "a batch_input of the unknown kind 9"
    assert problem.where.endswith("batch_input 0: kind")
    assert problem.expected.startswith("one of BATCH_ELEMENT_COUNT, ")


def test_an_unknown_kind_of_a_batch_output_is_named(tmp_path: Path) -> None:
    problem = problem_of(
        tmp_path,
        RESNET50,
        edited(
            "resnet50",
            lambda it: it.batch_output.add(kind=9, target_name=["scores"], source_input=["image"]),
        ),
    )

    assert problem.what == "a batch_output of the unknown kind 9"
    assert problem.where.endswith("batch_output 0: kind")
    assert problem.expected == "one of BATCH_SCATTER_WITH_INPUT_SHAPE"


def test_the_number_of_inputs_of_a_batch_input_is_no_matter_of_its_kind(tmp_path: Path) -> None:
    problem = problem_of(tmp_path, RESNET50, said("resnet50", 'source_input: "image"', ""))

    assert problem.what == "a batch_input with 0 source_input"
    assert problem.expected == "one source_input"


@pytest.mark.parametrize(
    ("values", "what", "fix"),
    [
        (
            "fp32_false_true: [ 1 ]",
            "CONTROL_SEQUENCE_START with 1 value of fp32_false_true: [1.0]",
            "write two values, such as fp32_false_true: [ 0, 1 ]",
        ),
        (
            "int32_false_true: [ 0, 1, 2 ]",
            "CONTROL_SEQUENCE_START with 3 values of int32_false_true: [0, 1, 2]",
            "write two values, such as int32_false_true: [ 0, 1 ]",
        ),
        ("", "CONTROL_SEQUENCE_START with no values", "write a line such as fp32_false_true: [ 0, 1 ]"),
        (
            "int32_false_true: [ 0, 1 ] fp32_false_true: [ 0, 1 ]",
            "CONTROL_SEQUENCE_START with int32_false_true and fp32_false_true",
            "write a line such as fp32_false_true: [ 0, 1 ]",
        ),
    ],
)
def test_a_control_says_how_many_values_it_has(values: str, what: str, fix: str, tmp_path: Path) -> None:
    problem = problem_of(tmp_path, DIALOGUE, said("dialogue", "fp32_false_true: [ 0, 1 ]", values))

    assert (problem.what, problem.fix) == (what, fix)


@pytest.mark.parametrize(
    ("name", "value", "fix"),
    [
        ("intra_op_thread_count", "four", 'write a number, in digits, such as value: { string_value: "4" }'),
        ("execution_mode", "parallel", 'write 0 or 1, such as value: { string_value: "1" }'),
        ("enable_mem_arena", "yes", 'write true or false, such as value: { string_value: "true" }'),
    ],
)
def test_a_parameter_that_is_in_quotes_already_is_answered_with_a_value(
    name: str, value: str, fix: str, tmp_path: Path
) -> None:
    problem = problem_of(
        tmp_path, RESNET50, edited("resnet50", lambda it: setattr(it.parameters[name], "string_value", value))
    )

    assert (problem.what, problem.fix) == (f"{name} is {value!r}", fix)


# Ensembles


def test_an_ensemble_that_runs_itself_is_reported_so(tmp_path: Path) -> None:
    problem = problem_of(tmp_path, MINILM, run_by(2, "minilm"))

    assert problem.what == "the ensemble 'minilm' runs itself"
    assert problem.expected == "the name of a composing model"
    assert problem.fix == "did you mean minilm_pooling?"


def test_a_model_that_another_step_runs_is_not_proposed(tmp_path: Path) -> None:
    missing = both(run_by(1, "minilm_tokeniser"), without("minilm_encoder"))

    assert problem_of(tmp_path, MINILM, missing).fix == "add the model, or remove the step"


def test_a_model_that_no_step_runs_is_proposed(tmp_path: Path) -> None:
    assert problem_of(tmp_path, MINILM, run_by(1, "minilm_encodr")).fix == "did you mean minilm_encoder?"


# Files


def test_without_a_configuration_it_is_said_what_goes_wrong(tmp_path: Path) -> None:
    problem = problem_of(tmp_path, RESNET50, without("resnet50/config.pbtxt"))

    assert "ten times faster" not in problem.why
    assert problem.why.startswith("Triton refuses the model")


@pytest.mark.parametrize(("folder", "renamed"), [("01", "1"), ("007", "7"), ("00", "0")])
def test_a_version_with_zeros_in_front_is_to_be_renamed(folder: str, renamed: str, tmp_path: Path) -> None:
    spoil = moved("dialogue/1", f"dialogue/{folder}")
    problem = problem_of(tmp_path, DIALOGUE, spoil)

    assert problem.fix == f"rename {folder}/ to {renamed}/: Triton takes no leading zero"

    fixed = moved(f"dialogue/{folder}", f"dialogue/{renamed}")
    assert DIALOGUE.server.problems(spoilt(tmp_path / "fixed", DIALOGUE, both(spoil, fixed))) == []


def test_a_version_that_the_policy_leaves_out_need_not_be_made_again(tmp_path: Path) -> None:
    spoil = edited("resnet50", lambda it: it.version_policy.specific.versions.append(2))

    problem = problem_of(tmp_path, RESNET50, spoil)
    assert problem.expected == "a policy that makes one of 1 available"
    assert problem.fix == "leave version_policy out, or let it name a version that is there"


def test_the_largest_version_is_the_largest_that_a_server_can_count_to(tmp_path: Path) -> None:
    largest = written(f"resnet50/{2**63 - 1}/model.onnx", b"weights")
    problem = problem_of(tmp_path, RESNET50, written(f"resnet50/{2**63}/model.onnx"))

    assert "2^63 - 1" in problem.why
    assert "64 bits" not in problem.why
    assert RESNET50.server.problems(spoilt(tmp_path / "largest", RESNET50, largest)) == []


@pytest.mark.parametrize("name", ["../labels.txt", "../../labels.txt"])
def test_labels_outside_that_are_not_there_are_one_mistake(name: str, tmp_path: Path) -> None:
    outside = said("resnet50", '"labels.txt"', f'"{name}"')

    assert problem_of(tmp_path / "new", RESNET50.on(Server(release="26.05")), outside).rule == "label-outside"


def test_an_older_release_takes_labels_outside_that_are_there(tmp_path: Path) -> None:
    outside = both(said("resnet50", '"labels.txt"', '"../labels.txt"'), written("labels.txt", b"cat\n"))
    root = spoilt(tmp_path, RESNET50, outside)

    assert Server(release="25.09").problems(root) == []
    assert [found.rule for found in Server(release="26.05").problems(root)] == ["label-outside"]


# The release and the GPU


def test_a_plan_for_a_gpu_that_was_dropped_is_to_be_compiled_again(tmp_path: Path) -> None:
    problem = problem_of(tmp_path, REPOSITORY, lambda root: None, gpu="V100")

    assert problem.rule == "gpu-removed"
    assert "compile the plan again" in problem.fix
    assert "with release 24.09" in problem.fix


def test_every_gpu_has_a_release_that_supports_it() -> None:
    oldest = min(_number(release.min_compute_capability) for release in RELEASES.values())

    assert [gpu.name for gpu in GPUS.values() if _number(gpu.compute_capability) < oldest] == []


def test_an_unknown_release_in_a_record_is_reported_with_the_known_ones(
    tmp_path: Path,
) -> None:
    problem = problem_of(tmp_path, BERT, built_for(release="25.99"), release=None)

    assert (problem.rule, problem.what) == ("build-record", "unknown Triton release '25.99'")
    assert problem.where.endswith("build.json: release")
    assert problem.expected == f"one of {', '.join(RELEASES)}"
    assert problem.fix.startswith("did you mean 25.09")
    assert "--release" in problem.fix


def test_an_unknown_gpu_in_a_record_is_reported_with_the_known_ones(tmp_path: Path) -> None:
    problem = problem_of(tmp_path, BERT, built_for(gpu="QUANTUM"), gpu=None)

    assert (problem.rule, problem.what) == ("build-record", "unknown GPU 'QUANTUM'")
    assert problem.where.endswith("build.json: gpu")
    assert problem.expected == f"one of {', '.join(GPUS)}"
    assert problem.fix == "if newer tools built it, update these, or check it for another one with --gpu"


def test_a_record_of_newer_tools_may_be_checked_for_what_is_known(tmp_path: Path) -> None:
    newer = built_for(release="99.01", gpu="Z9", plans={"bert/1/model.plan": {"gpu": "A10G"}})
    root = spoilt(tmp_path, BERT, newer)

    assert Server(release="25.09", gpu="A10G").problems(root) == []
    assert [found.what for found in Server(release=None, gpu=None).problems(root)] == [
        "unknown Triton release '99.01'",
        "unknown GPU 'Z9'",
    ]


def test_a_record_of_several_gpus_leaves_the_gpu_open(tmp_path: Path) -> None:
    root = spoilt(tmp_path, MERGED_BERT, built_for(gpu=["A10G", "Z9"]))

    assert Server(gpu=None).problems(root) == []


def test_a_record_that_does_not_say_a_release_or_a_gpu_is_none_that_is_unknown(tmp_path: Path) -> None:
    root = spoilt(tmp_path, RESNET50, written("build.json", b'{"model": "resnet50", "gpu": null}'))

    assert Server(release=None, gpu=None).problems(root) == []


def spoilt(folder: Path, correct: Correct, spoil: Spoil) -> Path:
    """Where an artifact is that was spoilt."""
    root = folder / correct.name
    correct.write(root)
    return spoil(root) or root


def without_warm_up(root: Path) -> None:
    """Nothing is said about the input again."""
    with Edit(root / "resnet50") as config:
        config.ClearField("model_warmup")


def non_linear(root: Path) -> None:
    """The output of `bert` has a special memory layout."""
    with Edit(root / "bert") as config:
        config.output[0].is_non_linear_format_io = True


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
