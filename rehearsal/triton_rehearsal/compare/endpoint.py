"""Variants of models, served by a deployed endpoint."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from triton_models.base.outcome import progress
from triton_models.deliver.verify.comparing import answered, largest_difference
from triton_models.spec import Ensemble, ModelDefinition
from triton_rehearsal.compare.comparison import Comparison
from triton_rehearsal.compare.measurement import (
    Ask,
    ColdStart,
    Measurement,
    first_example,
    measure,
    reference_answer,
)

if TYPE_CHECKING:
    from triton_models.client import Client

_ONE_START = (
    "One cold start per model, measured by the caller, if the endpoint had not loaded the model yet.",
)


def compare_on_endpoint(
    builds: Mapping[str, ModelDefinition],
    *,
    endpoint: str,
    repository: str | None,
    wanted: Sequence[str],
    requests: int,
    concurrency: int,
) -> Comparison:
    """Measure the answers of a deployed endpoint, with the current artifacts of its repository.

    Args:
        builds: The declarations, by the requested names.
        endpoint: The endpoint's name.
        repository: The endpoint's repository.
        wanted: The names that must be published. The others are measured only if they are published.
        requests: Number of requests per model.
        concurrency: Number of concurrent callers.

    Raises:
        FleetError: A model is not published, or AWS refuses.
    """
    import boto3.session

    from triton_models.client import Client
    from triton_models.repository.manifest import Repository
    from triton_models.repository.s3 import aws_errors, repository_client, wanted_repository
    from triton_models.repository.serving import deployed
    from triton_models.repository.stored_manifest import read

    place = Repository.parse(wanted_repository(repository))
    with aws_errors(place.url):
        manifest = read(place, repository_client()).manifest
        serving = deployed(endpoint, boto3.session.Session().client("sagemaker"))
    target = next(iter(serving.targets), None)
    client = Client(endpoint_name=endpoint, target=str(target) if target else None, repository=place.url)
    published = frozenset(manifest.names)
    there = {name: build for name, build in builds.items() if name in wanted or build.name in published}
    models = {name: manifest.model(build.name) for name, build in there.items()}
    sizes = {
        name: model.artifacts[manifest.target_model(builds[name].name, target)].size
        for name, model in models.items()
    }
    known = [_first_answer(name, build, client, sizes[name]) for name, build in there.items()]
    ask: dict[str, Ask] = {name: _invoking(build, client) for name, build in there.items()}
    missing = ", ".join(name for name in builds if name not in there)
    return Comparison(
        where=serving.where,
        notes=(*_ONE_START, *([f"Not published, so not measured: {missing}."] if missing else [])),
        requests=requests,
        concurrency=concurrency,
        models=measure(known, ask, requests=requests, concurrency=concurrency),
    )


def _first_answer(name: str, build: ModelDefinition, client: Client, size: int) -> Measurement:
    progress(f"asking {name} for the first time")
    ask = _invoking(build, client)
    start = time.perf_counter()
    served = ask()
    total = time.perf_counter() - start
    expected = reference_answer(build, first_example(build))
    models = [model for model in build.models if not isinstance(model, Ensemble)]
    return Measurement(
        name=name,
        backends=tuple(dict.fromkeys(model.backend.backend for model in models)),
        size=size,
        cold=(ColdStart(total_s=total),),
        difference=max(
            (largest_difference(served[key], value) for key, value in expected.items()), default=None
        ),
        allowed=build.widest() if expected else None,
    )


def _invoking(build: ModelDefinition, client: Client) -> Ask:
    example = first_example(build)
    return lambda: answered(
        example,
        lambda inputs, parameters: client.infer(model=build.name, inputs=inputs, parameters=parameters),
    )
