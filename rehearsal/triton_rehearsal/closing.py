"""What is closed at the end of a `with`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeVar

Opened = TypeVar("Opened", bound="Closing")


class Closing(ABC):
    """A base class: `with` closes the object."""

    @abstractmethod
    def close(self) -> None:
        """End what was started."""

    def __enter__(self: Opened) -> Opened:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
