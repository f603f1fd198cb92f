"""Dynamic references in properties: values in Systems Manager and Secrets Manager.

CloudFormation does not resolve them in outputs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from moto.cloudformation.exceptions import ValidationError
from moto.secretsmanager.models import secretsmanager_backends
from moto.ssm.exceptions import ParameterVersionNotFound
from moto.ssm.models import ssm_backends

from embedded_aws.cloudformation.functions import text

_REFERENCE = re.compile(r"\{\{resolve:(ssm|ssm-secure|secretsmanager):([^{}]*)\}\}")
_PARAMETER = re.compile(r"[\w./-]+(:\d+)?")
# The parts of an ARN, of which a secret's contains seven.
_ARN = 7

# Source: 2026-11-25, the page on dynamic references to secure strings of the CloudFormation user guide.
_SECURE = frozenset(
    {
        "AWS::DirectoryService::MicrosoftAD/Properties/Password",
        "AWS::DirectoryService::SimpleAD/Properties/Password",
        "AWS::ElastiCache::ReplicationGroup/Properties/AuthToken",
        "AWS::IAM::User/Properties/LoginProfile/Password",
        "AWS::KinesisFirehose::DeliveryStream/Properties/RedshiftDestinationConfiguration/Password",
        "AWS::OpsWorks::App/Properties/AppSource/Password",
        "AWS::OpsWorks::Stack/Properties/CustomCookbooksSource/Password",
        "AWS::OpsWorks::Stack/Properties/RdsDbInstances/DbPassword",
        "AWS::RDS::DBCluster/Properties/MasterUserPassword",
        "AWS::RDS::DBInstance/Properties/MasterUserPassword",
        "AWS::Redshift::Cluster/Properties/MasterUserPassword",
    }
)


def stored_parameter(name: str, *, account: str, region: str) -> Any:
    """Return moto's parameter by its name, with or without a version; None if it does not exist."""
    try:
        return ssm_backends[account][region].get_parameter(name)
    except ParameterVersionNotFound:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class References:
    """The dynamic references of a stack.

    Attributes:
        account: The stack's account.
        region: The stack's region.
    """

    account: str
    region: str

    def resolve(self, value: Any, place: str) -> Any:
        """Return a value with its references resolved."""
        if isinstance(value, Mapping):
            return {key: self.resolve(item, f"{place}/{key}") for key, item in value.items()}
        if isinstance(value, list):
            return [self.resolve(item, place) for item in value]
        return (
            _REFERENCE.sub(lambda found: self._value(found, place), value)
            if isinstance(value, str)
            else value
        )

    def check(self, value: Any, place: str) -> None:
        """Check the references to Systems Manager that no function builds: CreateStack refuses them."""
        if isinstance(value, Mapping):
            for key, item in value.items():
                self.check(item, place if key.startswith("Fn::") else f"{place}/{key}")
        elif isinstance(value, list):
            for item in value:
                self.check(item, place)
        elif isinstance(value, str):
            for found in _REFERENCE.finditer(value):
                if found[1] != "secretsmanager":
                    self._value(found, place)

    def _value(self, found: re.Match[str], place: str) -> str:
        service, name = found.groups()
        if service == "secretsmanager":
            return self._secret(name)
        if service == "ssm-secure" and place not in _SECURE:
            _refuse(f"SSM Secure reference is not supported in: [{place}]")
        if not _PARAMETER.fullmatch(name):
            _refuse(f"Incorrect format is used in the following SSM reference: [{found[0]}]")
        parameter = stored_parameter(name, account=self.account, region=self.region)
        if parameter is None:
            _refuse(f"Parameters: [{service}:{name}] cannot be found.")
        if service == "ssm" and parameter.parameter_type == "SecureString":
            _refuse(f"Non-secure ssm prefix was used for secure parameter {parameter.name}")
        return str(parameter.decrypt(parameter.value))

    def _secret(self, name: str) -> str:
        parts = name.split(":")
        end = _ARN if name.startswith("arn:") else 1
        _, key, stage, version = (*parts[end:], "", "", "", "")[:4]
        secrets = secretsmanager_backends[self.account][self.region]
        found = secrets.get_secret_value(":".join(parts[:end]), version, stage)["SecretString"]
        if not key:
            return str(found)
        try:
            return text(json.loads(found)[key])
        except json.JSONDecodeError:
            _refuse("Could not parse SecretString JSON")
        except KeyError:
            _refuse("Could not find a value associated with JSONKey in SecretString")


def _refuse(message: str) -> NoReturn:
    raise ValidationError(message=message)
