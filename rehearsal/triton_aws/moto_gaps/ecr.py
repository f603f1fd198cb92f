"""ECR: images of AWS's own registries.

moto's gap: it looks into the account's own repositories, whichever registry is asked for. Here another
registry has every image, but for those that `triton_rehearsal.assumptions` says it has not.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

from moto.core.exceptions import ServiceException
from moto.ecr.models import ECRBackend

from triton_aws.moto_gaps import patch
from triton_rehearsal.assumptions import holds

# By the tag, the first that fits.
_ASSUMED = (
    ("cpu_images_exist", re.compile(r"-cpu$")),
    ("newer_releases_published", re.compile(r"^(25\.1[0-2]|2[6-9]\.)")),
)
_moto_get = ECRBackend.batch_get_image


class _NotAuthorizedError(ServiceException):
    code = "AccessDeniedException"

    def __init__(self, repository: str) -> None:
        action = "ecr:BatchGetImage"
        super().__init__(
            f"User is not authorized to perform: {action} on resource: {repository} because no "
            f"resource-based policy allows the {action} action"
        )


def _batch_get_image(
    self: ECRBackend,
    repository_name: str,
    registry_id: str | None = None,
    image_ids: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    if registry_id in (None, self.account_id):
        return _moto_get(self, repository_name, registry_id, image_ids)
    if not holds("registry_answers_any_account"):
        raise _NotAuthorizedError(repository_name)
    answer: dict[str, Any] = {"images": [], "failures": []}
    for image in image_ids or ():
        if _published(image.get("imageTag", ""), self.region_name):
            answer["images"].append(_image(repository_name, registry_id or "", image["imageTag"]))
        else:
            failure = {"failureCode": "ImageNotFound", "failureReason": "Requested image not found"}
            answer["failures"].append({"imageId": image, **failure})
    return answer


def _published(tag: str, region: str) -> bool:
    assumed = next((name for name, pattern in _ASSUMED if pattern.search(tag)), None)
    if assumed is not None and not holds(assumed):
        return False
    return holds("images_in_every_region") or region == "us-east-1"


def _image(repository: str, registry: str, tag: str) -> dict[str, Any]:
    digest = hashlib.sha256(f"{repository}:{tag}".encode()).hexdigest()
    named = {"imageTag": tag, "imageDigest": f"sha256:{digest}"}
    return {"registryId": registry, "repositoryName": repository, "imageId": named}


def install() -> None:
    """Close the gap."""
    patch.replace(ECRBackend, batch_get_image=_batch_get_image)
