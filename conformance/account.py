"""An AWS to ask: an account, or the embedded AWS."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import cached_property
from typing import Any, TypeVar

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from conformance.sweep import PREFIX, ROLES, TAG, sweep
from triton_models.facts.instances import InstanceType
from triton_models.facts.releases import IMAGE_ACCOUNTS, IMAGE_REPOSITORY, Release

_T = TypeVar("_T")

MODELS = "models/"
"""The prefix of the model repository in the bucket."""

ENVIRONMENT = {
    "SAGEMAKER_TRITON_PING_MODE": "live",
    "SAGEMAKER_TRITON_LOG_VERBOSE": "false",
    "SAGEMAKER_TRITON_SHM_DEFAULT_BYTE_SIZE": "1048576",
    "SAGEMAKER_TRITON_SHM_GROWTH_BYTE_SIZE": "1048576",
}
"""The container's environment: the defaults of a fleet."""

CPU_TYPE = "ml.m5.xlarge"
"""The instance type of endpoints that need no GPU, at a fifth of the price."""

# What says nothing about a belief.
_DENIED = "a permission or valid credentials are missing"
_HINDRANCES = {
    _DENIED: r"AccessDenied|Unauthorized|[Nn]ot ?[Aa]uthorized|\(403\)|"
    r"ExpiredToken|RequestExpired|InvalidClientTokenId|InvalidAccessKey|UnrecognizedClient",
    "a quota is too low": r"LimitExceeded|ServiceQuotaExceeded|TooManyBuckets",
    "AWS has no capacity": r"InsufficientInstanceCapacity|insufficient capacity|Unable to provision",
}


def hindrance(reason: object) -> str:
    """Return why an error or the reason of a failure decides nothing; empty if it might."""
    found = (why for why, pattern in _HINDRANCES.items() if re.search(pattern, str(reason)))
    return next((f"{why}: {reason}" for why in found), "")


def denied(error: ClientError) -> bool:
    """Return True if the caller lacks a permission or is signed out."""
    return hindrance(error).startswith(_DENIED)


def refusal(call: Callable[[], Any]) -> str:
    """Return the code of the error with which AWS refuses a call; empty if it accepts."""
    try:
        call()
    except ClientError as error:
        if hindrance(error):
            raise
        return str(error.response["Error"]["Code"])
    return ""


def allow(actions: Sequence[str], *resources: str, **more: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": list(actions), "Resource": list(resources) or "*", **more}


def dimensions(endpoint: str) -> list[dict[str, str]]:
    return [{"Name": "EndpointName", "Value": endpoint}, {"Name": "VariantName", "Value": "AllTraffic"}]


def lists(bucket: str, *prefixes: str) -> dict[str, Any]:
    """Return the statement of a policy that allows to list prefixes of a bucket, given by its ARN."""
    return allow(["s3:ListBucket"], bucket, Condition={"StringLike": {"s3:prefix": list(prefixes)}})


def policy(*statements: Mapping[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


@dataclass(frozen=True, kw_only=True, eq=False)
class Account:
    """An account or the embedded AWS, as one module of tests sees it.

    Attributes:
        session: The boto3 session.
        region: The region.
        run: The id of this run.
        module: The name of the module of tests, which is part of its resources' names.
        release: The Triton release.
        instance: The instance type of endpoints with a GPU.
        embedded: The embedded AWS; None for an account.
        hosting: The URL of the embedded AWS's InvokeEndpoint, if it hosts endpoints.
    """

    session: Any
    region: str
    run: str
    module: str
    release: Release
    instance: InstanceType
    embedded: Any = None
    hosting: str = ""
    _clients: dict[tuple[str, ...], Any] = field(default_factory=dict)

    def client(self, service: str, region: str = "", **credentials: str) -> Any:
        """Return the client of a service, by default in the run's region, as the caller."""
        key = (service, region or self.region, *credentials.values())
        if key not in self._clients:
            config, url = Config(retries={"mode": "standard", "total_max_attempts": 5}), ""
            if service == "sagemaker-runtime":  # a status of 429 is an answer, not an error to retry
                config, url = Config(retries={"total_max_attempts": 1}, read_timeout=75), self.hosting
            where = {"endpoint_url": url or self.embedded.url} if self.embedded else {}
            made = self.session.client(service, region_name=key[1], config=config, **where, **credentials)
            self._clients[key] = made
        return self._clients[key]

    @cached_property
    def id(self) -> str:
        return str(self.client("sts").get_caller_identity()["Account"])

    @property
    def partition(self) -> str:
        return str(self.session.get_partition_for_region(self.region))

    @property
    def tags(self) -> list[dict[str, str]]:
        """The tag of everything that a run creates."""
        return [{"Key": TAG, "Value": self.run}]

    @property
    def lower_tags(self) -> list[dict[str, str]]:
        return [{"key": TAG, "value": self.run}]

    def name(self, suffix: str) -> str:
        """Return the name of a resource, with the run and the module of tests."""
        return f"{PREFIX}{self.run}-{self.module}-{suffix}"

    def arn(self, service: str, resource: str, region: str = "") -> str:
        return f"arn:{self.partition}:{service}:{region or self.region}:{self.id}:{resource}"

    def pause(self) -> None:
        time.sleep(0.02 if self.embedded else 10)

    def watch(self, look: Callable[[], _T], *, minutes: float, seconds_here: float = 1) -> _T:
        """Return what `look` finds, after some minutes even if that is nothing."""
        end = time.monotonic() + (seconds_here if self.embedded else minutes * 60)
        while not (found := look()) and time.monotonic() < end:
            self.pause()
        return found

    def until(self, look: Callable[[], _T | None], *, minutes: float, what: str) -> _T:
        """Return what `look` finds. A test that waits for longer decides nothing, and is skipped."""
        found = self.watch(look, minutes=minutes, seconds_here=20)
        if not found:
            pytest.skip(f"{what} takes longer than {minutes:g} minutes")
        return found

    def with_new_role(self, call: Callable[[], _T], words: str = "assume") -> _T:
        """Make a call that names a new role, again until the service sees the role, for three minutes."""
        end = time.monotonic() + (1 if self.embedded else 180)
        while True:
            try:
                return call()
            except ClientError as error:
                if words not in str(error).lower() or time.monotonic() > end:
                    raise
            self.pause()

    @cached_property
    def bucket(self) -> str:
        name, where = self.name("models"), {"LocationConstraint": self.region}
        more = {} if self.region == "us-east-1" else {"CreateBucketConfiguration": where}
        self.client("s3").create_bucket(Bucket=name, **more)
        self.client("s3").put_bucket_tagging(Bucket=name, Tagging={"TagSet": self.tags})
        return name

    @cached_property
    def role(self) -> str:
        """The ARN of the role of builds and endpoints, with the permissions of a fleet's execution role."""
        bucket = f"arn:{self.partition}:s3:::{self.name('models')}"
        return self.new_role(
            "role",
            {"Service": ["codebuild.amazonaws.com", "sagemaker.amazonaws.com"]},
            allow(["s3:GetObject"], f"{bucket}/{MODELS}*", f"{bucket}/empty/*"),
            lists(bucket, f"{MODELS}*", "empty/*"),
            allow(["ecr:GetAuthorizationToken", "ecr:BatchCheckLayerAvailability"]),
            allow(["ecr:GetDownloadUrlForLayer", "ecr:BatchGetImage"]),
            allow(["cloudwatch:PutMetricData", "cloudwatch:DescribeAlarms"]),
            allow(["logs:CreateLogStream", "logs:PutLogEvents", "logs:DescribeLogStreams"]),
        )

    def new_role(self, suffix: str, principal: Mapping[str, Any], *statements: Mapping[str, Any]) -> str:
        iam, name = self.client("iam"), self.name(suffix)
        trust = {"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRole"}
        asked = {"RoleName": name, "Path": f"{ROLES}{self.region}/", "Tags": self.tags}
        created = iam.create_role(**asked, AssumeRolePolicyDocument=policy(trust))
        iam.put_role_policy(RoleName=name, PolicyName="conformance", PolicyDocument=policy(*statements))
        return str(created["Role"]["Arn"])

    def as_role(self, service: str, suffix: str, *statements: Mapping[str, Any]) -> Any:
        role = self.new_role(suffix, {"AWS": f"arn:{self.partition}:iam::{self.id}:root"}, *statements)
        asked = {"RoleArn": role, "RoleSessionName": "conformance", "DurationSeconds": 900}
        sts = self.client("sts")
        given = self.with_new_role(lambda: sts.assume_role(**asked), "assumerole")["Credentials"]
        return self.client(
            service,
            aws_access_key_id=given["AccessKeyId"],
            aws_secret_access_key=given["SecretAccessKey"],
            aws_session_token=given["SessionToken"],
        )

    def put(self, key: str, content: bytes) -> str:
        self.client("s3").put_object(Bucket=self.bucket, Key=f"{MODELS}{key}", Body=content)
        return key

    def image(self, suffix: str = "") -> str:
        if self.region not in IMAGE_ACCOUNTS or self.region not in self.release.regions:
            pytest.skip(f"AWS lists no image of release {self.release.name} in {self.region}")
        host = f"{IMAGE_ACCOUNTS[self.region]}.dkr.ecr.{self.region}.amazonaws.com"
        end = ".cn" if self.partition == "aws-cn" else ""
        return f"{host}{end}/{IMAGE_REPOSITORY}:{self.release.image_tag}{suffix}"

    def model(self, suffix: str, *, prefix: str = MODELS) -> str:
        """Create a multi-model Model on a prefix of the bucket, and return its name."""
        name, sagemaker = self.name(suffix), self.client("sagemaker")
        container = {
            "Image": self.image(),
            "Mode": "MultiModel",
            "ModelDataUrl": f"s3://{self.bucket}/{prefix}",
            "Environment": ENVIRONMENT,
        }
        asked = {"ModelName": name, "PrimaryContainer": container, "ExecutionRoleArn": self.role}
        self.with_new_role(lambda: sagemaker.create_model(**asked, Tags=self.tags))
        return name

    def variant(self, model: str, **more: Any) -> dict[str, Any]:
        """Return a production variant with one instance, like a fleet's."""
        return {
            "VariantName": "AllTraffic",
            "ModelName": model,
            "InitialInstanceCount": 1,
            "InstanceType": self.instance.name,
            "InitialVariantWeight": 1.0,
            **more,
        }

    def configuration(self, suffix: str, *variants: Mapping[str, Any], **more: Any) -> str:
        name = self.name(suffix)
        self.client("sagemaker").create_endpoint_config(
            EndpointConfigName=name, ProductionVariants=list(variants), Tags=self.tags, **more
        )
        return name

    def alarm(self, suffix: str, **more: Any) -> str:
        name, metric = self.name(suffix), {"Namespace": TAG, "MetricName": "none", "Statistic": "Maximum"}
        above = {"Threshold": 1.0, "ComparisonOperator": "GreaterThanThreshold"}
        self.client("cloudwatch").put_metric_alarm(
            AlarmName=name, Tags=self.tags, Period=60, EvaluationPeriods=1, **metric, **above, **more
        )
        return name

    def statistics(self, endpoint: str, metric: str, *, period: int, statistic: str) -> list[Any]:
        """Return the data points of a metric of an endpoint's instances in the last hour, in order."""
        now = datetime.now(tz=timezone.utc)
        found = self.client("cloudwatch").get_metric_statistics(
            Namespace="/aws/sagemaker/Endpoints",
            MetricName=metric,
            Dimensions=dimensions(endpoint),
            StartTime=now - timedelta(hours=1),
            EndTime=now + timedelta(minutes=1),
            Period=period,
            Statistics=[statistic],
        )
        return sorted(found["Datapoints"], key=lambda each: each["Timestamp"])

    def log_group(self, name: str) -> str:
        self.client("logs").create_log_group(logGroupName=name, tags={TAG: self.run})
        return name

    def clear(self) -> list[str]:
        """Remove the module's resources. Returns what could not be removed."""
        return sweep(self.client, self.region, self.name(""), pause=self.pause)
