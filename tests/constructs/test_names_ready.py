"""A fleet moves to another endpoint only if every name that it serves stands for something there."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest
from botocore.exceptions import ClientError
from function_world import Clock, Requests, asked, web_server
from hypothesis import given
from hypothesis import strategies as st

from triton_fleet.endpoint.functions.code import deployment_build, names_ready, warm_up
from triton_fleet.endpoint.functions.code.names import artifact_on
from triton_models.artifact.targets import ArtifactTarget
from triton_models.repository.manifest import ArtifactRecord, Manifest, Publication, request_name

NOON = datetime(2026, 11, 22, 12, tzinfo=timezone.utc)
OLD, NEW, T4 = "sm86-trt10.13.3", "sm86-trt10.16.1", "sm75-trt10.13.3"
PLAN = {"gpu": "A10G", "release": "25.09", "tensorrt": "10.13.3.9"}
ONNX = {"gpu": None, "release": "25.09", "tensorrt": None}
MANIFEST_KEY = "models/manifest.json"


def published(*moves: tuple[str, str, str | None, dict[str, Any]], **inputs: str) -> Manifest:
    """A manifest after these were published: model, artifact, target, build record."""
    manifest = Manifest()
    for model, artifact, target, build in moves:
        wanted = Publication(
            model=model,
            artifact=artifact,
            record=ArtifactRecord(size=1, sha256="00", build=build, inputs=inputs),
            target=ArtifactTarget.parse(target) if target else None,
        )
        manifest = manifest.with_published([wanted], at=NOON, by="ann")
    return manifest


@given(
    st.lists(
        st.tuples(
            st.just("m"),
            st.sampled_from(["a", "b", "c"]),
            st.sampled_from([None, OLD, NEW, T4, "ampere+-trt10.13.3", "any"]),
            st.sampled_from(
                [PLAN, ONNX, {}, {**PLAN, "plans": {"p": {"gpu": "A10G", "hardware": "ampere+"}}}]
            ),
        ),
        min_size=1,
    )
)
def test_a_function_reads_a_manifest_as_everything_else_does(moves: list[Any]) -> None:
    manifest = published(*moves)
    document = json.loads(manifest.to_json())["models"]["m"]

    for target in (OLD, NEW, T4, "sm80-trt10.13.3", "sm89-trt10.13.3", "cpu-trt10.13.3"):
        assert artifact_on(document, target) == manifest.models["m"].on(ArtifactTarget.parse(target))


def with_request(manifest: Manifest, model: str, artifact: str) -> Manifest:
    """The manifest as if that artifact had been published with a request."""
    record = manifest.models[model]
    artifacts = {**record.artifacts, artifact: replace(record.artifacts[artifact], request="ab" * 32)}
    return replace(manifest, models={**manifest.models, model: replace(record, artifacts=artifacts)})


class World:
    """The services that a function asks, and the CloudFormation that it answers."""

    def __init__(self, cloudformation: Requests) -> None:
        self.cloudformation = cloudformation
        self.clock = Clock()
        self.alias: str | None = json.dumps({"endpoint": "old", "target": OLD})
        self.manifest: Manifest | str | None = None
        self.refused = 0
        self.asked: list[tuple[str, str]] = []
        self.broken: dict[str, int] = {}
        self.says = "no plan"
        self.instances = 1
        self.stored: dict[str, str] = {}

    def get_parameter(self, **_: Any) -> Any:
        if self.refused:
            self.refused -= 1
            raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "GetParameter")
        if self.alias is None:
            raise ClientError({"Error": {"Code": "ParameterNotFound", "Message": "no"}}, "GetParameter")
        return {"Parameter": {"Value": self.alias}}

    def describe_endpoint(self, **_: Any) -> Any:
        return {"ProductionVariants": [{"CurrentInstanceCount": self.instances}]}

    def list_objects_v2(self, **_: Any) -> Any:
        return {"Contents": [{"Key": MANIFEST_KEY}] if self.manifest is not None else []}

    def get_object(self, **wanted: Any) -> Any:
        if wanted["Key"] == f"models/{request_name('ab' * 32)}":
            return {"Body": io.BytesIO(json.dumps(self.stored).encode())}
        manifest = self.manifest
        text = manifest.to_json() if isinstance(manifest, Manifest) else str(manifest)
        return {"Body": io.BytesIO(text.encode())}

    def invoke_endpoint(self, **request: Any) -> Any:
        self.asked.append((request["EndpointName"], request["TargetModel"]))
        if self.broken.get(request["TargetModel"], 0):
            self.broken[request["TargetModel"]] -= 1
            error = {"Code": "ModelError", "Message": "no plan"}
            response: Any = {"Error": error, "OriginalStatusCode": 400, "OriginalMessage": self.says}
            raise ClientError(response, "InvokeEndpoint")
        return {"Body": io.BytesIO(b"{}")}

    def ask(self, function: Any, properties: dict[str, Any], *, kind: str, request: str = "Create") -> Any:
        return asked(function, self.cloudformation, self.clock, kind, properties, request=request)

    def check(self, *, target: str = NEW, not_needed: tuple[str, ...] = (), request: str = "Create") -> Any:
        wanted = {
            "Alias": "/a",
            "Bucket": "b",
            "ManifestKey": MANIFEST_KEY,
            "Endpoint": "new",
            "Target": target,
            "NotNeeded": list(not_needed),
        }
        return self.ask(names_ready, wanted, kind="TritonNames", request=request)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with web_server() as cloudformation:
        world = World(cloudformation)
        for function in (names_ready, warm_up, deployment_build):
            monkeypatch.setattr(function.boto3, "client", lambda *_, **__: world)
        yield world


BOTH = (("m", "old", OLD, PLAN), ("m", "new", NEW, ONNX))


@pytest.mark.parametrize(
    ("other", "not_needed"),
    [
        (("onnx", "o", OLD, ONNX), ()),
        (("lost", "plan", OLD, PLAN), ("lost",)),
        (("other", "plan", T4, {**PLAN, "gpu": "T4"}), ()),
    ],
    ids=["built", "not needed", "not served today"],
)
def test_a_fleet_whose_every_name_is_built_for_the_new_target_moves(
    world: World, other: tuple[str, str, str | None, dict[str, Any]], not_needed: tuple[str, ...]
) -> None:
    world.manifest = published(*BOTH, other)
    assert world.check(not_needed=not_needed)["Status"] == "SUCCESS"


@pytest.mark.parametrize("alias", [json.dumps({"endpoint": "old", "target": OLD}), "old"])
def test_a_name_that_would_be_lost_fails_the_deployment(world: World, alias: str) -> None:
    world.alias, world.manifest = alias, published(*BOTH, ("lost", "plan", OLD, PLAN))

    answer = world.check()

    assert answer["Status"] == "FAILED"
    assert answer["Reason"].startswith("1 of 2 models that the fleet serves have no artifact for " + NEW)
    assert answer["Reason"].endswith("Missing: lost")


@pytest.mark.parametrize(
    "record",
    [
        {},
        None,
        [],
        {"current": 3},
        {"current": {OLD: 3}},
        {"current": {OLD: "a"}, "history": [{"artifact": "a"}]},
        {"current": {OLD: "a"}, "history": 3},
        {"current": {}, "artifacts": {"a": None}},
        {"current": {}, "artifacts": {"a": {"targets": [7]}}},
    ],
)
def test_an_invalid_record_keeps_no_other_model_from_its_name(world: World, record: Any) -> None:
    document = json.loads(published(*BOTH).to_json())
    document["models"]["a"] = record
    world.manifest = json.dumps(document)

    assert world.check()["Status"] == "SUCCESS"
    assert list(warm_up.target_models(warm_up.models_of(world.manifest), NEW)) == ["m"]


@pytest.mark.parametrize("request_type", ["Update", "Delete"])
def test_neither_an_update_nor_a_rollback_of_the_deployment_checks_anything(
    world: World, request_type: str
) -> None:
    world.manifest = published(("lost", "plan", OLD, PLAN))
    assert world.check(request=request_type)["Status"] == "SUCCESS"


@pytest.mark.parametrize("first", ["no alias", "no manifest", "a manifest of version 1"])
def test_a_first_deployment_and_one_from_before_targets_go_on(world: World, first: str) -> None:
    world.manifest = published(("lost", "plan", OLD, PLAN))
    if first == "no alias":
        world.alias = None
    elif first == "no manifest":
        world.manifest = None
    else:
        model = {"current": "a", "history": [], "artifacts": {}}
        world.manifest = json.dumps({"version": 1, "models": {"m": model}})

    assert world.check()["Status"] == "SUCCESS"


def test_what_a_rollback_took_back_does_not_return_with_a_new_target(world: World) -> None:
    first = published(("m", "1", OLD, PLAN), declaration="1", release="25.09")
    record = ArtifactRecord(size=1, sha256="00", build=ONNX, inputs={"declaration": "2", "release": "any"})
    manifest = first
    for target in (OLD, NEW):
        wanted = Publication(
            model="m", artifact=f"2-{target}", record=record, target=ArtifactTarget.parse(target)
        )
        manifest = manifest.with_published([wanted], at=NOON, by="ann")
    world.manifest = manifest
    assert world.check()["Status"] == "SUCCESS"

    old = ArtifactTarget.parse(OLD)
    world.manifest = manifest.with_rollback(model="m", to="1", at=NOON, by="bob", target=old)
    answer = world.check()

    assert answer["Status"] == "FAILED"
    assert answer["Reason"].startswith(f"1 models were rolled back on {OLD}, but not on {NEW}")


def test_a_late_permission_is_waited_for_and_a_missing_one_is_reported(world: World) -> None:
    world.manifest, world.refused = published(*BOTH), 3
    assert world.check()["Status"] == "SUCCESS"

    world.refused = 1000
    answer = world.check()
    assert (answer["Status"], world.clock.now) == ("FAILED", 150)
    assert "AccessDeniedException" in answer["Reason"]


@pytest.fixture
def new_endpoint(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    given = {"ENDPOINT_NAME": "new", "EVERY_SECONDS": "15", "TARGET": NEW}
    for name, value in {**given, "MANIFEST_BUCKET": "b", "MANIFEST_KEY": MANIFEST_KEY}.items():
        monkeypatch.setenv(name, value)
    world.manifest = published(*BOTH)
    return world


def first_loads(world: World, *, model: str = "m", request: str = "Create") -> Any:
    requests = [{"model": model, "body": "{}", "content_type": "application/json"}]
    wanted = {"Alias": "/a", "Requests": json.dumps({"requests": requests})}

    return world.ask(warm_up, wanted, kind="TritonFirstLoads", request=request)


@pytest.mark.parametrize(("instances", "rounds"), [(1, 1), (3, 9)])
def test_a_new_endpoint_loads_what_the_name_stands_for_on_it(
    new_endpoint: World, instances: int, rounds: int
) -> None:
    new_endpoint.instances = instances
    assert first_loads(new_endpoint)["Status"] == "SUCCESS"
    assert new_endpoint.asked == [("new", "new")] * rounds


def test_a_model_that_loads_at_the_second_request_is_loaded(new_endpoint: World) -> None:
    new_endpoint.broken = {"new": 1}
    assert first_loads(new_endpoint)["Status"] == "SUCCESS"
    assert len(new_endpoint.asked) == 2


def test_a_model_that_does_not_load_keeps_the_fleet_where_it_is(new_endpoint: World) -> None:
    new_endpoint.broken = {"new": 1000}
    answer = first_loads(new_endpoint)

    assert answer["Status"] == "FAILED"
    assert answer["Reason"].startswith("new does not answer, so the alias does not move. m: ")


@pytest.mark.parametrize(
    ("says", "loaded"),
    [
        ("[request id: <id_unknown>] unexpected shape for input 'X' for model 'm'", True),
        ('{"error":"in ensemble \'m\', onnx runtime error 2: not valid"}', True),
        ("Failed to process the request(s) for model 'm_0_0', message: ValueError: no image", True),
        ('{"error":"sending FP16 data via JSON is not supported. Please use the binary format"}', True),
        ("Failed to process the request(s) for model 'm', message: Stub process 'm' is not healthy", False),
        ("load failed for model 'm': version 1 is at UNAVAILABLE state: failed to run warmup sample: "
         "[request id: <id_unknown>] unexpected shape", False),
    ],
)  # fmt: skip
def test_a_model_that_refuses_the_input_has_been_loaded(says: str, loaded: bool, new_endpoint: World) -> None:
    new_endpoint.broken, new_endpoint.says = {"new": 1000}, says

    assert first_loads(new_endpoint)["Status"] == ("SUCCESS" if loaded else "FAILED")
    assert len(new_endpoint.asked) == (1 if loaded else 3)


def test_published_models_are_loaded_too_and_one_without_a_request_fails_nothing(new_endpoint: World) -> None:
    wanted = {"Alias": "/a", "Requests": json.dumps({"requests": [], "published": True})}
    new_endpoint.stored = {"body": "e30=", "content_type": "application/json"}
    new_endpoint.manifest = with_request(published(*BOTH, ("without", "w", NEW, ONNX)), "m", "new")

    assert new_endpoint.ask(warm_up, wanted, kind="TritonFirstLoads")["Status"] == "SUCCESS"
    assert new_endpoint.asked == [("new", "new")]

    new_endpoint.broken = {"new": 1000}
    answer = new_endpoint.ask(warm_up, wanted, kind="TritonFirstLoads")
    assert answer["Reason"].startswith("new does not answer, so the alias does not move. m: ")


@pytest.mark.parametrize("alias", [None, json.dumps({"endpoint": "new", "target": NEW})])
def test_where_no_other_endpoint_serves_nothing_fails(new_endpoint: World, alias: str | None) -> None:
    new_endpoint.alias, new_endpoint.broken = alias, {"new": 1000}
    assert first_loads(new_endpoint)["Status"] == "SUCCESS"
    assert (len(new_endpoint.asked), new_endpoint.clock.now) == (1, 0)


def test_a_model_that_is_not_published_and_an_endpoint_that_goes_are_not_asked(new_endpoint: World) -> None:
    assert first_loads(new_endpoint, model="unheard")["Status"] == "SUCCESS"
    assert first_loads(new_endpoint, request="Delete")["Status"] == "SUCCESS"
    assert new_endpoint.asked == []
