"""Deliveries publish only models that a real Triton server has verified."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.triton_models.declared_models import CODE, declare
from tests.triton_models.publishing_aws import client, consistent_manifest, new_repository, small_aws
from triton_models.artifact.profile import LIKELY, MIB
from triton_models.deliver.deliver import DeliverOptions, deliver
from triton_models.deliver.results import ModelResult
from triton_models.repository.manifest import Manifest
from triton_rehearsal.triton import command

pytestmark = pytest.mark.story

CRASHES_WHEN_LOADED = (
    "import os\n\nos._exit(1)\n\nclass TritonPythonModel:\n    def execute(self, requests): ...\n"
)


class Delivered:
    """A run of models that answer rightly, wrongly, and not at all."""

    def __init__(self, folder: Path) -> None:
        models = folder / "models"
        declare(models, "right-1")
        declare(models, "wrong", factor=3)
        declare(models, "crashing", code=CRASHES_WHEN_LOADED)
        declare(models, "right-2")
        triples, reads = "import numpy; numpy.factor = 3", "getattr(sys.modules['numpy'], 'factor', 2)"
        declare(models, "patching", body=triples, factor=reads, code=CODE.replace("* 2", "* 3"))
        with small_aws() as url:
            s3 = client(url)
            repository = new_repository(s3)
            names = ["right-1", "wrong", "patching", "crashing", "right-2"]
            options = DeliverOptions(names=names, repository=repository, models=models, logs=folder / "logs")
            results = deliver(options, s3=s3)
            self.manifest: Manifest = consistent_manifest(repository, s3)
        self.of: dict[str, ModelResult] = {result.model: result for result in results.results}


@pytest.fixture(scope="module")
def delivered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Delivered]:
    folder = tmp_path_factory.mktemp("delivered")
    with pytest.MonkeyPatch.context() as monkeypatch:
        (folder / "gpu").mkdir()
        (folder / "gpu" / "nvidia-smi").write_text(
            '#!/bin/sh\ncase "$1" in *memory*) echo 500 MiB;; *) echo Tesla T4, 535;; esac\n'
        )
        (folder / "gpu" / "nvidia-smi").chmod(0o755)
        path = f"{command.install(folder / 'bin')}:{folder / 'gpu'}:{os.environ['PATH']}"
        monkeypatch.setenv("PATH", path)
        yield Delivered(folder)


def test_only_models_that_answer_as_their_source_does_are_published(delivered):
    assert sorted(delivered.manifest.models) == ["right-1", "right-2"]


def test_what_a_model_took_of_the_gpu_is_in_the_manifest(delivered):
    [artifact] = delivered.manifest.models["right-1"].artifacts.values()
    assert artifact.profile.memory.source == "measured on Tesla T4, driver 535, Triton 2.51.0"
    assert artifact.profile.host.values[LIKELY] > 10 * MIB


def test_the_result_and_the_manifest_say_what_was_compared(delivered):
    result = delivered.of["right-1"]
    assert (result.proof, result.answers) == ("equal", "equal on 1 of your examples")
    [artifact] = delivered.manifest.models["right-1"].artifacts.values()
    assert (artifact.examples, artifact.evidence.words()) == (1, "equal on 1 of your examples")


def test_an_answer_outside_tolerance_is_reported_with_the_step_and_the_numbers(delivered):
    result = delivered.of["wrong"]
    assert (result.status, result.step) == ("failed", "verify")
    assert "outside the tolerance" in result.reason


def test_a_reference_does_not_see_what_the_build_patched(delivered):
    result = delivered.of["patching"]
    assert (result.status, result.step) == ("failed", "verify")
    assert "outside the tolerance" in result.reason


def test_a_model_that_triton_does_not_load_is_reported_and_stops_no_other(delivered):
    result = delivered.of["crashing"]
    assert (result.status, result.step) == ("failed", "verify")
    assert "does not load" in result.reason
