"""The probe of AWS's registries: the images of the release in each region."""

from __future__ import annotations

from collections.abc import Mapping

from triton_models.facts.releases import IMAGE_ACCOUNTS, IMAGE_REPOSITORY
from triton_models.probe.account.probe import AccountProbe, Steps
from triton_models.probe.account.work import Work
from triton_models.probe.verdict import Verdict, decide, undecided

_NEWER = ("25.12-py3", "26.03-py3", "26.04-py3")
_OF_IMAGES = ("images-in-every-region", "cpu-images-exist", "newer-releases-published")
_ANSWERS = "registry-answers-any-account"
# IAM names the kind of policy that lacks the permission. The registry's policy is AWS's own.
_CLOSED = "resource-based policy"


def _images(work: Work) -> Steps:
    """Query the registry of every region of the release. Regions that are not enabled cannot be queried."""
    from botocore.exceptions import BotoCoreError, ClientError

    yield
    tag = work.place.release.image_tag
    tags = (tag, f"{tag}-cpu", *_NEWER)
    digests: dict[str, Mapping[str, str]] = {}
    closed: dict[str, str] = {}
    here = work.place.region
    for region in (here, *(each for each in work.place.release.regions if each != here)):
        try:
            digests[region] = _digests(work, region, tags)
        except (ClientError, BotoCoreError) as error:
            if region != here:
                closed[region] = str(error)
            elif _CLOSED in str(error):
                later = (undecided(each, "the registry does not answer this account") for each in _OF_IMAGES)
                return [*later, decide(_ANSWERS, str(error), holds=False)]
            else:
                raise
    work.observe("images", {"region": here, "tags": list(tags)}, {"digests": dict(digests[here])})
    newer = [each for each in _NEWER if each in digests[here]]
    return [
        _in_every_region("images-in-every-region", tag, digests, closed),
        _in_every_region("cpu-images-exist", f"{tag}-cpu", digests, closed),
        decide(
            "newer-releases-published",
            f"{here} has {', '.join(newer) or 'none'} of {', '.join(_NEWER)}",
            holds=len(newer) == len(_NEWER),
        ),
        decide(_ANSWERS, f"{work.registry} in {here} answers", holds=True),
    ]


def _digests(work: Work, region: str, tags: tuple[str, ...]) -> Mapping[str, str]:
    """Return the digests of the images in a region's registry, by tag."""
    from botocore.exceptions import ClientError

    registry = work.registry if region == work.place.region else IMAGE_ACCOUNTS[region]
    try:
        found = work.clients("ecr", region).batch_get_image(
            registryId=registry, repositoryName=IMAGE_REPOSITORY, imageIds=[{"imageTag": tag} for tag in tags]
        )
    except ClientError as error:
        if error.response["Error"]["Code"] == "RepositoryNotFoundException":
            return {}
        raise
    ids = [image["imageId"] for image in found.get("images") or ()]
    return {each["imageTag"]: each.get("imageDigest", "") for each in ids if "imageTag" in each}


def _in_every_region(
    belief: str, tag: str, digests: Mapping[str, Mapping[str, str]], closed: Mapping[str, str]
) -> Verdict:
    lacking = [region for region, found in digests.items() if tag not in found]
    if lacking:
        return decide(belief, f"no image {tag} in {', '.join(lacking)}", holds=False)
    seen = f"{tag} is in {', '.join(digests)}"
    if closed:
        return undecided(belief, f"{seen}; these regions could not be queried: {', '.join(closed)}")
    return decide(belief, seen, holds=True)


PROBES = (
    AccountProbe(
        id="images",
        what="looks up the release's images in AWS's registries",
        decides=(*_OF_IMAGES, _ANSWERS),
        run=_images,
        allowed=("ecr:BatchGetImage",),
        minutes=2,
        cheap=True,
    ),
)
