"""ECR: images of AWS's own registries.

moto's gap: it searches the account's own repositories for any requested registry. Here `embedded_aws.given`
determines the images of other registries.
"""

from __future__ import annotations

import hashlib
from typing import Any

from moto.ecr.models import ECRBackend

from embedded_aws.given import published
from embedded_aws.moto_gaps import patch

_moto_get = ECRBackend.batch_get_image


@patch.replaces(ECRBackend, "batch_get_image")
def _batch_get_image(
    self: ECRBackend,
    repository_name: str,
    registry_id: str | None = None,
    image_ids: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    if registry_id in (None, self.account_id):
        return _moto_get(self, repository_name, registry_id, image_ids)
    answer: dict[str, Any] = {"images": [], "failures": []}
    for image in image_ids or ():
        if published(repository_name, image.get("imageTag", ""), self.region_name):
            answer["images"].append(_image(repository_name, registry_id or "", image["imageTag"]))
        else:
            failure = {"failureCode": "ImageNotFound", "failureReason": "Requested image not found"}
            answer["failures"].append({"imageId": image, **failure})
    return answer


def _image(repository: str, registry: str, tag: str) -> dict[str, Any]:
    digest = hashlib.sha256(f"{repository}:{tag}".encode()).hexdigest()
    named = {"imageTag": tag, "imageDigest": f"sha256:{digest}"}
    return {"registryId": registry, "repositoryName": repository, "imageId": named}
