"""Spans and metrics of calls, where the application has OpenTelemetry."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from triton_models.client.call import Call, InvocationError
from triton_models.signals.recorder import Recorder

_NAME = "triton_models.client"

# https://opentelemetry.io/docs/specs/semconv/cloud-providers/aws-sdk/, read 2026-11-27.
_OPERATION = {"rpc.system": "aws-api", "rpc.service": "SageMaker Runtime", "rpc.method": "InvokeEndpoint"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Instruments:
    tracer: Any
    kind: Any
    duration: Any
    attempts: Any


@functools.cache
def _instruments() -> _Instruments | None:
    """Return the instruments of OpenTelemetry; None if its API is not installed."""
    try:
        from opentelemetry import metrics, trace
    except ImportError:
        return None
    meter = metrics.get_meter(_NAME)
    return _Instruments(
        tracer=trace.get_tracer(_NAME),
        kind=trace.SpanKind.CLIENT,
        duration=meter.create_histogram(
            "triton_fleet.client.duration", unit="s", description="Time of a call, with all its attempts"
        ),
        attempts=meter.create_counter(
            "triton_fleet.client.attempts", unit="{request}", description="Requests, with those sent again"
        ),
    )


@contextmanager
def observed(call: Call, recorder: Recorder | None) -> Iterator[None]:
    """Record a call as a span, its time and attempts as metrics of its endpoint, and in the signals.

    Metrics do not name the model: a fleet may have thousands.
    """
    instruments = _instruments()
    if instruments is None and recorder is None:
        yield
        return
    outcome = ""
    with _span(call, instruments) as span:
        try:
            yield
        except InvocationError as error:
            outcome = error.problems[0].rule
            raise
        except BaseException as error:
            outcome = type(error).__name__
            raise
        finally:
            if recorder is not None:
                recorder.record(
                    endpoint=call.endpoint,
                    artifact=(call.model, call.artifact),
                    seconds=call.deadline.elapsed_s,
                    error=outcome,
                    waited_s=call.waited_s,
                )
            if instruments is not None:
                _measure(call, instruments, span, outcome)


def _span(call: Call, instruments: _Instruments | None) -> AbstractContextManager[Any]:
    if instruments is None:
        return nullcontext()
    span: AbstractContextManager[Any] = instruments.tracer.start_as_current_span(
        f"infer {call.model}", kind=instruments.kind, attributes=_OPERATION
    )
    return span


def _measure(call: Call, instruments: _Instruments, span: Any, outcome: str) -> None:
    of_endpoint = {"triton_fleet.endpoint": call.endpoint, **({"error.type": outcome} if outcome else {})}
    span.set_attributes(
        {
            **of_endpoint,
            "triton_fleet.model": call.model,
            "triton_fleet.artifact": call.artifact,
            "triton_fleet.attempts": call.attempts,
        }
    )
    instruments.duration.record(call.deadline.elapsed_s, of_endpoint)
    instruments.attempts.add(call.attempts, of_endpoint)
