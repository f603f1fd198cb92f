"""An endpoint's alias: a name that stays, while the endpoint behind it is replaced by another.

It holds the endpoint's name and its target in one value, so that no reader gets an old one with a new one:
{"endpoint": "TritonFleet-g5-2xlarge-25-09", "target": "sm86-trt10.13.3"}. An endpoint's name alone is what
aliases held before there were targets.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from triton_models.artifact.targets import ArtifactTarget
from triton_models.base.errors import FleetError
from triton_models.client.deadline import CLOCK, Clock, Deadline
from triton_models.client.remembered import Remembered

# For how long an alias is taken from memory, in seconds. Systems Manager answers 40 reads a second for an
# account by default, which is a thousand clients at this age. Read on 2026-11-21:
# https://docs.aws.amazon.com/general/latest/gr/ssm.html
ALIAS_AGE_S = 30.0


def alias_name(fleet: str) -> str:
    """The name of a fleet's alias, which is a parameter of Systems Manager."""
    return f"/triton-fleet/{fleet}/endpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class Aliased:
    """What an alias names.

    Attributes:
        endpoint: The endpoint's name.
        target: Its target; None if the alias does not say.
    """

    endpoint: str
    target: ArtifactTarget | None = None

    @classmethod
    def parse(cls, value: str) -> Aliased:
        """What the value of an alias names.

        Raises:
            FleetError: It is not the value of an alias.
        """
        if not value.startswith("{"):
            return cls(endpoint=value)
        try:
            document = json.loads(value)
            endpoint, target = document["endpoint"], document["target"]
        except (ValueError, KeyError) as error:
            raise FleetError.of(
                what=f"{value!r} is not the value of an alias: {type(error).__name__} {error}",
                where="the alias",
                expected='{"endpoint": NAME, "target": TARGET}, or an endpoint\'s name',
                fix="deploy the inference stack again, which writes it",
                rule="alias",
            ) from None
        return cls(endpoint=endpoint, target=ArtifactTarget.parse(target))

    def __str__(self) -> str:
        """The value that `parse` reads."""
        if self.target is None:
            return self.endpoint
        return json.dumps({"endpoint": self.endpoint, "target": str(self.target)})


class Alias:
    """An alias as a client follows it; safe to use from many threads.

    Args:
        name: The parameter's name.
        ssm: A boto3 client of Systems Manager.
        age_s: For how long what it names is known before the alias is read again, in the background.
        clock: The clock of its age.
    """

    def __init__(self, name: str, *, ssm: Any, age_s: float = ALIAS_AGE_S, clock: Clock = CLOCK) -> None:
        self.name = name
        self._named = Remembered(
            lambda _: read_alias(name, ssm=ssm), what=f"the alias {name}", age_s=age_s, clock=clock
        )

    def names(self, deadline: Deadline) -> Aliased:
        """The endpoint that serves now, with its target.

        Raises:
            FleetError: There is no such alias, or it cannot be read.
        """
        return self._named.get(deadline)

    def after(self, gone: str, deadline: Deadline) -> Aliased:
        """The endpoint that took the place of one; the same one if none did.

        Args:
            gone: The endpoint that does not answer any more.
            deadline: How long to wait.

        Raises:
            FleetError: As `names`.
        """
        known = self._named.value
        if known is not None and known.endpoint != gone:  # another thread has found out first
            return known
        return self._named.fresh(deadline)


def read_alias(name: str, *, ssm: Any) -> Aliased:
    """Read what an alias names.

    Raises:
        FleetError: There is no such alias, or it cannot be read.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        return Aliased.parse(ssm.get_parameter(Name=name)["Parameter"]["Value"])
    except ClientError as error:
        code = error.response["Error"]["Code"]
        raise FleetError.of(
            what=_MISTAKES.get(code, "the parameter {name} cannot be read").format(name=name),
            where=f"the alias {name}",
            expected="the alias of a deployed fleet, and permission to read it",
            why=f"{code}: {error.response['Error'].get('Message', '')}",
            fix="give the name that the inference stack puts out, and the role EndpointAlias.grant_read",
            rule="alias",
        ) from None
    except BotoCoreError as error:
        raise FleetError.of(
            what=f"the parameter {name} cannot be read",
            where=f"the alias {name}",
            expected="an answer of Systems Manager",
            why=str(error),
            fix="check the credentials, the network, the region, and AWS_ENDPOINT_URL if it is set",
            rule="alias",
        ) from None


_MISTAKES = {
    "ParameterNotFound": "there is no parameter {name}",
    "AccessDeniedException": "reading the parameter {name} is denied",
    "ValidationException": "{name!r} is no name of a parameter",
}
