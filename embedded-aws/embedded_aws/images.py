"""The images in other accounts' registries, such as AWS's own. moto does not model them."""

from __future__ import annotations

from typing import Protocol


class Images(Protocol):
    """Facts about images, given by the user of the embedded AWS."""

    def published(self, repository: str, tag: str, region: str) -> bool:
        """Return True if another account's registry in a region has an image."""

    def needs_gpu(self, image: str) -> bool:
        """Return True if a container of an image fails to start on an instance without a GPU."""


class AnyImage:
    """The default: every image exists and starts everywhere."""

    def published(self, repository: str, tag: str, region: str) -> bool:
        """Return True."""
        del repository, tag, region
        return True

    def needs_gpu(self, image: str) -> bool:
        """Return False."""
        del image
        return False


_given: list[Images] = [AnyImage()]


def connect(images: Images | None) -> None:
    """Set the facts to use; None restores the default."""
    _given[0] = images or AnyImage()


def images() -> Images:
    """Return the facts in use."""
    return _given[0]
