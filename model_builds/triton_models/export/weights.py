"""Trained weights from a file or from S3, into a PyTorch network."""

from __future__ import annotations

import hashlib
import pickle
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from triton_models.errors import FleetError

if TYPE_CHECKING:
    import torch

_SHOWN = 3  # names in an error; a wrong network has hundreds


def load_weights(module: torch.nn.Module, source: str) -> str:
    """Load every parameter and buffer of a network.

    Args:
        module: The network.
        source: A path or an `s3://bucket/key`: a state_dict saved by `torch.save`, or a .safetensors file.

    Returns:
        "sha256:..." of the file, for `BuildJob.sources`.

    Raises:
        FleetError: The file cannot be had, holds no state_dict, or one of another network.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = _download(source, Path(folder)) if source.startswith("s3://") else Path(source)
        state = _read(path, source)
        _compare(module.state_dict(), state, source)
        module.load_state_dict(dict(state))
        with path.open("rb") as file:
            digest = hashlib.sha256()
            while block := file.read(1 << 20):
                digest.update(block)
    return f"sha256:{digest.hexdigest()}"


def _download(source: str, folder: Path) -> Path:
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    bucket, _, key = source.removeprefix("s3://").partition("/")
    path = folder / (Path(key).name or "weights")
    try:
        boto3.client("s3").download_file(bucket, key, str(path))
    except (BotoCoreError, ClientError, ValueError) as error:
        raise _unusable(source, f"the download failed: {error}") from error
    return path


def _read(path: Path, source: str) -> Mapping[str, torch.Tensor]:
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise _unusable(source, error.strerror or str(error)) from error
    except (RuntimeError, ValueError, EOFError, pickle.UnpicklingError, SafetensorError) as error:
        raise _unusable(source, f"no file of weights: {str(error).partition(chr(10))[0]}") from error
    if not isinstance(state, dict) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise _unusable(source, "it holds something else than tensors by name")
    return state


def _compare(expected: Mapping[str, torch.Tensor], given: Mapping[str, torch.Tensor], source: str) -> None:
    shapes = {
        name: (tuple(given[name].shape), tuple(expected[name].shape))
        for name in expected
        if name in given and given[name].shape != expected[name].shape
    }
    differences = [
        *(f"{name} is missing" for name in expected if name not in given),
        *(f"{name} is not in the network" for name in given if name not in expected),
        *(f"{name} is {have}, not {want}" for name, (have, want) in shapes.items()),
    ]
    if differences:
        more = f", and {len(differences) - _SHOWN} more" if len(differences) > _SHOWN else ""
        raise _unusable(source, "weights of another network: " + ", ".join(differences[:_SHOWN]) + more)


def _unusable(source: str, what: str) -> FleetError:
    return FleetError.of(
        what=what,
        where=f"the weights {source!r}",
        expected="a file with exactly this network's state_dict, saved by torch.save or as .safetensors",
        fix="check the path, the permission to read it, and that it was saved from the same network",
        rule="weights",
    )
