"""The images that an endpoint's variants run, as DescribeEndpoint shows them.

SageMaker resolves a tag once, when it creates or updates the endpoint. Registries of other accounts are not
modelled, so the digests are ours: one per image. Read on 2026-11-23:
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DeployedImage.html
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from moto.core.utils import utcnow


def with_images(backend: Any, config: Any, variants: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return variants with the images of their models, resolved now.

    Args:
        backend: The SageMaker backend that has the models.
        config: The endpoint configuration that the variants are of.
        variants: The variants as DescribeEndpoint shows them.
    """
    models = {each["VariantName"]: each.get("ModelName") for each in config.production_variants}
    now = utcnow()
    return [
        {**variant, "DeployedImages": _images(backend._models.get(models[variant["VariantName"]]), now)}
        for variant in variants
    ]


def _images(model: Any, now: datetime) -> list[dict[str, Any]]:
    containers = [model.primary_container, *(model.containers or ())] if model else []
    images = [str(each["Image"]) for each in containers if each and "Image" in each]
    return [
        {"SpecifiedImage": image, "ResolvedImage": _resolved(image), "ResolutionTime": now}
        for image in images
    ]


def _resolved(image: str) -> str:
    if "@sha256:" in image:
        return image
    folder, _, name = image.rpartition("/")
    repository = "/".join(part for part in (folder, name.split(":")[0]) if part)
    return f"{repository}@sha256:{hashlib.sha256(image.encode()).hexdigest()}"
