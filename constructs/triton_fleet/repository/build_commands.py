"""What a build runs, wherever it runs: the commands that a person types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from triton_models.instances import Gpu

# The image's Python is marked as managed by Ubuntu; the container is thrown away after the build.
ENVIRONMENT: Mapping[str, str] = MappingProxyType({"PIP_BREAK_SYSTEM_PACKAGES": "1"})

_BUILD = 'python3 -m triton_models build $FLEET_MODELS -o build --release "$FLEET_RELEASE"'
_FOR_A_GPU = '${FLEET_GPU:+--gpu "$FLEET_GPU"}'
_FOR_A_CPU = "--cpu"


def commands(gpu: Gpu | None) -> Mapping[str, Sequence[str]]:
    """What a build runs, by phase, in the source folder.

    They read FLEET_MODELS, FLEET_RELEASE, FLEET_REPOSITORY and, for a GPU, FLEET_GPU.
    """
    return {
        "install": ("python3 -m pip install --quiet --requirement requirements.txt",),
        "build": (
            f"{_BUILD} {_FOR_A_GPU if gpu else _FOR_A_CPU}",
            "python3 -m triton_models check build/*",
            "python3 -m triton_models pack build/* -o artifacts",
            'python3 -m triton_models publish artifacts/*.tar.gz --repository "$FLEET_REPOSITORY"',
        ),
    }


def build_spec(phases: Mapping[str, Sequence[str]]) -> dict[str, object]:
    """A buildspec of these commands by phase."""
    return {
        "version": "0.2",
        "env": {"shell": "bash", "variables": dict(ENVIRONMENT)},
        "phases": {phase: {"commands": list(each)} for phase, each in phases.items()},
    }
