"""Resource types of the embedded CloudFormation: four verbs over their service's API.

Most properties have the names of the API, in another case and with strings where the API has numbers. A
property that the API lacks is an error and never dropped: without it, the resource would not be the declared
one.
"""

from __future__ import annotations

import json
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
_LIMIT = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The physical id of a created resource, which `Ref` returns, and its attributes for `Fn::GetAtt`."""

    physical_id: str
    attributes: Mapping[str, str] = field(default_factory=dict)


class CanceledError(Exception):
    """The update of a stack was canceled."""


class AbsentError(LookupError):
    """The service answers, but does not have the resource."""


class UnsupportedPropertyError(ValueError):
    """A property that the embedded AWS does not pass on to the service."""


class UnsupportedUpdateError(Exception):
    """A change that the embedded AWS does not make. The resource is as it was."""


class PartiallyCreatedError(Exception):
    """A resource could not be created, but its part with this identity must still be deleted."""

    def __init__(self, reason: str, identity: Identity) -> None:
        super().__init__(reason)
        self.identity = identity


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
    answer: Callable[[], None] = lambda: None
    canceled: Callable[[], bool] = lambda: False

    def go_on(self) -> None:
        if self.canceled():
            raise CanceledError("Resource update cancelled")

    def unique_name(self, *, limit: int = _LIMIT, stack: bool = True) -> str:
        """Return a physical name for a resource without one in the template, in CloudFormation's form.

        If it is too long, the stack's name is cut first, to half of the length at least.
        """
        # Not a secret: it only makes names unique.
        suffix = "".join(random.choices(string.ascii_letters + string.digits, k=_SUFFIX_LETTERS))  # noqa: S311
        room = limit - _SUFFIX_LETTERS - 1
        kept = max(room - len(self.logical_id) - 1, room // 2)
        stem = f"{self.stack_name[:kept]}-{self.logical_id}" if stack else self.logical_id
        return f"{stem[:room].rstrip('-')}-{suffix}"

    def ask(self, service: str, method: str, given: Properties) -> dict[str, Any]:
        """Call an operation, such as `create_project`, with properties as its arguments."""
        client = self.client(service)
        answer: dict[str, Any] = getattr(client, method)(**_structure(_input(client, method), given, ""))
        return answer


class ResourceType(ABC):
    """One CloudFormation resource type.

    An exception of a verb fails the resource, and so the stack's operation. Its message is the reason.
    """

    name: str

    @abstractmethod
    def create(self, call: Call, properties: Properties) -> Identity:
        """Create the resource and return its identity."""

    def update(self, call: Call, identity: Identity, before: Properties, after: Properties) -> Identity:
        """Change the resource in place. Not called for create-only properties: they need a new resource."""
        return identity

    @abstractmethod
    def delete(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Remove the resource."""

    @abstractmethod
    def confirm(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Ask the service's API for the resource; raise if it does not exist."""


class ApiType(ResourceType):
    """A type whose service has an operation to delete a resource and one to read it.

    Attributes:
        service: The service's name in boto3.
        keys: The names that operations have for the id. Each operation gets those that it knows.
        deletes: The method of boto3's client that deletes a resource.
        reads: The method that reads it.
        lists: The list in that answer that must contain the id; empty if the service refuses unknown ids.
        supports: The properties, if they are not passed on as they are.
        naming: The property with the resource's name, which also is its id.
        limit: The maximum length of a name.
        stack_in_name: True if generated names begin with the stack's.
    """

    service: str
    keys: str = ""
    deletes: str = ""
    reads: str = ""
    lists: str = ""
    supports: str = ""
    naming: str = ""
    limit: int = _LIMIT
    stack_in_name: bool = True

    def named(self, call: Call, properties: Properties) -> str:
        given: str = properties.get(self.naming, "")
        return given or call.unique_name(limit=self.limit, stack=self.stack_in_name)

    def where(self, call: Call, identity: Identity, properties: Properties) -> dict[str, Any]:
        """Return the arguments that select a resource in operations."""
        return dict.fromkeys(self.keys.split(), identity.physical_id)

    def listed_as(self, identity: Identity) -> str:
        """Return the value that a row of `lists` has for the resource."""
        return identity.physical_id

    def act(self, call: Call, method: str, where: Properties) -> dict[str, Any]:
        client = call.client(self.service)
        members = _input(client, method).members
        known = {
            name: [value] if members[name].type_name == "list" else value
            for name, value in where.items()
            if name in members
        }
        answer: dict[str, Any] = getattr(client, method)(**known)
        return answer

    def delete(self, call: Call, identity: Identity, properties: Properties) -> None:
        self.act(call, self.deletes, self.where(call, identity, properties))

    def confirm(self, call: Call, identity: Identity, properties: Properties) -> None:
        answer = self.act(call, self.reads, self.where(call, identity, properties))
        wanted = self.listed_as(identity)
        if self.lists and not any(wanted in row.values() for row in answer[self.lists]):
            raise AbsentError(f"{self.service} has no {wanted} in its {self.lists}")

    def check(self, properties: Properties) -> None:
        if self.supports:
            refuse_unknown(properties, {"Tags", self.naming, *self.supports.split()})


class CdkMetadata(ResourceType):
    """AWS::CDK::Metadata: a resource that no service has."""

    name = "AWS::CDK::Metadata"

    def create(self, call: Call, properties: Properties) -> Identity:
        return Identity(physical_id=call.unique_name())

    def delete(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Do nothing."""

    def confirm(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Do nothing."""


class PutType(ApiType):
    """A type whose service has one idempotent call to create or change a resource: `puts`."""

    puts: str = ""

    def put(self, call: Call, physical_id: str | None, properties: Properties) -> Identity:
        """Write the resource; the physical id is None for a new one. By default, it is the name."""
        name = physical_id or self.named(call, properties)
        call.ask(self.service, self.puts, {**properties, self.naming: name})
        return Identity(physical_id=name)

    def create(self, call: Call, properties: Properties) -> Identity:
        self.check(properties)
        return self.put(call, None, properties)

    def update(self, call: Call, identity: Identity, before: Properties, after: Properties) -> Identity:
        self.check(after)
        return self.put(call, identity.physical_id, after)


class ConfiguredType(ApiType):
    """A type that is created first, then configured with separate calls."""

    @abstractmethod
    def begin(self, call: Call, properties: Properties) -> Identity:
        """Create the bare resource."""

    @abstractmethod
    def configure(self, call: Call, identity: Identity, before: Properties, after: Properties) -> None:
        """Change the resource from one set of properties to the other; empty for a new resource."""

    def create(self, call: Call, properties: Properties) -> Identity:
        """Create and configure the resource. If the second part fails, the resource is deleted."""
        self.check(properties)
        identity = self.begin(call, properties)
        try:
            self.configure(call, identity, {}, properties)
        except BaseException:
            self.delete(call, identity, properties)
            raise
        return identity

    def update(self, call: Call, identity: Identity, before: Properties, after: Properties) -> Identity:
        self.check(after)
        self.configure(call, identity, before, after)
        return identity


def retag(
    client: Client,
    before: Properties,
    after: Properties,
    *,
    tag: str = "tag_resource",
    untag: str = "untag_resource",
    **owner: str,
) -> None:
    """Update a resource's tags with two operations, in the form that they have for tags."""
    put, removed = changed_tags(before, after)
    if put:
        getattr(client, tag)(**owner, **_in_form(_input(client, tag), put))
    if removed:
        [name] = [name for name in _input(client, untag).members if name.lower() == "tagkeys"]
        getattr(client, untag)(**owner, **{name: removed})


def changed_tags(before: Properties, after: Properties) -> tuple[dict[str, str], list[str]]:
    old, new = _tags(before), _tags(after)
    put = {key: value for key, value in new.items() if old.get(key) != value}
    return put, [key for key in old if key not in new]


def _tags(properties: Properties) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in properties.get("Tags", ())}


def _input(client: Client, method: str) -> Any:
    return client.meta.service_model.operation_model(client.meta.method_to_api_mapping[method]).input_shape


def _in_form(shape: Any, tags: Mapping[str, str]) -> dict[str, Any]:
    [name] = [name for name in shape.members if name.lower() == "tags"]
    if shape.members[name].type_name == "map":
        return {name: dict(tags)}
    key, value = shape.members[name].member.members
    return {name: [{key: each, value: tags[each]} for each in tags]}


def changed(before: Properties, after: Properties) -> set[str]:
    return {name for name in (*before, *after) if before.get(name) != after.get(name)}


def without(properties: Properties, *names: str) -> dict[str, Any]:
    return {key: value for key, value in properties.items() if key not in names}


def emptied(before: Properties, after: Properties, defaults: Properties) -> dict[str, Any]:
    """Return properties with the defaults of removed ones, which operations keep unless they are given."""
    return {**{name: defaults[name] for name in defaults if name in before}, **after}


def true(value: Any) -> bool:
    """Return a template's boolean, which may be a string."""
    return str(value).lower() == "true"


def as_json(value: Any) -> str:
    """Return a document or a scalar of a template as a string."""
    return value if isinstance(value, str) else json.dumps(value)


def refuse_unknown(properties: Properties, known: set[str]) -> None:
    if unknown := sorted(set(properties) - known):
        raise UnsupportedPropertyError(f"the embedded AWS does not support {', '.join(unknown)} here")


def _structure(shape: Any, value: Mapping[str, Any], path: str) -> dict[str, Any]:
    members = {name.lower(): name for name in shape.members}
    converted = {}
    for key, item in value.items():
        name = members.get(key.lower())
        if name is None:
            raise UnsupportedPropertyError(f"the embedded AWS does not support the property {path}{key} here")
        converted[name] = _convert(shape.members[name], item, f"{path}{key}.")
    return converted


def _convert(shape: Any, value: Any, path: str) -> Any:
    if shape.type_name == "structure":
        return _structure(shape, value, path)
    if shape.type_name == "list":
        return [_convert(shape.member, item, path) for item in value]
    if shape.type_name == "map":
        return {str(key): _convert(shape.value, item, path) for key, item in value.items()}
    return _SCALARS.get(shape.type_name, lambda same: same)(value)


_SCALARS: Mapping[str, Callable[[Any], Any]] = {
    "boolean": true,
    "integer": int,
    "long": int,
    "float": float,
    "double": float,
    "string": as_json,
}
