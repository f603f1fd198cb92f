"""Encoded images in, 1001 probabilities out: DALI and Inception v3 on the real Triton server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from buildable import lacking
from one_server import ENDPOINT, ask, serving
from shared_builds import BuiltModel

from tests.reported import refused
from triton_models.artifact.pack.pack import pack
from triton_models.artifact.pbtxt import read_config
from triton_models.base.errors import FleetError
from triton_models.base.unix_http import UnixSocketPool
from triton_models.builds.build import build
from triton_models.builds.export.dali import run_pipeline
from triton_models.check.check import check_path
from triton_models.check.target import SINGLE_MODEL
from triton_models.client import decode, encode
from triton_models.spec import (
    DaliPipeline,
    ModelDefinition,
    PyTorchNetwork,
    Tensor,
    load_build,
    models_folder,
)
from triton_rehearsal.hosting.model_data import unpack
from triton_rehearsal.triton.contract import MultiModelContract
from triton_rehearsal.triton.server import TritonServer

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
    [
        np.zeros(100, dtype=np.uint8),
        np.frombuffer(b"not an image at all", dtype=np.uint8),
        np.fromfile(models_folder() / NAME / "images" / "landscape.jpg", dtype=np.uint8)[:3000],
    ],
    ids=["zeros", "text", "cut off"],
)
def test_a_broken_image_is_the_callers_error_and_the_next_request_is_answered(broken, declared, served):
    with pytest.raises(AssertionError, match=r"DALI runtime error: .*decoders\.image"):
        ask(served, NAME, {"INPUT": broken[np.newaxis]})
    example = declared.examples()[0].inputs
    np.testing.assert_allclose(
        ask(served, NAME, example)["OUTPUT"], declared.reference(example)["OUTPUT"], rtol=0, atol=1e-4
    )


@needs_dali
def test_a_single_model_endpoint_answers_the_same(built_model, declared, tmp_path):
    """With the flags that the start script makes of SAGEMAKER_TRITON_DEFAULT_MODEL_NAME."""
    assert check_path(built_model(NAME), target=SINGLE_MODEL) == []
    environment = {
        **ENDPOINT,
        "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME": NAME,
        "SAGEMAKER_TRITON_ADDITIONAL_ARGS": f"--model-repository={built_model(NAME)} --load-model={NAME}",
    }
    example = declared.examples()[1].inputs
    body, content_type = encode(example, outputs=None, content="binary", where="a request")
    with TritonServer(environment, tmp_path / "server") as server:
        pool = UnixSocketPool(server.socket)
        answer = pool.urlopen("POST", "/invocations", body=body, headers={"Content-Type": content_type})
    answered = decode(answer.data, answer.headers["content-type"])["OUTPUT"]
    np.testing.assert_allclose(answered, declared.reference(example)["OUTPUT"], rtol=0, atol=1e-4)


@needs_dali
@pytest.mark.parametrize("name", BY_PILLOW)
def test_the_preprocessing_is_what_another_library_makes_of_the_image(name, declared):
    from triton_models.builds.export.dali import run_pipeline

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


def test_the_tensorflow_form_is_refused_for_a_release_without_tensorflow(tmp_path):
    problem = refused(build, f"{NAME}:tensorflow", output=tmp_path, release="25.04")
    assert problem.rule == "backend-removed"
    assert "'tensorflow', for release 25.04" in problem.what
    assert "a release before 25.03" in problem.fix


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
def test_the_tensorflow_form_without_a_graph_names_the_file_that_is_missing(tmp_path):
    with pytest.raises(FleetError, match=r"inception_v3_2016_08_28_frozen\.pb"):
        build(f"{NAME}:tensorflow", output=tmp_path, release="24.12")


@needs_dali
def test_a_portable_build_says_which_dali_made_its_pipeline_and_which_would_serve(built_model):
    from nvidia import dali

    about = json.loads((built_model(NAME) / "build.json").read_text())
    assert about["sources"]["dali"] == dali.__version__
    assert about["left_out"] == [f"a pipeline of {NAME}_images by DALI 1.51.2 (it is by {dali.__version__})"]


def repeated(small: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """A chroma plane of half the size as a GPU's decoder enlarges it by default."""
    return np.repeat(np.repeat(small, 2, 0), 2, 1)[: shape[0], : shape[1]]


def interpolation(size: int) -> np.ndarray:
    """Return the matrix that enlarges an axis as libjpeg does: three parts of a value, one of the next."""
    matrix = np.zeros((2 * ((size + 1) // 2), (size + 1) // 2))
    for i in range(matrix.shape[1]):
        matrix[2 * i : 2 * i + 2, i] += 0.75
        matrix[2 * i, max(i - 1, 0)] += 0.25
        matrix[2 * i + 1, min(i + 1, matrix.shape[1] - 1)] += 0.25
    return matrix[:size]


def decoded_with(pixels: np.ndarray, *, fancy: bool) -> np.ndarray:
    """An image with 4:2:0 subsampling as another decoder gives it, from what the CPU's gives.

    Fancy upsampling is linear, so the file's chroma planes follow from the pixels; they are integers.
    """
    red, green, blue = np.moveaxis(pixels.astype(float), -1, 0)
    luma = 0.299 * red + 0.587 * green + 0.114 * blue
    shape = luma.shape
    rows, columns = map(interpolation, shape)
    planes = []
    for difference, scale in ((blue - luma, 1.772), (red - luma, 1.402)):
        small = np.round(np.linalg.pinv(rows) @ (difference / scale) @ np.linalg.pinv(columns).T)
        planes.append(rows @ small @ columns.T if fancy else repeated(small, shape))
    luma, (cb, cr) = np.round(luma), planes
    colours = (luma + 1.402 * cr, luma - 0.344136 * cb - 0.714136 * cr, luma + 1.772 * cb)
    return np.clip(np.round(np.stack(colours, -1)), 0, 255).astype(np.uint8)


def pixels_of(name: str) -> np.ndarray:
    """An image as the CPU decodes it."""

    def decode(device: str):
        from nvidia.dali import fn, types

        file = fn.external_source(name="FILE", device="cpu", dtype=types.UINT8, ndim=1)
        return fn.decoders.image(file, device=device)

    return run_pipeline(_pipeline(decode), {"FILE": encoded(name)[np.newaxis]})["OUT"][0]


def answers_to(images: np.ndarray, declared: ModelDefinition) -> np.ndarray:
    """The network's answers to images that are decoded already."""

    def resize(_: str):
        from nvidia.dali import fn, types

        image = fn.external_source(name="IMAGE", device="cpu", dtype=types.UINT8, ndim=3, layout="HWC")
        image = fn.resize(image, resize_x=SIZE, resize_y=SIZE)
        return fn.crop_mirror_normalize(
            image, dtype=types.FLOAT, output_layout="HWC", mean=[127.5] * 3, std=[127.5] * 3
        )

    prepared = run_pipeline(_pipeline(resize), {"IMAGE": images})["OUT"]
    network = next(each.network for each in declared.models if isinstance(each, PyTorchNetwork))()
    with torch.inference_mode():
        return network(torch.from_numpy(prepared)).numpy()


def _pipeline(function: Callable[[str], object]) -> DaliPipeline:
    tensors = {"inputs": [Tensor("FILE", "UINT8", [-1])], "outputs": [Tensor("OUT", "FP32", [-1])]}
    return DaliPipeline(name="images", pipeline=function, max_batch_size=1, **tensors)


@needs_dali
@pytest.mark.story
def test_only_fancy_upsampling_brings_a_gpus_decoder_within_the_tolerance(declared):
    exact = pixels_of("landscape")
    interpolated, nearest = (decoded_with(exact, fancy=fancy) for fancy in (True, False))
    levels = [np.abs(each.astype(int) - exact).max() for each in (interpolated, nearest)]
    assert levels == [2, 6]
    answer, with_fancy, without = answers_to(np.stack([exact, interpolated, nearest]), declared)
    assert np.abs(with_fancy - answer).max() < declared.allowed() < np.abs(without - answer).max()


@needs_dali
def test_the_pipeline_asks_for_fancy_upsampling(built_model):
    content = (built_model(NAME) / f"{NAME}_images" / "1" / "model.dali").read_bytes()
    assert b"jpeg_fancy_upsampling" in content
