"""The tools of a probe: names, clients, journaled resources, and waiting."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from triton_models.facts.instances import InstanceType
from triton_models.facts.releases import IMAGE_ACCOUNTS, IMAGE_REPOSITORY, Release
from triton_models.probe.account import trouble
from triton_models.probe.account.journal import PREFIX, Entry, Journal
from triton_models.probe.account.resources import role_path
from triton_models.probe.transcript import Observation
from triton_models.probe.verdict import UndecidedError

_T = TypeVar("_T")

SHARED = "run"
"""The owner of resources that several probes use."""

ROLE_MINUTES = 3.0
_TAGS = {"triton-fleet": "probe"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The account, region and target of the probes.

    Attributes:
        account: The account's id.
        partition: Such as "aws".
        region: The region.
        release: The Triton release.
        instance: The endpoint's instance type.
    """

    account: str
    partition: str
    region: str
    release: Release
    instance: InstanceType

    def as_dict(self) -> dict[str, str]:
        """Return the data for the journal."""
        return {
            "account": self.account,
            "partition": self.partition,
            "region": self.region,
            "release": self.release.name,
            "instance": self.instance.name,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """The time and the pace of the probes.

    Attributes:
        now: Returns the time in seconds.
        pause: Waits between two polls of AWS.
        slow_load_s: Load time of the slow model, longer than a request waits, which is 60 seconds on AWS.
        slow_answer_s: Duration of the answer during which an endpoint is deleted.
        bake_s: Bake time of a deployment.
    """

    now: Callable[[], float] = time.monotonic
    pause: Callable[[], None] = lambda: time.sleep(10)
    slow_load_s: float = 80.0
    slow_answer_s: float = 30.0
    bake_s: int = 60


class Clients:
    """The clients of a session in a region, each created once."""

    def __init__(self, session: Any, region: str) -> None:
        self._session = session
        self._region = region
        self._made: dict[tuple[str, str], Any] = {}

    def __call__(self, service: str, region: str = "") -> Any:
        """Return the client of a service, in the run's region or another."""
        from botocore.config import Config

        region = region or self._region
        if (service, region) not in self._made:
            config = Config(retries={"mode": "standard", "total_max_attempts": 5})
            if service == "sagemaker-runtime":  # a status of 429 is a finding, not an error to retry
                config = Config(retries={"total_max_attempts": 1}, read_timeout=75)
            self._made[service, region] = self._session.client(service, region_name=region, config=config)
        return self._made[service, region]

    def assumed(self, service: str, credentials: Mapping[str, str]) -> Any:
        """Return a client of a service with the credentials of an assumed role."""
        return self._session.client(
            service,
            region_name=self._region,
            aws_access_key_id=credentials["AccessKeyId"],
            aws_secret_access_key=credentials["SecretAccessKey"],
            aws_session_token=credentials["SessionToken"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A run, as a probe sees it.

    Attributes:
        place: The account, region and target of the probes.
        clients: The clients of the caller's session, by service.
        journal: The journal of the run's resources.
        clock: The time and the pace of the probes.
        background: Threads for long requests.
        owner: The id of the probe, which owns what it creates.
        observations: The probe's observations, for the transcript.
    """

    place: Place
    clients: Clients
    journal: Journal
    background: ThreadPoolExecutor
    clock: Clock = field(default_factory=Clock)
    owner: str = SHARED
    observations: list[Observation] = field(default_factory=list)

    def of(self, owner: str) -> Work:
        """Return the same run for one probe."""
        return replace(self, owner=owner, observations=[])

    def name(self, suffix: str) -> str:
        """Return the name of a resource of this run."""
        return f"{PREFIX}{self.journal.run}-{suffix}"

    def observe(self, what: str, asked: Mapping[str, Any], answered: Mapping[str, Any]) -> None:
        """Record a question and its answer for the transcript."""
        self.observations.append(Observation(id=what, asked=asked, answered=answered))

    @property
    def tags(self) -> list[dict[str, str]]:
        """The tags, in the format of most services."""
        return [{"Key": key, "Value": value} for key, value in self._tags.items()]

    @property
    def _tags(self) -> dict[str, str]:
        return {**_TAGS, "triton-fleet-run": self.journal.run}

    def create(
        self, kind: str, name: str, make: Callable[[], Any], *, owner: str | None = None, **detail: str
    ) -> Entry:
        """Create a resource, unless an earlier process of this run has done so.

        The journal records it before the request, so that it can always be found again.
        """
        from botocore.exceptions import ClientError

        known = self.journal.entry(kind, name)
        if known is not None and known.made:
            return known
        entry = self.journal.intend(kind, name, owner or self.owner, detail)
        try:
            make()
        except ClientError as error:
            if not trouble.taken(error):
                self.journal.forget(entry)  # the request was refused
                raise
            if known is None and not trouble.asked_again(error):  # it belongs to someone else
                self.journal.forget(entry)
                raise UndecidedError(trouble.reason(error)) from None
        self.journal.made(entry)
        return entry

    def until(self, look: Callable[[], _T | None], *, minutes: float, what: str) -> Generator[None, None, _T]:
        """Wait until `look` returns something other than None.

        Raises:
            UndecidedError: It does not within this time.
        """
        end = self.clock.now() + minutes * 60
        while (found := look()) is None:
            if self.clock.now() > end:
                msg = f"{what} took longer than {minutes:g} minutes"
                raise UndecidedError(msg)
            yield
        return found

    def when_role_is_known(self, call: Callable[[], _T]) -> Generator[None, None, _T]:
        """Make a call that names a new role, which takes seconds to propagate."""
        from botocore.exceptions import ClientError

        end = self.clock.now() + ROLE_MINUTES * 60
        while True:
            try:
                return call()
            except ClientError as error:
                if not trouble.role_is_new(error) or self.clock.now() > end:
                    raise
            yield

    def in_background(self, call: Callable[[], _T]) -> Generator[None, None, _T]:
        """Make a long call while other probes continue."""
        future = self.background.submit(call)
        while not future.done():
            yield
        return future.result()

    @property
    def image(self) -> str:
        """The URI of the release's image with GPU backends."""
        return self.image_of(self.place.release.image_tag)

    def image_of(self, tag: str) -> str:
        """Return the URI of an image in AWS's registry of this region.

        Raises:
            UndecidedError: AWS does not publish the release in this region.
        """
        registry = f"{self.registry}.dkr.ecr.{self.place.region}.amazonaws.com"
        suffix = ".cn" if self.place.partition == "aws-cn" else ""
        return f"{registry}{suffix}/{IMAGE_REPOSITORY}:{tag}"

    @property
    def registry(self) -> str:
        """The AWS account that holds the images in this region.

        Raises:
            UndecidedError: AWS does not publish the release in this region.
        """
        region = self.place.region
        if region not in IMAGE_ACCOUNTS or region not in self.place.release.regions:
            msg = f"AWS lists no image of release {self.place.release.name} in {region}"
            raise UndecidedError(msg)
        return IMAGE_ACCOUNTS[region]

    @property
    def another_type(self) -> str:
        """An instance type other than the endpoint's, with the same GPU or a similar one."""
        return "ml.g5.xlarge" if self.place.instance.name != "ml.g5.xlarge" else "ml.g5.2xlarge"

    def bucket(self) -> str:
        """Return the name of the run's bucket, created on first use."""
        name, region = self.name("models"), self.place.region
        where = {} if region == "us-east-1" else {"LocationConstraint": region}
        more = {"CreateBucketConfiguration": where} if where else {}
        s3 = self.clients("s3")
        self.create("bucket", name, lambda: s3.create_bucket(Bucket=name, **more), owner=SHARED)
        return name

    def role(self) -> str:
        """Return the ARN of the role of builds and endpoints, created on first use.

        It has the permissions of a fleet's execution role: to read the objects of one prefix and list that
        prefix, to pull images, and to write logs to an existing group.
        """
        bucket = f"arn:{self.place.partition}:s3:::{self.name('models')}"
        statements = [
            _allow(["s3:GetObject"], f"{bucket}/models/*", f"{bucket}/empty/*"),
            _allow(["s3:ListBucket"], bucket)
            | {"Condition": {"StringLike": {"s3:prefix": ["models/*", "empty/*"]}}},
            _allow(
                [
                    "ecr:GetAuthorizationToken",
                    "ecr:BatchCheckLayerAvailability",
                    "ecr:GetDownloadUrlForLayer",
                    "ecr:BatchGetImage",
                    "cloudwatch:PutMetricData",
                    "cloudwatch:DescribeAlarms",
                    "logs:CreateLogStream",
                    "logs:PutLogEvents",
                    "logs:DescribeLogStreams",
                ],
                "*",
            ),
        ]
        services = ("codebuild.amazonaws.com", "sagemaker.amazonaws.com")
        return self.new_role("role", {"Service": list(services)}, statements, owner=SHARED)

    def assume(
        self, suffix: str, statements: list[dict[str, Any]]
    ) -> Generator[None, None, Mapping[str, str]]:
        """Return the credentials of a new role with these permissions, which this account may assume."""
        principal = {"AWS": f"arn:{self.place.partition}:iam::{self.place.account}:root"}
        role, sts = self.new_role(suffix, principal, statements), self.clients("sts")
        session = yield from self.when_role_is_known(
            lambda: sts.assume_role(RoleArn=role, RoleSessionName="probe", DurationSeconds=900)
        )
        credentials: Mapping[str, str] = session["Credentials"]
        return credentials

    def new_role(
        self,
        suffix: str,
        principal: Mapping[str, Any],
        statements: list[dict[str, Any]],
        *,
        owner: str | None = None,
    ) -> str:
        """Create a role of this run with a single policy, and return its ARN."""
        iam, name, path = self.clients("iam"), self.name(suffix), role_path(self.place.region)
        trust = {"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRole"}

        def make() -> None:
            iam.create_role(
                RoleName=name,
                Path=path,
                AssumeRolePolicyDocument=_document([trust]),
                MaxSessionDuration=3600,
                Tags=self.tags,
            )

        entry = self.create("role", name, make, owner=owner)
        if not entry.detail.get("policy"):
            iam.put_role_policy(RoleName=name, PolicyName="probe", PolicyDocument=_document(statements))
            self.journal.made(entry, policy="probe")
        return f"arn:{self.place.partition}:iam::{self.place.account}:role{path}{name}"


def _allow(actions: list[str], *resources: str) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": actions, "Resource": list(resources)}


def _document(statements: list[dict[str, Any]]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statements})
