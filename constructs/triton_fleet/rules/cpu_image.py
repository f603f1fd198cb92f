"""The image for CPUs serves, and builds for, instance types without a GPU alone."""

from __future__ import annotations

from triton_models.base.errors import Problem
from triton_models.facts.instances import InstanceType

RULE = "cpu-image"
# Read on 2026-11-22: deep-learning-containers lists images for GPUs only since 23.12; AWS's SDK has the
# suffix for types without a GPU.
SOURCE = "https://github.com/aws/deep-learning-containers/blob/master/available_images.md"


def cpu_image(instance: InstanceType, *, asked: bool, own: bool = False, where: str) -> Problem | None:
    """The problem with the image for CPUs on this instance type.

    Args:
        instance: The instance type that is served on, or built for.
        asked: Whether that image was asked for.
        own: Whether an image of the user's own is given as well.
        where: What the problem is reported for.
    """
    if not asked or (instance.gpu is None and not own):
        return None
    if own:
        what, expected = "cpu_image, and an image of your own", "one of the two"
        why = "an endpoint runs one image"
    else:
        assert instance.gpu is not None  # noqa: S101 -- the other case was returned
        what = f"cpu_image, and {instance.name} has a {instance.gpu.name}"
        expected, why = "no cpu_image", "the image for CPUs has no CUDA: no plan would load"
    return Problem(what=what, where=where, expected=expected, why=why, fix="remove cpu_image", rule=RULE)
