"""A resource type of the embedded CloudFormation: four verbs over its service's API."""

from __future__ import annotations

import random
import string
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

# A service's boto3 client. boto3 creates its methods at run time from the service's model, so no static type
# covers all of them.
Client = Any

Properties = Mapping[str, Any]

_SUFFIX_LETTERS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The identity of a created resource.

    Attributes:
        physical_id: The physical resource id, which `Ref` also returns.
        attributes: The values for `Fn::GetAtt`, by attribute name.
    """

    physical_id: str
    attributes: Mapping[str, str] = field(default_factory=dict)


def _nothing() -> None:
    """Do nothing: the API call is answered at the end of the operation."""


class CanceledError(Exception):
    """The update of a stack was canceled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The context of an operation: the resource, its stack, and clients.

    Attributes:
        answer: Answers the API call that began the operation; for a type that waits for something outside.
        canceled: Returns True if the update was canceled.
    """

    client: Callable[[str], Client]
    account: str
    region: str
    stack_id: str
    stack_name: str
    logical_id: str
    answer: Callable[[], None] = _nothing
    canceled: Callable[[], bool] = lambda: False

    def go_on(self) -> None:
        """Do nothing, unless the update was canceled; for a type that waits for something outside.

        Raises:
            CanceledError: The update was canceled.
        """
        if self.canceled():
            msg = "Resource update cancelled"
            raise CanceledError(msg)

    def unique_name(self, *, limit: int, stack: bool = True) -> str:
        """Return a physical name for a resource without one in the template, in CloudFormation's form.

        If it is too long, the stack's name is cut first, to half of the length at least.

        Args:
            limit: The maximum length of a name in the service.
            stack: True to begin with the stack's name.
        """
        # Not a secret: it only makes names unique.
        suffix = "".join(random.choices(string.ascii_letters + string.digits, k=_SUFFIX_LETTERS))  # noqa: S311
        room = limit - _SUFFIX_LETTERS - 1
        kept = max(room - len(self.logical_id) - 1, room // 2)
        stem = f"{self.stack_name[:kept]}-{self.logical_id}" if stack else self.logical_id
        return f"{stem[:room].rstrip('-')}-{suffix}"


class ResourceType(ABC):
    """One CloudFormation resource type, implemented with calls to its service's API.

    An exception of a verb fails the resource, and so the stack's operation. Its message is the reason.
    """

    name: str

    @abstractmethod
    def create(self, call: Call, properties: Properties) -> Identity:
        """Create the resource and return its identity."""

    @abstractmethod
    def update(self, call: Call, identity: Identity, before: Properties, after: Properties) -> Identity:
        """Change the resource in place. Not called for create-only properties: they need a new resource."""

    @abstractmethod
    def delete(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Remove the resource."""

    @abstractmethod
    def confirm(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Ask the service's API for the resource; raise if it does not exist."""


class PutType(ResourceType):
    """A type whose service has one idempotent call to create or change a resource."""

    @abstractmethod
    def put(self, call: Call, physical_id: str | None, properties: Properties) -> Identity:
        """Write the resource; the physical id is None for a new one."""

    def create(self, call: Call, properties: Properties) -> Identity:
        """Write the resource for the first time."""
        return self.put(call, None, properties)

    def update(self, call: Call, identity: Identity, before: Properties, after: Properties) -> Identity:  # noqa: ARG002
        """Write the resource again."""
        return self.put(call, identity.physical_id, after)


class ConfiguredType(ResourceType):
    """A type that is created first, then configured with separate calls."""

    @abstractmethod
    def begin(self, call: Call, properties: Properties) -> Identity:
        """Create the bare resource."""

    @abstractmethod
    def configure(self, call: Call, identity: Identity, before: Properties, after: Properties) -> None:
        """Change the resource from one set of properties to the other; empty for a new resource."""

    def create(self, call: Call, properties: Properties) -> Identity:
        """Create and configure the resource. If the second part fails, the resource is deleted."""
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
    """A resource could not be created, but must still be deleted.

    Attributes:
        identity: The identity of the created part.
    """

    def __init__(self, reason: str, identity: Identity) -> None:
        super().__init__(reason)
        self.identity = identity


class UnsupportedUpdateError(Exception):
    """A change that the embedded AWS does not make. The resource is as it was."""


class AbsentError(LookupError):
    """The service answers, but does not have the resource."""


def changed_tags(before: Properties, after: Properties) -> tuple[list[dict[str, str]], list[str]]:
    """Return the tags to set and the keys to remove for a change of `Tags`."""
    old = {tag["Key"]: tag["Value"] for tag in before.get("Tags", ())}
    new = {tag["Key"]: tag["Value"] for tag in after.get("Tags", ())}
    put = [{"Key": key, "Value": value} for key, value in new.items() if old.get(key) != value]
    return put, [key for key in old if key not in new]
