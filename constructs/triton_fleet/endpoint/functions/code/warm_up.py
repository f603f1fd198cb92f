"""Invokes models while a new fleet of an endpoint is watched, so that it has them loaded soon.

Runs in AWS Lambda, which gets this file alone: it imports nothing but Python, boto3, `answer` and `names`. An
EventBridge rule invokes it with the requests to send. Then it logs what goes wrong and never fails. Models
without a request there are sent the one that their build has stored in the repository.

CloudFormation invokes it for a resource Custom::TritonFirstLoads, which is there once a new endpoint has
answered every request. If the fleet is served by another endpoint meanwhile, one that is not answered fails.
A model that is loaded and refuses the input has answered: the request came to load it. What there was no
time for is logged, and fails nothing.

Hot models are loaded on every instance: by both, by a second rule when the endpoint is updated or has new
instances, and every few minutes, since SageMaker does not announce the replacement of an instance. No caller
chooses an instance. SageMaker brings a model to another one if many of its requests are in progress, so many
are sent at the same moment.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from datetime import datetime, timedelta, timezone
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

import boto3
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from triton_fleet.endpoint.functions.code.answer import put_answer
from triton_fleet.endpoint.functions.code.names import artifact_on, models_of

# Requests under way: a model that is being loaded holds its request for up to a minute.
AT_ONCE = 8
# SageMaker answers within 60 seconds. The next round is the second attempt.
ANSWERS_S = 70
INVOCATION = Config(read_timeout=ANSWERS_S, retries={"total_max_attempts": 1}, max_pool_connections=AT_ONCE)
# How often all requests are sent for each instance of a new endpoint that has several.
ROUNDS_PER_INSTANCE = 3
# How often a request is sent for each model once a new fleet has all traffic.
ROUNDS_OF_ALL_TRAFFIC = 3
# How often a new endpoint may answer that a model does not load, before the deployment fails.
REFUSALS = 3
# How Triton's errors of inference begin: those of the core, of an ensemble's steps and of backends. A
# model that does not load is refused with status 400 too, so the status alone says nothing. Sources, read on
# 2026-11-22: infer_request.cc and ensemble_scheduler.cc of Triton's core, pb_stub.cc of python_backend,
# http_server.cc of the server.
REFUSED_INPUT = re.compile(
    r'\s*(\{\s*"error"\s*:\s*")?'
    r"(in ensemble '|\[request id: |Failed to process the request\(s\) for model|"
    r"sending (FP|BF)16 data via JSON|PyTorch execute failure|"
    r"onnx runtime error [0-9]+: Non-zero status code returned while running)"
)
CRASHED = "Stub process"
REFUSED = "it is loaded, and refuses the input"
NOT_SENT = "there was no time to ask it, or its request cannot be read"
NO_REQUEST = "it was published without a request"
# What no deployment fails for.
GOES_ON = ("", REFUSED, NOT_SENT, NO_REQUEST)
# What is left of an invocation when it ends, besides the time that a round takes.
SPARE_S = 10
# The requests for a hot model that are sent at a moment, for each instance, as in triton_models.plan.policy.
# SageMaker does not document how many bring a model to another instance. While an instance seems to lack
# models, each look at its LoadedModelCount doubles them, at most so often.
MANY, DOUBLED = 8, 3
# Rounds of these requests: one that loads nothing, or finds nothing slow, is the last.
HOT_ROUNDS, SLOW_S = 3, 1.0
# All loads begin before the first one is over: a load holds the answers of models that are in use. Yet the
# requests for two models do not come at the same moment, or callers would wait for all of them.
APART_S = 0.2
# Lambda allows a function 1,024 open files.
CONNECTIONS = 800
# The seconds between looks at an endpoint whose instances are changed, and between runs of the schedule.
LOOK_S, PERIOD_S = 2, 300
MIB = 1 << 20

logger = logging.getLogger(__name__)
logger.setLevel(logging.INFO)


def handler(
    event: Mapping[str, Any],
    context: Any,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Send every request again and again, until the new fleet is no longer watched or the time is up."""
    if "ResponseURL" in event:
        _first_loads(event, context, sleep=sleep)
        return
    if event.get("everywhere"):
        _follow(event, context, sleep=sleep)
        return
    endpoint, every = os.environ["ENDPOINT_NAME"], float(os.environ["EVERY_SECONDS"])
    s3, sagemaker = boto3.client("s3"), boto3.client("sagemaker")
    send = partial(_send, s3, boto3.client("sagemaker-runtime", config=INVOCATION), endpoint, context)
    all_traffic = bool(os.environ.get("ALL_TRAFFIC"))
    answered: Counter[str] = Counter()
    over: set[str] = set()
    requests: list[dict[str, str]] = []
    hot = event.get("hot", ())
    while True:
        began = clock()
        requests = _requests(s3, event) or requests
        asked = [each for each in requests if each["target"] not in over]
        for each, said in zip(asked, _round(asked, send=send), strict=True):
            answered[each["target"]] += said in ("", REFUSED)
            # Each refusal counts as an error of the new fleet, which enough of them would roll back.
            if said in (REFUSED, NO_REQUEST) or (
                all_traffic and answered[each["target"]] == ROUNDS_OF_ALL_TRAFFIC
            ):
                over.add(each["target"])
        if not _baking(sagemaker, endpoint):
            break
        if all_traffic and hot:
            _everywhere(event, context, sleep=sleep)
            hot = ()
        took = clock() - began
        pause = max(every - took, 0)
        if _left(context) < pause + took + SPARE_S:
            logger.info("The time is up, and the new fleet of %s is still watched", endpoint)
            break
        sleep(pause)
    _say_missing(requests, answered)


def _first_loads(event: Mapping[str, Any], context: Any, *, sleep: Callable[[float], None]) -> None:
    """Answer CloudFormation once a new endpoint has answered every request, and hot models are everywhere."""
    failure, kind, wanted = "", event["RequestType"], event["ResourceProperties"]
    try:
        if kind != "Delete":  # another endpoint is another resource
            requests = json.loads(wanted["Requests"])
            before = json.loads(event.get("OldResourceProperties", {}).get("Requests", "{}"))
            # What a rollback brings back has been deployed before.
            added = {*requests.get("hot", ())} - {*before.get("hot", ())}
            failure = _misfit(_models(boto3.client("s3")) or {}, requests["hot"]) if added else ""
            if kind == "Create" and not failure:
                failure = _loads(wanted, context, sleep=sleep)
            if not failure:
                _everywhere(requests, context, sleep=sleep)
    except Exception as error:  # without an answer, CloudFormation waits until the time-out
        logger.exception("Warming up failed")
        failure = f"Warming up failed with {type(error).__name__}: {error}"
    put_answer(event, failure=failure)


def _loads(wanted: Mapping[str, Any], context: Any, *, sleep: Callable[[float], None]) -> str:
    """Have a new endpoint load every model; what the deployment fails for, or "" if it does not."""
    endpoint, every, alias = os.environ["ENDPOINT_NAME"], float(os.environ["EVERY_SECONDS"]), wanted["Alias"]
    s3, ssm = boto3.client("s3"), boto3.client("ssm")
    send = partial(_send, s3, boto3.client("sagemaker-runtime", config=INVOCATION), endpoint, context)
    answered: Counter[str] = Counter()
    asked: list[dict[str, str]] = []
    failures: dict[str, str] = {}
    rounds, refusals = _rounds(endpoint), 0
    while rounds:
        requests = _requests(s3, json.loads(wanted["Requests"]))
        failures = {} if requests is not None else {"manifest": "it cannot be read"}
        asked = [each for each in requests or () if each["target"]]
        for each, said in zip(asked, _round(asked, send=send), strict=True):
            answered[each["target"]] += said in ("", REFUSED)
            if said not in GOES_ON:
                failures[each["model"]] = said
        in_time = _left(context) >= every + ANSWERS_S + SPARE_S
        if not failures and in_time:
            rounds -= 1
            continue
        refusals += all("ModelError" in answer for answer in failures.values())
        # A model of gigabytes is loaded after its first request has failed: it is asked again, but not where
        # no other endpoint serves meanwhile. A first deployment would only take longer.
        if refusals >= REFUSALS or not in_time or not _moves(ssm, alias, endpoint):
            break
        sleep(every)
    _say_missing(asked, answered)
    if not failures:
        return ""
    said = "; ".join(f"{model}: {answer}" for model, answer in failures.items())
    if not _moves(ssm, alias, endpoint):
        logger.error("A first deployment continues without: %s", said)
        return ""
    return (
        f"{endpoint} does not answer, so the alias does not move. {said}. Publish a model that loads, "
        'or leave it out of warm_up with "off"'
    )


def _rounds(endpoint: str) -> int:
    """Return how often to send every request: each instance loads for itself, and SageMaker chooses which."""
    instances = _instances(boto3.client("sagemaker").describe_endpoint(EndpointName=endpoint))
    return 1 if instances == 1 else ROUNDS_PER_INSTANCE * instances


def _instances(described: Mapping[str, Any], counted: str = "CurrentInstanceCount") -> int:
    return max(int(each.get(counted, 0)) for each in described["ProductionVariants"])


def _moves(ssm: Any, alias: str, endpoint: str) -> bool:
    """Return whether another endpoint serves the fleet until this one takes over."""
    try:
        value = ssm.get_parameter(Name=alias)["Parameter"]["Value"]
    except ClientError as error:
        if error.response["Error"]["Code"] == "ParameterNotFound":
            return False
        raise
    return bool(value != endpoint and f'"{endpoint}"' not in value)


def target_models(models: Mapping[str, Any], target: str) -> dict[str, str]:
    """The artifact that each model's name stands for on a target."""
    found = {name: artifact_on(model, target) for name, model in models.items()}
    return {name: artifact for name, artifact in found.items() if artifact is not None}


def _request_of(model: dict[str, Any], artifact: str) -> str:
    """The SHA-256 of the request that warms an artifact up; empty if it was published without one."""
    digest = model.get("artifacts", {}).get(artifact, {}).get("request")
    return digest if isinstance(digest, str) else ""


def _models(s3: Any) -> dict[str, Any] | None:
    """Return the models of the manifest; None if it cannot be read."""
    bucket, key = os.environ["MANIFEST_BUCKET"], os.environ["MANIFEST_KEY"]
    try:
        return models_of(s3.get_object(Bucket=bucket, Key=key)["Body"].read())
    except (BotoCoreError, ClientError, ValueError) as error:
        logger.error("s3://%s/%s cannot be read: %s", bucket, key, error)
        return None


def _requests(s3: Any, wanted: Mapping[str, Any]) -> list[dict[str, str]] | None:
    """Return the requests to send; None if the manifest cannot be read."""
    models = _models(s3)
    return None if models is None else _addressed(wanted, models)


def _addressed(wanted: Mapping[str, Any], models: dict[str, Any]) -> list[dict[str, str]]:
    """Return the requests to send, each with the artifact that is asked."""
    targets = target_models(models, os.environ["TARGET"])
    found = [{**each, "target": targets.get(each["model"], "")} for each in wanted["requests"]]
    named = {*wanted.get("cold", ()), *(each["model"] for each in wanted["requests"])}
    stored = {*(targets if wanted.get("published") else ()), *wanted.get("hot", ())}
    for name in sorted(stored - named):
        artifact = targets.get(name, "")
        digest = _request_of(models[name], artifact) if artifact else ""
        found.append({"model": name, "target": artifact, "sha256": digest})
    return found


def _round(requests: list[dict[str, str]], *, send: Callable[[dict[str, str]], str]) -> list[str]:
    """Send every request once; what each was answered."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(send, requests))


def _left(context: Any) -> float:
    """Return the seconds that are left of this invocation."""
    return float(context.get_remaining_time_in_millis()) / 1000


def _send(s3: Any, runtime: Any, endpoint: str, context: Any, request: dict[str, str]) -> str:
    """Send one request; whatever happens is a line in the log. Gives why there was no answer, or ""."""
    model, target, began = request["model"], request["target"], time.monotonic()
    skipped = _skipped(request, context)
    if skipped:
        return skipped
    try:
        body, content_type = _content(s3, request)
    except (BotoCoreError, ClientError, ValueError, KeyError, TypeError) as error:
        logger.error("%s: the request of %s cannot be read: %s", model, target, error)
        return NOT_SENT
    try:
        answer = runtime.invoke_endpoint(
            EndpointName=endpoint, TargetModel=target, ContentType=content_type, Body=body
        )
        answer["Body"].read()
        logger.info("%s: answered by %s in %.1f s", model, target, time.monotonic() - began)
    except Exception as error:  # noqa: BLE001 -- the other models go on, whatever it is
        if _refused(error):
            logger.warning("%s: %s is loaded, and refuses the input: %s", model, target, error)
            return REFUSED
        logger.warning("%s: %s did not answer: %s", model, target, error)
        return str(error)
    return ""


def _skipped(request: Mapping[str, str], context: Any) -> str:
    """Return why no request is sent, or ""."""
    if not request["target"]:
        logger.error("%s: no model that can be loaded has that name", request["model"])
        return "it has no artifact"
    if request.get("sha256") == "":
        logger.warning("%s: %s", request["model"], NO_REQUEST)
        return NO_REQUEST
    return "" if _left(context) >= ANSWERS_S + SPARE_S else NOT_SENT


def _content(s3: Any, request: Mapping[str, str]) -> tuple[bytes, str]:
    """Return a request's body and its type: those that were given, or those that the build has stored."""
    if "body" in request:
        return written_out(request["body"]), request["content_type"]
    folder = os.environ["MANIFEST_KEY"].rpartition("/")[0]
    key = f"{folder}/requests/{request['sha256']}.json"
    stored = json.loads(s3.get_object(Bucket=os.environ["MANIFEST_BUCKET"], Key=key)["Body"].read())
    return base64.b64decode(stored["body"]), stored["content_type"]


def _say_missing(requests: list[dict[str, str]], answered: Mapping[str, int]) -> None:
    """Log the models that were not loaded: their first request waits."""
    missing = [each["model"] for each in requests if not answered[each["target"]]]
    if missing:
        logger.warning("%d of %d models were not loaded: %s", len(missing), len(requests), ", ".join(missing))


def _refused(error: Exception) -> bool:
    """Return whether a model was loaded and refused the input."""
    said = str(error.response.get("OriginalMessage")) if isinstance(error, ClientError) else ""
    return REFUSED_INPUT.match(said) is not None and CRASHED not in said


def written_out(body: str) -> bytes:
    """A request with each tensor's data, of which {"of": 0, "times": 3} stands for [0, 0, 0]."""
    if '"times"' not in body:
        return body.encode()
    try:
        document = json.loads(body)
        for tensor in document["inputs"]:
            if isinstance(tensor["data"], dict):
                tensor["data"] = [tensor["data"]["of"]] * tensor["data"]["times"]
    except (ValueError, TypeError, KeyError):  # it is another kind of request, which has the word by chance
        return body.encode()
    return json.dumps(document).encode()


def _baking(sagemaker: Any, endpoint: str) -> bool:
    """Return whether a new fleet is being watched."""
    try:
        described = sagemaker.describe_endpoint(EndpointName=endpoint)
    except (BotoCoreError, ClientError) as error:
        logger.error("%s cannot be looked at: %s", endpoint, error)
        return False
    pending = described.get("PendingDeploymentSummary", {}).get("ProductionVariants", [])
    statuses = [each["Status"] for variant in pending for each in variant.get("VariantStatus", [])]
    logger.info("%s is %s, its new fleet %s", endpoint, described["EndpointStatus"], statuses or "not there")
    return described["EndpointStatus"] == "Updating" and "Baking" in statuses


def _follow(event: Mapping[str, Any], context: Any, *, sleep: Callable[[float], None]) -> None:
    """Load the hot models on every instance, and again whenever more of them serve."""
    endpoint, before = os.environ["ENDPOINT_NAME"], ("", 0)
    sagemaker = boto3.client("sagemaker")
    for _ in range(PERIOD_S // LOOK_S):
        try:
            described = sagemaker.describe_endpoint(EndpointName=endpoint)
        except (BotoCoreError, ClientError) as error:
            logger.error("%s cannot be looked at: %s", endpoint, error)
            return
        status, instances = described["EndpointStatus"], _instances(described)
        changed = status != before[0] or instances > before[1]
        if changed and status in ("InService", "Updating"):
            _everywhere(event, context, sleep=sleep)
        before = status, instances
        if status != "Updating" or _left(context) < LOOK_S + ANSWERS_S + SPARE_S:
            return
        sleep(LOOK_S)


def _everywhere(event: Mapping[str, Any], context: Any, *, sleep: Callable[[float], None]) -> None:
    """Have every instance load the hot models. What goes wrong is logged."""
    if not event.get("hot"):
        return
    endpoint, s3 = os.environ["ENDPOINT_NAME"], boto3.client("s3")
    models = _models(s3)
    if models is None:
        return
    if unfit := _misfit(models, event["hot"]):
        logger.error(unfit)
        return
    runtime = boto3.client("sagemaker-runtime", config=INVOCATION)
    hot = [each for each in _addressed(event, models) if each["model"] in event["hot"]]
    # A model that refuses its request is not sent many of them: they would count as errors.
    answered = [
        each
        for each, said in zip(
            hot, _round(hot, send=partial(_send, s3, runtime, endpoint, context)), strict=True
        )
        if not said
    ]
    described = boto3.client("sagemaker").describe_endpoint(EndpointName=endpoint)
    # An update shows no instances of a new fleet as current ones.
    instances = max(_instances(described), _instances(described, "DesiredInstanceCount"), 1)
    count = min(MANY * instances << _lacking(described, len(event["hot"])), CONNECTIONS)
    turn = Lock()
    for _ in range(HOT_ROUNDS):
        if _left(context) < ANSWERS_S + SPARE_S:
            return
        many = partial(_many, s3, runtime, endpoint, count=count, turn=turn, sleep=sleep)
        with ThreadPoolExecutor(max(1, min(len(answered), CONNECTIONS // count))) as pool:
            took = list(pool.map(many, answered))
        if max(took, default=0.0) < SLOW_S:
            break


def _many(
    s3: Any,
    runtime: Any,
    endpoint: str,
    request: Mapping[str, str],
    *,
    count: int,
    turn: Lock,
    sleep: Callable[[float], None],
) -> float:
    """Send a request many times at the same moment; the seconds until the last answer.

    The requests are signed and sent in advance, but for the last byte of each. Those that come to a new
    instance wait there for the model. While SageMaker prefers the instance with the fewest requests for it,
    the requests of others go where the model is loaded.
    """
    body, content_type = _content(s3, request)
    place, path = urlsplit(runtime.meta.endpoint_url), f"/endpoints/{endpoint}/invocations"
    headers = {"Content-Type": content_type, "X-Amzn-SageMaker-Target-Model": request["target"]}
    signed = AWSRequest(
        method="POST", url=f"{place.scheme}://{place.netloc}{path}", headers=headers, data=body
    )
    credentials: Any = boto3.Session().get_credentials()  # those of the function's role
    SigV4Auth(credentials, "sagemaker", runtime.meta.region_name).add_auth(signed)
    connect = HTTPSConnection if place.scheme == "https" else HTTPConnection
    failed: Counter[str] = Counter()
    with ExitStack() as opened:
        sent = []
        for _ in range(count):
            try:
                connection = opened.enter_context(closing(connect(place.netloc, timeout=ANSWERS_S)))
                connection.putrequest("POST", path)
                for name, value in {**signed.headers, "Content-Length": str(len(body))}.items():
                    connection.putheader(name, value)
                connection.endheaders(body[:-1])
                sent.append(connection)
            except (OSError, HTTPException) as error:
                failed[str(error)] += 1
        with turn:
            for connection in sent:
                with suppress(OSError):  # the answer says why
                    connection.send(body[-1:])
            began = time.monotonic()
            sleep(APART_S)
        for connection in sent:
            try:
                answer = connection.getresponse()
                failed[f"status {answer.status}"] += answer.status >= 400  # noqa: PLR2004 -- HTTP's errors
            except (OSError, HTTPException) as error:
                failed[str(error)] += 1
    took = time.monotonic() - began
    logger.info("%s: %d requests at a moment took %.1f s%s", request["model"], count, took, +failed or "")
    return took


def _lacking(described: Mapping[str, Any], wanted: int) -> int:
    """Return how often an instance had fewer models than are hot, but for one time: it may be new."""
    now = datetime.now(timezone.utc)
    dimensions = {
        "EndpointName": described["EndpointName"],
        "VariantName": described["ProductionVariants"][0]["VariantName"],
    }
    try:
        found = boto3.client("cloudwatch").get_metric_statistics(
            Namespace="/aws/sagemaker/Endpoints",
            MetricName="LoadedModelCount",
            Dimensions=[{"Name": name, "Value": value} for name, value in dimensions.items()],
            StartTime=now - timedelta(seconds=(DOUBLED + 1) * PERIOD_S),
            EndTime=now,
            Period=PERIOD_S,
            Statistics=["Minimum"],
        )["Datapoints"]
    except (BotoCoreError, ClientError) as error:
        logger.warning("LoadedModelCount cannot be read: %s", error)
        return 0
    times = sum(each["Minimum"] < wanted for each in found)
    if times > 1:
        logger.warning("An instance has had fewer than the %d hot models for %d s", wanted, times * PERIOD_S)
    return min(DOUBLED, max(0, times - 1))


def _misfit(models: Mapping[str, Any], hot: Sequence[str]) -> str:
    """Return why the hot models do not fit into an instance, by their profiles in the manifest, or ""."""
    room, target = json.loads(os.environ.get("ROOM", "{}")), os.environ["TARGET"]
    profiles = {
        name: profile
        for name, artifact in target_models(models, target).items()
        if (profile := _profile(models[name].get("artifacts", {}).get(artifact)))
    }
    pinned = [name for name in hot if name in profiles]
    backends = {each for name in pinned for each in profiles[name]["backends"]}
    for field, (what, has) in room.get("has", {}).items():
        libraries = sum(room["libraries"].get(each, 0) for each in backends if field == "memory")
        needs = {name: each[field] for name, each in profiles.items()}
        other = max(({*needs} - {*pinned}), key=lambda name: needs[name], default="")
        taken = sum(needs[name] for name in pinned)
        if pinned and taken + needs.get(other, 0) > has - libraries:
            each_of = ", ".join(f"{name} {needs[name] / MIB:,.0f}" for name in pinned)
            next_to = f", and {other}, the largest other model, {needs[other] / MIB:,.0f}" if other else ""
            return (
                f"The hot models need about {taken / MIB:,.0f} MiB of {what} ({each_of}){next_to}. An "
                f"{room['type']} has {(has - libraries) / MIB:,.0f} MiB for models. Name fewer hot models, "
                "or choose a larger instance type"
            )
    return ""


def _profile(record: Any) -> dict[str, Any]:
    """Return what an artifact needs, in bytes, and its backends; empty if that is not recorded."""
    try:
        profile = record["profile"]
        likely = {each: float(profile[each][1]) for each in ("memory", "host", "shared")}
        return {**likely, "disk": float(profile["disk"]), "backends": list(profile["backends"])}
    except (KeyError, TypeError, ValueError, IndexError):
        return {}
