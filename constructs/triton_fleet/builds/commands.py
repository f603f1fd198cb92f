"""The commands of a build, wherever it runs: those that a person types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from triton_fleet.builds.source import FOLDER
from triton_models.facts.instances import Gpu

# The image's Python is marked as managed by Ubuntu; the container is thrown away after the build. What a
# build installs goes into the user's folder, where the server that verifies the models does not look: on the
# endpoint they have the image's packages and their own, and so they do here.
ENVIRONMENT: Mapping[str, str] = MappingProxyType(
    {"PIP_BREAK_SYSTEM_PACKAGES": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_USER": "1"}
)

# No name is every declared model: thousands of names are more than an environment takes.
_MODELS = "${FLEET_MODELS:-$(cd models; dirname */build.py)}"

_TOOLKIT = f"python3 -m pip install --quiet --no-index --no-deps {FOLDER}/*.whl"
# The usual set by hash, and what some models need besides it, only where one of them is built.
_INSTALL = f"python3 -m triton_models.builds.locked build {_MODELS}"
# Problems with the machine are reported before minutes of pip. Two commands: `export A=$(...)` never fails.
_FIND_DRIVER = (
    '[ -z "${FLEET_GPU:-}" ] || LD_LIBRARY_PATH='
    '$(python3 -m triton_models.builds.tensorrt.driver --gpu "$FLEET_GPU" --release "$FLEET_RELEASE")',
    "export LD_LIBRARY_PATH",
)
_HARDWARE = {True: '${FLEET_GPU:+--gpu "$FLEET_GPU"}', False: "--cpu"}
_MODULE = "python3 -m triton_models"

# Finding out what changed reads declarations and builds nothing, so that it needs none of the frameworks.
_INSTALL_LITTLE = "python3 -m triton_models.builds.locked changed"


def commands(gpu: Gpu | None) -> Mapping[str, Sequence[str]]:
    """Return the commands of a build, by phase, for the source folder.

    They read FLEET_MODELS (empty for every declared model), FLEET_RELEASE, FLEET_REPOSITORY, with a GPU
    FLEET_GPU, and optionally FLEET_RESULTS, the address for the result of each model.
    """
    return {
        "install": (_TOOLKIT, *(_FIND_DRIVER if gpu else ()), _INSTALL),
        "build": (
            f'{_MODULE} deliver {_MODELS} --release "$FLEET_RELEASE" {_HARDWARE[gpu is not None]} '
            '--repository "$FLEET_REPOSITORY" ${FLEET_RESULTS:+--results "$FLEET_RESULTS"}',
        ),
    }


def changed_commands(gpu: Gpu | None) -> Mapping[str, Sequence[str]]:
    """Return the commands that find the models to build again, and divide them among builds.

    They read what `commands` reads, FLEET_ITEMS, the address for the models of each build, and
    FLEET_MODELS_PER_BUILD. A declaration that cannot be read is a result; the others are built.
    """
    return {
        "install": (_TOOLKIT, _INSTALL_LITTLE),
        "build": (
            f'{_MODULE} diff ${{FLEET_MODELS:---all}} --release "$FLEET_RELEASE" '
            f'{_HARDWARE[gpu is not None]} --repository "$FLEET_REPOSITORY" --results "$FLEET_RESULTS" '
            '--models-per-build "$FLEET_MODELS_PER_BUILD" --items "$FLEET_ITEMS"',
        ),
    }


def summary_commands() -> Mapping[str, Sequence[str]]:
    """Return the commands that report the result of every model of a run, and fail if a model failed.

    They read FLEET_RESULTS, FLEET_ITEMS, and FLEET_SUMMARY, the address for the summary.
    """
    return {
        "install": (_TOOLKIT, _INSTALL_LITTLE),
        "build": (f'{_MODULE} summarize "$FLEET_RESULTS" --items "$FLEET_ITEMS" --summary "$FLEET_SUMMARY"',),
    }


def build_spec(phases: Mapping[str, Sequence[str]]) -> dict[str, object]:
    """A buildspec of these commands by phase."""
    return {
        "version": "0.2",
        "env": {"shell": "bash", "variables": dict(ENVIRONMENT)},
        "phases": {phase: {"commands": list(each)} for phase, each in phases.items()},
    }
