"""The models of the repository, each built once in a run of the tests, whichever process needs it first."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from filelock import FileLock

from triton_models.builds.build import build
from triton_models.builds.inputs import find_inputs
from triton_models.facts.releases import DEFAULT_RELEASE

BuiltModel: TypeAlias = Callable[[str], Path]
"""Returns the artifact root of a model, portable."""

# A model whose write() is given.
WRITES = """
from triton_models.spec import ModelDefinition, ShapeRange

def write(job):
{body}

BUILD = ModelDefinition(
    name={name!r}, description="", write=write, examples=list, reference=dict, output="Y", tolerance=0.0
)
"""

# A model of one PyTorch network.
NETWORK = """
from triton_models.spec import *

def network():
    import torch
    return {network}

BUILD = ModelDefinition(
    name={name!r}, description="", examples={examples}, output={output!r}, {more},
    models=[PyTorchNetwork(
        name={name!r}, network=network, inputs=[{inputs}], outputs=[{output!r}],
        max_batch_size=8, backend={backend},
    )],
)
"""


def common_folder(factory: pytest.TempPathFactory) -> Path:
    """The temporary folder that all processes of a run share."""
    own = factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


def shared_build(name: str, *, output: Path) -> Path:
    """Build a model unless a process of this run has built it from the same inputs."""
    inputs = json.dumps(dict(find_inputs(name, release=DEFAULT_RELEASE).inputs), sort_keys=True)
    notes = output.with_name(f"{output.name}-inputs")
    notes.mkdir(parents=True, exist_ok=True)
    note = notes / f"{name}.json"
    with FileLock(notes / f"{name}.lock"):
        if not (note.exists() and note.read_text() == inputs):
            build(name, output=output)
            note.write_text(inputs)
    return output / name
