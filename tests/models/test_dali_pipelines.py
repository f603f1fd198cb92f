"""Declaring and serializing a DALI pipeline: what is made of it, and what is wrong with it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from tests.reported import refused
from triton_models.artifact.pbtxt import read_config
from triton_models.builds.build import build
from triton_models.builds.export.dali import threads as threads_for
from triton_models.check.check import check_path
from triton_models.declare.requires import IMAGE_MODULES, missing
from triton_models.facts.dali import dali_version
from triton_models.facts.instances import gpu as gpu_named
from triton_models.facts.releases import release
from triton_models.spec import load_build

DECLARATION = """
from triton_models.spec import *

def pipeline(device):
    from nvidia.dali import fn, types

    encoded = fn.external_source(name="ENCODED", device="cpu", dtype=types.UINT8, ndim=1)
    return fn.decoders.image(encoded, device=device)

BUILD = ModelDefinition(
    name="images",
    description="made up",
    models=[
        DaliPipeline(
            name="images",
            pipeline=pipeline,
            inputs=[Tensor("ENCODED", "UINT8", [-1])],
            outputs=[Tensor("IMAGE", "UINT8", [-1, -1, 3])],
            max_batch_size=8,
        )
    ],
    examples=list,
    output="IMAGE",
    requires=["nvidia.dali"],
)
"""

needs_dali = pytest.mark.skipif(bool(missing(["nvidia.dali"])), reason="nvidia.dali is not installed")


@pytest.fixture
def images(models: Path) -> Path:
    """A declaration of one pipeline."""
    (models / "images").mkdir()
    path = models / "images" / "build.py"
    path.write_text(DECLARATION)
    return path


@pytest.fixture
def no_dali(monkeypatch: pytest.MonkeyPatch) -> None:
    """DALI is not installed."""
    real = importlib.util.find_spec

    def find(name: str, *package: str) -> object:
        if name.startswith("nvidia"):
            raise ModuleNotFoundError(name)
        return real(name, *package)

    monkeypatch.setattr(importlib.util, "find_spec", find)


@needs_dali
def test_a_pipeline_becomes_model_dali_with_its_tensors_and_threads(images, models, tmp_path):
    root = build("images", output=tmp_path, models=models)
    config = read_config(root / "images" / "config.pbtxt")
    assert (config.backend, config.max_batch_size) == ("dali", 8)
    assert [list(tensor.dims) for tensor in (*config.input, *config.output)] == [[-1], [-1, -1, 3]]
    assert config.parameters["num_threads"].string_value == "4"
    assert check_path(root) == []
    content = (root / "images" / "1" / "model.dali").read_bytes()
    for elsewhere in (b"_origin_stack_", b"build.py", b"\x05mixed"):
        assert elsewhere not in content


@needs_dali
@pytest.mark.parametrize("batching", ["None", "DynamicBatching()"])
def test_requests_are_joined_whatever_the_lengths_of_their_files(batching, images, models, tmp_path):
    images.write_text(DECLARATION.replace("max_batch_size=8,", f"max_batch_size=8, batching={batching},"))
    (given,) = read_config(build("images", output=tmp_path, models=models) / "images" / "config.pbtxt").input
    assert given.allow_ragged_batch is (batching != "None")


@pytest.mark.parametrize(("gpu", "threads"), [(None, 4), ("T4", 4), ("V100", 8), ("H100", 8)])
def test_threads_are_those_of_the_smallest_instance_with_the_gpu(gpu, threads):
    assert threads_for(gpu and gpu_named(gpu)) == threads


@needs_dali
def test_a_gpu_build_decodes_on_the_gpu(images, models, machine, tmp_path, monkeypatch):
    machine()
    monkeypatch.setattr("triton_models.facts.dali.VERSIONS", {"25.09": "99.0"})
    monkeypatch.setattr("triton_models.builds.export.dali._GPU", None)  # DALI looks for the GPU with this id
    root = build("images", output=tmp_path / "out", models=models, release="25.09", gpu="A10G")
    assert b"\x05mixed" in (root / "images" / "1" / "model.dali").read_bytes()


@needs_dali
@pytest.mark.parametrize(
    ("release", "version", "way"),
    [("25.09", "1.51.2", "the Triton image of 25.09"), ("24.03", "1.31", "build for release 24.05 or newer")],
)
def test_a_newer_dali_than_the_releases_builds_nothing_for_an_endpoint(
    release, version, way, *, images, models, tmp_path
):
    problem = refused(build, "images", output=tmp_path / "out", models=models, cpu=True, release=release)
    assert problem.rule == "dali-version"
    assert f"DALI {version}" in problem.fix
    assert way in problem.fix


@needs_dali
def test_the_images_own_dali_builds_whatever_the_table_says(images, models, tmp_path, monkeypatch):
    from nvidia import dali

    monkeypatch.setattr("triton_models.facts.dali.VERSIONS", {"25.09": "0.1"})
    monkeypatch.setattr(
        "triton_models.builds.export.dali.IMAGE_MODULES", {"nvidia.dali": Path(dali.__file__).parents[2]}
    )
    root = build("images", output=tmp_path / "out", models=models, cpu=True)
    assert (root / "images" / "1" / "model.dali").is_file()


@needs_dali
def test_an_input_that_the_pipeline_does_not_take_is_named(images, models, tmp_path):
    images.write_text(DECLARATION.replace('Tensor("ENCODED"', 'Tensor("INPUT"'))
    problem = refused(build, "images", output=tmp_path, models=models)
    assert problem.rule == "dali-input"
    assert "has no input 'INPUT'" in problem.what


@pytest.mark.parametrize(
    ("name", "version"), [("23.12", "1.31"), ("24.03", "1.31"), ("25.11", "1.51.2"), ("26.07", "2.1.1")]
)
def test_a_release_has_the_dali_of_its_branch_or_of_the_release_before(name, version):
    assert dali_version(release(name)) == version


def test_a_build_without_dali_says_what_to_install(images, models, tmp_path, no_dali):
    problem = refused(build, "images", output=tmp_path, models=models)
    assert problem.rule == "build-requires"
    assert problem.where == "model 'images': `requires` of the declaration"
    assert "python -m triton_models.builds.locked dali" in problem.fix
    assert list(tmp_path.glob("images*")) == []


def test_reading_a_declaration_needs_no_dali(images, models, no_dali):
    assert load_build("images", models).requires == ["nvidia.dali"]


def test_what_is_required_may_lie_in_the_image_alone(tmp_path, monkeypatch):
    (tmp_path / "only_in_the_image.py").touch()
    monkeypatch.setattr(
        "triton_models.declare.requires.IMAGE_MODULES", {**IMAGE_MODULES, "only_in_the_image": tmp_path}
    )
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert missing(["only_in_the_image"]) == []
    assert sys.path[-1] == str(tmp_path)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (("max_batch_size=8", "max_batch_size=0"), "max_batch_size 0"),
        (('outputs=[Tensor("IMAGE", "UINT8", [-1, -1, 3])]', "outputs=[]"), "1 inputs and 0 outputs"),
        (("max_batch_size=8,", "max_batch_size=8, backend=Dali(num_threads=0),"), "Dali.num_threads is 0"),
    ],
)
def test_a_mistake_in_a_pipelines_declaration_is_reported_with_its_line(change, what, images, models):
    images.write_text(DECLARATION.replace(*change))
    problem = refused(load_build, "images", models)
    assert what in problem.what
    assert problem.where.startswith(f"{images}:")
