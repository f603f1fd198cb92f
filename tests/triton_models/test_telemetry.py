"""Calls are spans and metrics of an application that has OpenTelemetry, and nothing where it has not."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.triton_models.scripted_server import ROW, World, error
from triton_models.client import InvocationError
from triton_models.client.telemetry import _instruments

sdk = pytest.importorskip("opentelemetry.sdk", reason="OpenTelemetry is not installed: make setup")
from opentelemetry import metrics, trace  # noqa: E402
from opentelemetry.sdk.metrics import MeterProvider  # noqa: E402
from opentelemetry.sdk.metrics.export import InMemoryMetricReader  # noqa: E402
from opentelemetry.sdk.trace import TracerProvider  # noqa: E402
from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # noqa: E402
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter  # noqa: E402


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    _instruments.cache_clear()
    yield exporter
    _instruments.cache_clear()


def test_a_call_is_a_span_with_its_model_and_attempts(world: World, spans: InMemorySpanExporter) -> None:
    world.runtime.steps = [error(503, "ServiceUnavailable")]
    world.client().infer(model="m", inputs=ROW)
    (span,) = spans.get_finished_spans()
    attributes = dict(span.attributes or {})
    assert (span.name, span.status.is_ok, span.kind) == ("infer m", True, trace.SpanKind.CLIENT)
    assert attributes["triton_fleet.artifact"] == "m-1111111111111111.tar.gz"
    assert attributes["triton_fleet.attempts"] == 2


def test_many_calls_are_children_of_the_callers_span(world: World, spans: InMemorySpanExporter) -> None:
    with trace.get_tracer("application").start_as_current_span("batch"):
        world.all_of(model="m", inputs=[ROW] * 3, rows=0)
    *calls, batch = spans.get_finished_spans()
    assert {call.parent.span_id for call in calls if call.parent} == {batch.context.span_id}
    assert len(calls) == 3


def test_a_call_that_fails_is_a_span_with_its_error(world: World, spans: InMemorySpanExporter) -> None:
    world.runtime.otherwise = error(403, "AccessDeniedException")
    with pytest.raises(InvocationError):
        world.client().infer(model="m", inputs=ROW)
    (span,) = spans.get_finished_spans()
    assert not span.status.is_ok
    assert dict(span.attributes or {})["error.type"] == "invoke"
    assert [event.name for event in span.events] == ["exception"]


def test_times_and_attempts_are_counted_by_endpoint(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = InMemoryMetricReader()
    monkeypatch.setattr(metrics, "get_meter", MeterProvider([reader]).get_meter)
    _instruments.cache_clear()
    world.client().infer(model="m", inputs=ROW)
    _instruments.cache_clear()
    data = reader.get_metrics_data()
    assert data is not None
    found = {each.name: each for each in data.resource_metrics[0].scope_metrics[0].metrics}
    assert found.keys() == {"triton_fleet.client.duration", "triton_fleet.client.attempts"}
    (point,) = found["triton_fleet.client.attempts"].data.data_points
    assert dict(point.attributes or {}) == {"triton_fleet.endpoint": "e"}


def test_an_application_without_it_is_served(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    _instruments.cache_clear()
    assert float(world.client().infer(model="m", inputs=ROW)["Y"][0]) == 3.0
    _instruments.cache_clear()
