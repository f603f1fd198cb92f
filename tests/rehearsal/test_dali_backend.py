"""The stand-in for Triton's dali backend: the pipelines that it runs, and its errors for the others."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.rehearsal.model_server import contract_of
from triton_models.client import decode, encode
from triton_models.declare.requires import missing
from triton_models.spec import models_folder
from triton_rehearsal.triton.contract import MultiModelContract

pytestmark = pytest.mark.story

CONFIG = """
name: "halves"
backend: "dali"
max_batch_size: 4
input {{ name: "X" data_type: TYPE_FP32 dims: [-1] }}
output {{ name: "Y" data_type: TYPE_FP32 dims: [-1] }}
{more}
instance_group {{ count: 1 kind: KIND_CPU }}
"""

needs_dali = pytest.mark.skipif(bool(missing(["nvidia.dali"])), reason="nvidia.dali is not installed")


@pytest.fixture(scope="module")
def contract(tmp_path_factory):
    """A server without models."""
    with contract_of(tmp_path_factory.mktemp("dali")) as contract:
        yield contract


@pytest.fixture
def model(tmp_path) -> Path:
    """A model directory without a model.dali, which each test writes."""
    (tmp_path / "halves" / "1").mkdir(parents=True)
    (tmp_path / "halves" / "config.pbtxt").write_text(CONFIG.format(more=""))
    return tmp_path / "halves"


def halves(*, device: str = "cpu", name: str = "X") -> bytes:
    """Return a serialized pipeline that halves its input."""
    from nvidia.dali import fn, pipeline_def, types

    @pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def pipeline():
        x = fn.external_source(name=name, device="cpu", dtype=types.FLOAT, ndim=1)
        return (x if device == "cpu" else x.gpu()) * 0.5

    return pipeline().serialize()


def load(contract: MultiModelContract, model: Path) -> tuple[str, str]:
    """Load a model. Returns its name on the server and the error."""
    name = f"{model.parent.name}"
    answer = contract.load(model_id=name, target_model=name, folder=str(model.parent))
    return name, "" if answer.ok else answer.text


@needs_dali
def test_a_pipeline_made_for_another_batch_runs_with_that_of_the_configuration(contract, model):
    import numpy as np

    (model / "1" / "model.dali").write_bytes(halves())
    name, error = load(contract, model)
    assert error == ""
    rows = np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]], dtype=np.float32)
    body, content_type = encode({"X": rows}, outputs=None, content="binary", where="a request")
    answer = contract.invoke(
        model_id=name, target_model=name, body=body, headers={"Content-Type": content_type}
    )
    np.testing.assert_array_equal(decode(answer.body, answer.headers["content-type"])["Y"], rows / 2)


def decoding() -> bytes:
    """Return a serialized pipeline that decodes images."""
    from nvidia.dali import fn, pipeline_def, types

    @pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def pipeline():
        encoded = fn.external_source(name="X", device="cpu", dtype=types.UINT8, ndim=1)
        return fn.resize(fn.decoders.image(encoded, device="cpu"), resize_x=8, resize_y=8)

    return pipeline().serialize()


JOINED = """
name: "halves"
backend: "dali"
max_batch_size: 4
input { name: "X" data_type: TYPE_UINT8 dims: [-1] allow_ragged_batch: true }
output { name: "Y" data_type: TYPE_UINT8 dims: [8, 8, 3] }
dynamic_batching { preferred_batch_size: [2] max_queue_delay_microseconds: 60000000 }
instance_group { count: 1 kind: KIND_CPU }
"""


@needs_dali
def test_files_of_two_lengths_are_decoded_together_and_one_that_is_none_fails_both(contract, model):
    import numpy as np

    (model / "config.pbtxt").write_text(JOINED)
    (model / "1" / "model.dali").write_bytes(decoding())
    name, _ = load(contract, model)

    def invoke(*files: bytes) -> list[Any]:
        def one(file: bytes) -> Any:
            row = np.frombuffer(file, np.uint8)[np.newaxis]
            body, content_type = encode({"X": row}, outputs=None, content="binary", where="a request")
            headers = {"Content-Type": content_type}
            return contract.invoke(model_id=name, target_model=name, body=body, headers=headers)

        with ThreadPoolExecutor() as pool:
            return list(pool.map(one, files))

    images = [
        (models_folder() / "dali_inception" / "images" / f"{each}.jpg").read_bytes()
        for each in ("landscape", "grey")
    ]
    landscape, grey = (decode(each.body, each.headers["content-type"])["Y"] for each in invoke(*images))
    assert landscape.std(axis=-1).max() > 0 == grey.std(axis=-1).max()
    assert [each.ok for each in invoke(images[0], b"no image")] == [False, False]
    assert [each.ok for each in invoke(*images)] == [True, True]


CODE = """
from nvidia.dali import fn, pipeline_def, types
from nvidia.dali.plugin.triton import autoserialize

@autoserialize
@pipeline_def(batch_size=3, num_threads=1, device_id={device})
def pipeline():
    return fn.external_source(name="X", device="cpu", dtype=types.FLOAT, ndim=1) * 0.5
"""


@needs_dali
@pytest.mark.parametrize(("file", "device"), [("dali.py", "None"), ("own.py", "0"), ("own.dali", "")])
def test_a_pipeline_in_a_python_file_is_serialized_first_and_another_name_is_configured(
    device, file, contract, model
):
    named = "" if file == "dali.py" else f'default_model_filename: "{file}"'
    (model / "config.pbtxt").write_text(CONFIG.format(more=named))
    (model / "1" / file).write_bytes(CODE.format(device=device).encode() if device else halves())
    assert load(contract, model)[1] == ""


@needs_dali
@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("other.dali", lambda: b"", "unable to find '"),
        ("dali.py", lambda: b"", "cannot be serialized: it has 0 functions"),
        ("model.dali", lambda: halves(device="gpu"), "this server has none. Build the model without a GPU"),
        ("model.dali", lambda: b"\x01X, and nothing that DALI could read", "DALI cannot load the pipeline"),
        ("model.dali", lambda: halves(name="OTHER"), "no input of the configuration's name: ['X']"),
    ],
    ids=["no file", "no function", "for a GPU", "no pipeline", "another input"],
)
def test_what_the_backend_cannot_run_is_refused_with_the_reason(file, content, words, contract, model):
    (model / "1" / file).write_bytes(content())
    assert words in load(contract, model)[1]


@needs_dali
def test_without_dali_the_error_says_what_to_install(model, tmp_path, monkeypatch):
    monkeypatch.setattr("triton_rehearsal.triton.backend_directory.missing", list)
    (model / "1" / "model.dali").write_bytes(halves())
    with contract_of(tmp_path) as contract:
        error = load(contract, model)[1]
    assert "python -m triton_models.builds.locked dali" in error
