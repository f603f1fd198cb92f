"""Encoded images in, 1001 probabilities out: DALI and Inception v3 on the real Triton server."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from buildable import lacking
from one_server import ask, serving
from shared_builds import BuiltModel

from triton_models.artifact.pack.pack import pack
from triton_models.artifact.pbtxt import read_config
from triton_models.base.errors import FleetError
from triton_models.builds.build import build
from triton_models.builds.export.dali import run_pipeline
from triton_models.check.check import check_path
from triton_models.spec import ModelDefinition, load_build, models_folder
from triton_rehearsal.hosting.model_data import unpack
from triton_rehearsal.triton.contract import MultiModelContract

NAME = "dali_inception"
SIZE = 299

# What Pillow 13.0.0 makes of the images of the examples, with its bilinear filter: the pixels at the corners,
# at the middles of the edges and in the centre, row by row.
PLACES = (0, 149, 298)
BY_PILLOW = {
    "landscape": [
        [[165, 185, 65], [177, 103, 165], [207, 80, 239]],
        [[185, 204, 174], [86, 234, 122], [124, 116, 86]],
        [[155, 72, 67], [177, 205, 153], [58, 183, 213]],
    ],
    "portrait": [
        [[87, 143, 130], [147, 163, 100], [78, 167, 49]],
        [[163, 164, 224], [131, 44, 83], [38, 169, 191]],
        [[121, 72, 32], [100, 79, 122], [163, 181, 128]],
    ],
    "grey": [
        [[62] * 3, [85] * 3, [131] * 3],
        [[76] * 3, [228] * 3, [188] * 3],
        [[134] * 3, [120] * 3, [85] * 3],
    ],
}

needs_dali = pytest.mark.skipif(bool(lacking(NAME)), reason=f"{NAME} needs {', '.join(lacking(NAME))}")


@pytest.fixture(scope="module")
def declared() -> ModelDefinition:
    """The declaration."""
    return load_build(NAME)


@pytest.fixture(scope="module")
def served(built_model: BuiltModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MultiModelContract]:
    """A server that has loaded the artifact, packed and unpacked as on a multi-model endpoint."""
    folder = tmp_path_factory.mktemp("dali")
    packed = pack(built_model(NAME), output=folder / "dist")
    with packed.path.open("rb") as stream:
        unpack(stream, folder / NAME)
    with serving(folder / NAME, folder=folder) as contract:
        yield contract


def encoded(name: str) -> np.ndarray:
    """One of the images next to the declaration."""
    return np.fromfile(models_folder() / NAME / "images" / f"{name}.jpg", dtype=np.uint8)


@needs_dali
def test_a_file_of_any_size_is_answered_with_probabilities(served):
    for name in ("landscape", "portrait", "grey"):
        (answer,) = ask(served, NAME, {"INPUT": encoded(name)[np.newaxis]})["OUTPUT"]
        assert answer.shape == (1001,)
        assert answer.sum() == pytest.approx(1, abs=1e-5)


@needs_dali
def test_files_padded_to_one_length_are_answered_as_if_each_were_alone(served):
    images = [encoded(name) for name in ("grey", "landscape", "portrait")]
    longest = max(map(len, images))
    batch = np.stack([np.pad(image, (0, longest - len(image))) for image in images])
    together = ask(served, NAME, {"INPUT": batch})["OUTPUT"]
    for image, answer in zip(images, together, strict=True):
        (alone,) = ask(served, NAME, {"INPUT": image[np.newaxis]})["OUTPUT"]
        np.testing.assert_allclose(answer, alone, rtol=0, atol=1e-4)


@needs_dali
@pytest.mark.parametrize(
    "broken",
    [np.fromfile(models_folder() / NAME / "images" / "landscape.jpg", dtype=np.uint8)[:3000]],
    ids=["cut off"],
)
def test_a_broken_image_is_the_callers_error_and_the_next_request_is_answered(broken, declared, served):
    with pytest.raises(AssertionError, match=r"DALI runtime error: .*decoders\.image"):
        ask(served, NAME, {"INPUT": broken[np.newaxis]})
    example = declared.examples()[0].inputs
    np.testing.assert_allclose(
        ask(served, NAME, example)["OUTPUT"], declared.reference(example)["OUTPUT"], rtol=0, atol=2e-2
    )


@needs_dali
@pytest.mark.parametrize("name", BY_PILLOW)
def test_the_preprocessing_is_what_another_library_makes_of_the_image(name, declared):

    preprocessing = declared.models[0]
    (image,) = run_pipeline(preprocessing, {"DALI_INPUT_0": encoded(name)[np.newaxis]})["DALI_OUTPUT_0"]
    assert (image.shape, image.dtype) == ((SIZE, SIZE, 3), np.float32)
    assert -1 <= image.min() < -0.5 < 0.5 < image.max() <= 1
    pixels = image[np.ix_(PLACES, PLACES)] * 127.5 + 127.5
    np.testing.assert_allclose(pixels, BY_PILLOW[name], rtol=0, atol=2)


@pytest.mark.story
def test_the_network_has_the_parameters_of_the_published_one(declared):
    network = declared.models[1].network()
    state = network.state_dict()
    without_head = sum(value.numel() for name, value in network.named_parameters() if name[:3] != "fc.")
    assert without_head == 21_785_568  # torchvision's 27_161_264, less its auxiliary head and its own fc
    assert state["fc.weight"].shape == (1001, 2048)
    assert state["Mixed_6c.branch7x7dbl_4.conv.weight"].shape == (160, 160, 7, 1)
    assert state["Mixed_7b.branch3x3_2a.bn.running_var"].shape == (384,)


@pytest.mark.story
def test_trained_weights_are_taken_from_a_file_and_those_for_1000_classes_are_refused(
    declared, tmp_path, monkeypatch
):
    trained = declared.models[1].network()
    torch.nn.init.constant_(trained.fc.bias, 1.0)
    torch.save(trained.state_dict(), tmp_path / "1001.pth")
    trained.fc = torch.nn.Linear(2048, 1000)
    torch.save(trained.state_dict(), tmp_path / "1000.pth")
    monkeypatch.setenv("INCEPTION_WEIGHTS", str(tmp_path / "1001.pth"))
    network = load_build(NAME).models[1].network()
    assert not network.training
    assert torch.equal(network.fc.bias, torch.ones(1001))
    monkeypatch.setenv("INCEPTION_WEIGHTS", str(tmp_path / "1000.pth"))
    with pytest.raises(FleetError, match=r"fc\.weight is \(1000, 2048\), not \(1001, 2048\)"):
        load_build(NAME).models[1].network()


@needs_dali
def test_the_tensorflow_form_is_the_users_graph_with_the_posts_configuration(tmp_path, monkeypatch):
    (tmp_path / "frozen.pb").write_bytes(b"a frozen graph")
    monkeypatch.setenv("INCEPTION_GRAPH", str(tmp_path / "frozen.pb"))
    root = build(f"{NAME}:tensorflow", output=tmp_path / "out", release="24.12")
    network = root / f"{NAME}_tensorflow_network"
    assert (network / "1" / "model.graphdef").read_bytes() == b"a frozen graph"
    config = read_config(network / "config.pbtxt")
    assert config.platform == "tensorflow_graphdef"
    assert [tensor.name for tensor in (*config.input, *config.output)] == [
        "input",
        "InceptionV3/Predictions/Softmax",
    ]
    assert check_path(root) == []


@needs_dali
def test_a_portable_build_says_which_dali_made_its_pipeline_and_which_would_serve(built_model):
    from nvidia import dali

    about = json.loads((built_model(NAME) / "build.json").read_text())
    assert about["sources"]["dali"] == dali.__version__
    assert about["left_out"] == [f"a pipeline of {NAME}_images by DALI 1.51.2 (it is by {dali.__version__})"]


@needs_dali
def test_the_pipeline_asks_for_fancy_upsampling(built_model):
    content = (built_model(NAME) / f"{NAME}_images" / "1" / "model.dali").read_bytes()
    assert b"jpeg_fancy_upsampling" in content
