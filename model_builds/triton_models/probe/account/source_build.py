"""The probe of a build from a source in S3, on CodeBuild's smallest machine and in CodeBuild's own image."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Generator, Iterator
from typing import Any

from triton_models.builds import locked
from triton_models.probe.account import codebuild, trouble
from triton_models.probe.account.costs import CPU_BUILD
from triton_models.probe.account.journal import Entry
from triton_models.probe.account.probe import AccountProbe, Steps
from triton_models.probe.account.work import SHARED, Work
from triton_models.probe.verdict import Verdict, decide, undecided

GRACE_S = 120.0
"""The maximum time that the deployment's function waits for new permissions."""

IMAGE = "aws/codebuild/amazonlinux-x86_64-standard:5.0"
"""The image of the build that starts a Processing job."""

_LOG_GROUP = "/aws/codebuild/"
_KEY, _MARKER = "source.zip", "the source was read"
_TORCH = f"{locked.INDEX}/torch/"
_REFUSED_MINUTES = 10.0
_SOURCE, _LOG, _PYTHON, _INDEX = "FLEET_SOURCE", "FLEET_LOG", "FLEET_BOTO3", "FLEET_INDEX"


def _build(work: Work) -> Steps:
    """Run a build whose source a narrow role reads, started by a new role."""
    project = yield from codebuild.create_project(work, _order(work))
    if "build" in project.detail:
        started = undecided(_PROPAGATION, "it was started by an earlier process")
    else:
        started = yield from _started(work, project)
    build = yield from codebuild.finished(work, project)
    return [started, *_of_build(work, build)]


def _order(work: Work) -> codebuild.Order:
    """Return the build, with its source in S3 and a role with the permissions of a fleet's build role."""
    bucket, group = work.bucket(), f"{_LOG_GROUP}{work.name('source')}"
    work.clients("s3").put_object(Bucket=bucket, Key=_KEY, Body=_source())
    logs = work.clients("logs")
    work.create("log-group", group, lambda: logs.create_log_group(logGroupName=group), owner=SHARED)
    arn = f"arn:{work.place.partition}:s3:::{bucket}"
    groups = f"arn:{work.place.partition}:logs:{work.place.region}:{work.place.account}:log-group:{group}:*"
    allowed = (
        (["s3:GetObject", "s3:GetObjectVersion"], f"{arn}/{_KEY}"),
        (["s3:GetBucketAcl", "s3:GetBucketLocation"], arn),
        (["logs:CreateLogStream", "logs:PutLogEvents"], groups),
    )
    statements = [{"Effect": "Allow", "Action": actions, "Resource": where} for actions, where in allowed]
    return codebuild.Order(
        suffix="source",
        image=IMAGE,
        machine="LINUX_CONTAINER",
        compute="BUILD_GENERAL1_SMALL",
        commands={
            _SOURCE: "cat marker",
            _LOG: "echo $CODEBUILD_LOG_PATH",
            _PYTHON: "python3 -c 'import boto3; print(boto3.__version__)'",
            _INDEX: f"{{ curl -sS --fail --max-time 60 {_TORCH} | grep -o '{_wheel()}' | head -3; }}",
        },
        role=work.new_role("source", {"Service": "codebuild.amazonaws.com"}, statements),
        own_image=True,
        source=f"{bucket}/{_KEY}",
        log_group=group,
    )


def _source() -> bytes:
    """Return a source folder as a zip file."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("marker", _MARKER)
    return packed.getvalue()


def _started(work: Work, project: Entry) -> Generator[None, None, Verdict]:
    """Start the build with a new role, and return the verdict on the delay of its permissions."""
    from botocore.exceptions import ClientError

    place = work.place
    arn = f"arn:{place.partition}:codebuild:{place.region}:{place.account}:project/{project.name}"
    allowed = [{"Effect": "Allow", "Action": "codebuild:StartBuild", "Resource": arn}]
    began = work.clock.now()
    starter = work.clients.assumed("codebuild", (yield from work.assume("starter", allowed)))
    request, refusal = codebuild.start_request(project.name), ""
    while (waited := work.clock.now() - began) < _REFUSED_MINUTES * 60:
        try:
            started = yield from work.when_role_is_known(lambda: starter.start_build(**request))
        except ClientError as error:
            if not trouble.denied(error):
                raise
            refusal = trouble.message(error)
            yield
        else:
            work.journal.made(project, build=started["build"]["id"])
            seen = f"a role could start a build {waited:.0f} s after its creation was requested"
            return decide(_PROPAGATION, seen, holds=waited <= GRACE_S)
    codebuilds = work.clients("codebuild")
    started = yield from work.when_role_is_known(lambda: codebuilds.start_build(**request))
    work.journal.made(project, build=started["build"]["id"])
    return decide(_PROPAGATION, f"refused for {waited:.0f} s: {refusal}", holds=False)


def _of_build(work: Work, build: Any) -> Iterator[Verdict]:
    """Yield the verdicts on a build that has ended."""
    source, log, python, index = _OF_BUILD
    why = codebuild.said(build)
    if build["buildStatus"] != "SUCCEEDED":
        failed = [each["phaseType"] for each in build["phases"] if each.get("phaseStatus") == "FAILED"]
        yield decide(source, why, holds=False) if "DOWNLOAD_SOURCE" in failed else undecided(source, why)
        yield from (undecided(each, why) for each in (log, python, index))
        return
    found = codebuild.exported(build)
    work.observe("source-build", {"image": IMAGE}, {"boto3": found.get(_PYTHON, "")})
    yield decide(source, f"the marker says {found.get(_SOURCE, '')!r}", holds=found.get(_SOURCE) == _MARKER)
    stream = build["logs"].get("streamName")
    seen = f"CODEBUILD_LOG_PATH {found.get(_LOG, '')!r}; BatchGetBuilds {stream!r}"
    yield decide(log, seen, holds=bool(stream) and found.get(_LOG) == stream)
    boto3 = found.get(_PYTHON, "")
    yield decide(python, f"boto3: {boto3!r}", holds=boto3[:1].isdigit())
    wheels = found.get(_INDEX, "")
    seen = f"{_TORCH} has {wheels!r}, looked for {_wheel()}"
    yield decide(index, seen, holds=wheels.startswith(">torch-"))


def _wheel() -> str:
    """Return a pattern for PyTorch for the CPU in the index: the pinned version, or any if none is pinned."""
    version = locked.torch_version() or "[^<]*"
    return f">torch-{version}+cpu[^<]*"


_PROPAGATION = "build-role-propagation"
_OF_BUILD = ("s3-source-permissions", "result-names-log", "codebuild-image-python", "pytorch-index")

PROBES = (
    AccountProbe(
        id="source-build",
        what="builds from a source in S3, in CodeBuild's own image, started by a new role",
        decides=(_PROPAGATION, *_OF_BUILD),
        run=_build,
        creates="a bucket, roles, a log group, a CodeBuild project, one build",
        allowed=(
            *codebuild.BUILDS,
            "s3:CreateBucket",
            "s3:PutObject",
            "logs:CreateLogGroup",
            "sts:AssumeRole",
        ),
        minutes=5,
        pays=((CPU_BUILD, 3 / 60),),
        cheap=True,
    ),
)
