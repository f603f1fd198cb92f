"""The alias of an endpoint: a stable name whose endpoint can be replaced.

It contains the endpoint's name and its target in one value, so that readers get a consistent pair:
{"endpoint": "TritonFleet-g5-2xlarge-25-09", "target": "sm86-trt10.13.3"}. Older aliases contain only the
endpoint's name.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from triton_models.artifact.targets import ArtifactTarget
from triton_models.base.checks import FROM_ARGUMENTS, Check

ALIAS = Check(id="alias", source=FROM_ARGUMENTS)

# The time for which an alias is cached, in seconds. By default, Systems Manager answers 40 reads per second
# and account, which suffices for a thousand clients. Read on 2026-11-21:
# https://docs.aws.amazon.com/general/latest/gr/ssm.html
ALIAS_AGE_S = 30.0


def alias_name(fleet: str) -> str:
    """Return the name of a fleet's alias, a parameter of Systems Manager."""
    return f"/triton-fleet/{fleet}/endpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class Aliased:
    """The value of an alias."""

    endpoint: str
    target: ArtifactTarget | None = None

    @classmethod
    def parse(cls, value: str) -> Aliased:
        """Parse the value of an alias."""
        if not value.startswith("{"):
            return cls(endpoint=value)
        try:
            document = json.loads(value)
            endpoint, target = document["endpoint"], document["target"]
        except (ValueError, KeyError) as error:
            raise ALIAS.error(
                what=f"{value!r} is not the value of an alias: {type(error).__name__} {error}",
                where="the alias",
                fix="deploy the inference stack again, which writes the alias",
            ) from None
        return cls(endpoint=endpoint, target=ArtifactTarget.parse(target))

    def __str__(self) -> str:
        """Return the value for `parse`."""
        if self.target is None:
            return self.endpoint
        return json.dumps({"endpoint": self.endpoint, "target": str(self.target)})


def endpoint_of(*, alias: str | None, endpoint: str | None, target: str | None = None) -> Aliased:
    """Return the endpoint of `--alias`, or of `--endpoint` and `--target`; one of the first two is given."""
    if alias is not None:
        return read_alias(alias)
    return Aliased(endpoint=endpoint or "", target=None if target is None else ArtifactTarget.parse(target))


def read_alias(name: str, *, ssm: Any = None) -> Aliased:
    """Read the value of an alias."""
    import boto3.session
    from botocore.exceptions import BotoCoreError, ClientError

    from triton_models.repository.s3 import error_code, error_message

    where, what = f"the alias {name}", f"cannot read the parameter {name}"
    try:
        ssm = ssm or boto3.session.Session().client("ssm")
        return Aliased.parse(ssm.get_parameter(Name=name)["Parameter"]["Value"])
    except ClientError as error:
        code = error_code(error)
        what, why = _MISTAKES.get(code, what).format(name=name), f"{code}: {error_message(error)}"
        fix = "use the name in the inference stack's outputs, and EndpointAlias.grant_read for the role"
        raise ALIAS.error(what=what, where=where, why=why, fix=fix) from None
    except BotoCoreError as error:
        fix = "check the credentials, the network, the region, and AWS_ENDPOINT_URL if it is set"
        raise ALIAS.error(what=what, where=where, why=str(error), fix=fix) from None


_MISTAKES = {
    "ParameterNotFound": "the parameter {name} does not exist",
    "AccessDeniedException": "access to the parameter {name} is denied",
    "ValidationException": "{name!r} is not a valid parameter name",
}
