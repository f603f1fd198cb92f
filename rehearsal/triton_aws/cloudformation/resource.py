"""A resource type of the embedded CloudFormation: four verbs over its service's own API."""

from __future__ import annotations

import random
import string
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

# A service's boto3 client. Its methods are made from the service's own model at run time, so that no static
# type covers all of them.
Client = Any

Properties = Mapping[str, Any]

_SUFFIX_LETTERS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The identity of a created resource.

    Attributes:
        physical_id: The physical resource id, which is also what `Ref` returns.
        attributes: The values for `Fn::GetAtt`, by attribute name.
    """

    physical_id: str
    attributes: Mapping[str, str] = field(default_factory=dict)


def _nothing() -> None:
    """Leave the API call to be answered when the operation is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The context of an operation: the resource, its stack, and clients.

    Attributes:
        answer: Has the API call that began the operation answered now: the type waits for something outside.
    """

    client: Callable[[str], Client]
    account: str
    region: str
    stack_id: str
    stack_name: str
    logical_id: str
    answer: Callable[[], None] = _nothing

    def unique_name(self, *, limit: int, stack: bool = True) -> str:
        """A physical name for a resource that the template does not name, as CloudFormation makes them.

        Args:
            limit: The longest name that the service takes.
            stack: True to begin with the stack's name.
        """
        # Not a secret: it keeps names apart.
        suffix = "".join(random.choices(string.ascii_letters + string.digits, k=_SUFFIX_LETTERS))  # noqa: S311
        stem = f"{self.stack_name}-{self.logical_id}" if stack else self.logical_id
        return f"{stem[: limit - _SUFFIX_LETTERS - 1].rstrip('-')}-{suffix}"


class ResourceType(ABC):
    """One CloudFormation resource type, made of calls to the API that creates such a resource.

    An exception that a verb raises fails the resource, and so the stack's operation; its text is the reason.
    """

    name: ClassVar[str]

    @abstractmethod
    def create(self, call: Call, properties: Properties) -> Identity:
        """Create the resource and return its identity."""

    @abstractmethod
    def update(self, call: Call, identity: Identity, before: Properties, after: Properties) -> Identity:
        """Change the resource in place. A change of a create-only property never gets here: it replaces."""

    @abstractmethod
    def delete(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Remove the resource."""

    @abstractmethod
    def confirm(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Ask the service's own API for the resource; raise if it is not there."""


class PutType(ResourceType):
    """A type whose service writes a resource with one idempotent call, new or not."""

    @abstractmethod
    def put(self, call: Call, physical_id: str | None, properties: Properties) -> Identity:
        """Write the resource; the physical id is None when it is new."""

    def create(self, call: Call, properties: Properties) -> Identity:
        """Write the resource for the first time."""
        return self.put(call, None, properties)

    def update(self, call: Call, identity: Identity, before: Properties, after: Properties) -> Identity:  # noqa: ARG002
        """Write the resource again."""
        return self.put(call, identity.physical_id, after)


class ConfiguredType(ResourceType):
    """A type that is made first and configured after, with calls of their own."""

    @abstractmethod
    def begin(self, call: Call, properties: Properties) -> Identity:
        """Make the bare resource."""

    @abstractmethod
    def configure(self, call: Call, identity: Identity, before: Properties, after: Properties) -> None:
        """Bring the resource from one set of properties to the other; a new one comes from no properties."""

    def create(self, call: Call, properties: Properties) -> Identity:
        """Make and configure the resource; half of one does not stay."""
        identity = self.begin(call, properties)
        try:
            self.configure(call, identity, {}, properties)
        except BaseException:
            self.delete(call, identity, {})
            raise
        return identity

    def update(self, call: Call, identity: Identity, before: Properties, after: Properties) -> Identity:
        """Configure the resource anew."""
        self.configure(call, identity, before, after)
        return identity


class PartiallyCreatedError(Exception):
    """A resource could not be created, and has to be deleted all the same.

    Attributes:
        identity: The identity of the created part.
    """

    def __init__(self, reason: str, identity: Identity) -> None:
        super().__init__(reason)
        self.identity = identity


class AbsentError(LookupError):
    """The service answers, and does not have the resource."""


def changed_tags(before: Properties, after: Properties) -> tuple[list[dict[str, str]], list[str]]:
    """The tags to set and the keys to remove when `Tags` changes from one list of properties to the other."""
    old = {tag["Key"]: tag["Value"] for tag in before.get("Tags", ())}
    new = {tag["Key"]: tag["Value"] for tag in after.get("Tags", ())}
    put = [{"Key": key, "Value": value} for key, value in new.items() if old.get(key) != value]
    return put, [key for key in old if key not in new]
