"""One artifact for several GPU models, of one root for each."""

import json
import shutil

import pytest
from gpu_machine import plan
from shared_builds import WRITES
from test_tensorrt import encoder

from triton_models.base.errors import FleetError
from triton_models.builds.build import build
from triton_models.builds.merge import merge
from triton_models.check.check import check_path
from triton_models.check.target import target
from triton_models.cli.main import main
from triton_models.config.pbtxt import read_config
from triton_models.pack.pack import pack

CONFIG = """
from triton_models.config.pbtxt import plain, tensor
version = job.model(plain(
    name="tiny", backend="tensorrt", max_batch_size=32,
    inputs=[tensor("ids", "INT32", [-1]), tensor("mask", "INT32", [-1])],
    outputs=[tensor("sum", "INT32", [-1])],
))
"""
SHOWN = {"A10G": "NVIDIA A10G", "L4": "NVIDIA L4", "L40S": "NVIDIA L40S", "T4": "Tesla T4"}


@pytest.fixture
def build_for(machine, declare, models, tmp_path):
    """Build the model `tiny`, a plan and a Python file, for a GPU model; returns its root."""

    def make(gpu, *, folder=None, comment="", release="25.09"):
        machine(gpus=(SHOWN[gpu],))
        labels = f"(version / 'labels.txt').write_text('{comment}')"
        declare("tiny", f"{CONFIG}{encoder()}{labels}", declaration=WRITES.replace('"Y"', '"sum"'))
        root = build("tiny", output=tmp_path / (folder or gpu), models=models, gpu=gpu, release=release)
        (root / "tiny" / "1" / "model.plan").write_bytes(plan(10, 13, 3, 9) + gpu.encode())
        return root

    return make


@pytest.fixture
def merged(build_for, tmp_path):
    return merge([build_for("L4"), build_for("A10G")], output=tmp_path / "merged")


def rules(paths, tmp_path):
    with pytest.raises(FleetError) as caught:
        merge(paths, output=tmp_path / "merged")
    assert not (tmp_path / "merged").exists()
    return [problem.rule for problem in caught.value.problems], str(caught.value)


def test_a_merged_root_has_the_plan_of_each_gpu_and_says_which_is_whose(merged):
    version = merged / "tiny" / "1"
    assert (version / "model-A10G.plan").read_bytes().endswith(b"A10G")
    assert (version / "model-L4.plan").read_bytes().endswith(b"L4")
    assert not (version / "model.plan").exists()
    config = read_config(merged / "tiny" / "config.pbtxt")
    assert dict(config.cc_model_filenames) == {"8.6": "model-A10G.plan", "8.9": "model-L4.plan"}


def test_a_merged_build_json_records_a_plan_for_each_gpu(merged):
    record = json.loads((merged / "build.json").read_text())
    assert record["gpu"] == ["A10G", "L4"]
    assert {path: (plan["gpu"], plan["device"]) for path, plan in record["plans"].items()} == {
        "tiny/1/model-A10G.plan": ("A10G", "NVIDIA A10G"),
        "tiny/1/model-L4.plan": ("L4", "NVIDIA L4"),
    }


def test_what_is_alike_is_there_once(merged):
    assert sorted(path.name for path in (merged / "tiny" / "1").iterdir()) == [
        "labels.txt",
        "model-A10G.plan",
        "model-L4.plan",
    ]


def test_the_order_of_the_roots_changes_nothing(merged, tmp_path):
    other = merge([tmp_path / "A10G" / "tiny", tmp_path / "L4" / "tiny"], output=tmp_path / "again")
    assert pack(other, output=tmp_path).digest == pack(merged, output=tmp_path).digest


def test_packed_artifacts_are_merged_as_well(merged, tmp_path):
    packed = [pack(tmp_path / gpu / "tiny", output=tmp_path / "dist").path for gpu in ("A10G", "L4")]
    other = merge(packed, output=tmp_path / "again")
    assert pack(other, output=tmp_path).digest == pack(merged, output=tmp_path).digest


def test_a_merged_root_is_accepted_for_either_gpu_and_without_one(merged):
    assert check_path(merged) == []
    for gpu in ("A10G", "L4"):
        assert check_path(merged, target=target(release="25.09", gpu=gpu, endpoint="multi-model")) == []


@pytest.mark.parametrize(("gpu", "rule"), [("T4", "plan-missing"), ("L40S", "plan-gpu")])
def test_a_merged_root_is_refused_for_any_other_gpu(gpu, rule, merged):
    problems = check_path(merged, target=target(gpu=gpu, endpoint="multi-model"))
    assert [problem.rule for problem in problems] == [rule]


def test_a_plan_in_the_place_of_another_gpus_is_found(merged):
    config = merged / "tiny" / "config.pbtxt"
    config.write_text(config.read_text().replace("model-L4.plan", "model-A10G.plan"))
    problems = check_path(merged, target=target(gpu="L4", endpoint="multi-model"))
    assert [(problem.rule, problem.what) for problem in problems] == [("plan-gpu", "a plan compiled on A10G")]


def test_gpus_of_one_compute_capability_cannot_be_told_apart(build_for, tmp_path):
    found, text = rules([build_for("L4"), build_for("L40S")], tmp_path)
    assert found == ["merge-gpu"]
    assert "L4 and L40S both have compute capability 8.9" in text


def test_two_roots_for_one_gpu_are_refused(build_for, tmp_path):
    roots = [build_for("A10G"), build_for("A10G", folder="again")]
    assert rules(roots, tmp_path)[0] == ["merge-gpu"]


def test_a_file_that_differs_is_named(build_for, tmp_path):
    found, text = rules([build_for("L4"), build_for("A10G", comment="new")], tmp_path)
    assert found == ["merge-difference"]
    assert "tiny/1/labels.txt differs" in text


def test_a_file_that_only_one_has_is_named(build_for, tmp_path):
    roots = [build_for("L4"), build_for("A10G")]
    (roots[1] / "tiny" / "1" / "more.txt").touch()
    assert "tiny/1/more.txt is in only one of them" in rules(roots, tmp_path)[1]


def test_another_model_release_and_source_are_all_named(build_for, tmp_path):
    roots = [build_for("L4"), build_for("A10G")]
    record = json.loads((roots[1] / "build.json").read_text())
    record.update(model="other", release="25.04", sources={"weights": "new"})
    (roots[1] / "build.json").write_text(json.dumps(record))
    found, text = rules(roots, tmp_path)
    assert found == ["merge-difference"] * 3
    assert all(f"{field}: " in text for field in ("model", "release", "sources"))


def test_a_portable_root_has_nothing_to_merge(build_for, models, tmp_path):
    root = build_for("L4")
    portable = build("tiny", output=tmp_path / "portable", models=models)
    found, text = rules([root, portable], tmp_path)
    assert found == ["merge-roots"]
    assert str(portable) in text


def test_a_merged_root_is_not_merged_again(merged, build_for, tmp_path):
    with pytest.raises(FleetError, match="plans for A10G, L4"):
        merge([merged, build_for("T4")], output=tmp_path / "again")


def test_a_single_root_is_refused(build_for, tmp_path):
    assert rules([build_for("L4")], tmp_path)[0] == ["merge-roots"]


def test_a_failed_merge_keeps_the_earlier_one(merged, build_for, tmp_path):
    before = pack(merged, output=tmp_path).digest
    shutil.rmtree(tmp_path / "L4")
    with pytest.raises(FleetError):
        merge([tmp_path / "L4" / "tiny", tmp_path / "A10G" / "tiny"], output=tmp_path / "merged")
    assert pack(merged, output=tmp_path).digest == before


def test_the_command_prints_the_merged_root(build_for, tmp_path, capsys):
    roots = [str(build_for("L4")), str(build_for("A10G"))]
    assert main(["merge", *roots, "-o", str(tmp_path / "merged")]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'merged' / 'tiny'}\n"
