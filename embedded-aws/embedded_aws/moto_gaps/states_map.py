"""Step Functions' Distributed Map.

moto's gaps:
- The map succeeds even if children fail: its tolerance is ignored.
- A child has its parent's name, and each child needs one more level of Python's stack than the one before.
- An object that cannot be read fails the execution with States.Runtime, instead of the map with an error of
  its own.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections import deque
from collections.abc import Sequence
from typing import Any

from moto.core.utils import utcnow
from moto.stepfunctions.parser.api import HistoryEventType, MapRunStatus
from moto.stepfunctions.parser.asl.component.common.error_name.failure_event import (
    FailureEvent,
    FailureEventException,
)
from moto.stepfunctions.parser.asl.component.common.error_name.states_error_name import StatesErrorName
from moto.stepfunctions.parser.asl.component.common.error_name.states_error_name_type import (
    StatesErrorNameType,
)
from moto.stepfunctions.parser.asl.component.state.exec.state_map.iteration import (
    distributed_iteration_component,
)
from moto.stepfunctions.parser.asl.eval.environment import Environment
from moto.stepfunctions.parser.asl.eval.event.event_manager import EventManager
from moto.stepfunctions.parser.asl.eval.program_state import ProgramEnded, ProgramError, ProgramTimedOut
from moto.stepfunctions.parser.asl.eval.states import ExecutionData, ItemData, MapData

from embedded_aws.moto_gaps import patch

_Component = distributed_iteration_component.DistributedIterationComponent
# The default number of children that run at the same time; on AWS it is 10 000.
_AT_MOST = 40
_SUCCEEDED, _FAILED, _ABORTED, _TIMED_OUT = "SUCCEEDED", "FAILED", "ABORTED", "TIMED_OUT"
_log = logging.getLogger(__name__)


class _MapRun:
    def __init__(self, component: Any, env: Environment, asked: Any, items: Sequence[Any]) -> None:
        self._program = component._get_iteration_program()
        self._env = env
        self._asked = asked
        record = asked.map_run_record
        self._counters = (record.item_counter, record.execution_counter)
        self._total = len(items)
        self._waiting = deque(enumerate(items))
        self._lock = threading.Lock()
        self._failed = 0
        self._outputs: list[Any] = [None] * len(items)
        self.exceeded = False

    def run(self) -> list[Any]:
        """Run every child, unless too many fail. Returns each child's result; None for one that failed."""
        for counter in self._counters:
            counter.total.count(self._total)
            counter.pending.count(self._total)
        limit = self._asked.map_run_record.max_concurrency or _AT_MOST
        workers = [
            threading.Thread(target=self._work, name="map-run", daemon=True)
            for _ in range(min(limit, self._total))
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return self._outputs

    def _work(self) -> None:
        while self._env.is_running() and not self.exceeded:
            try:
                index, item = self._waiting.popleft()
            except IndexError:
                return
            self._run_child(index, item)

    def _run_child(self, index: int, item: Any) -> None:
        for counter in self._counters:
            counter.pending.offset(-1)
            counter.running.count()
        frame, status = self._env.open_inner_frame(), _FAILED
        try:
            frame.event_manager = EventManager()  # each child has its own history
            self._prepare(frame, index, item)
            self._program.eval(frame)
            status = _status(frame.program_state())
            if status == _SUCCEEDED:
                self._outputs[index] = frame.states.get_input()
        except Exception as error:  # noqa: BLE001 -- any exception is this child's failure
            _log.debug("a child failed", exc_info=error)
        finally:
            self._env.delete_frame(frame)
        for counter in self._counters:
            counter.running.offset(-1)
            getattr(counter, status.lower()).count()
        if status in (_FAILED, _TIMED_OUT):
            self._look_at_tolerance()

    def _prepare(self, frame: Environment, index: int, item: Any) -> None:
        """Give a child its own name and its input, which the map's selector creates from the item."""
        parent_input = self._env.states.get_input()
        context = frame.states.context_object.context_object_data
        context["Map"] = MapData(Item=ItemData(Index=index, Value=item))
        given, selector = item, self._asked.item_selector or self._asked.parameters
        if selector:
            frame.states.reset(input_value=parent_input)
            frame.stack.append(parent_input)
            selector.eval(frame)
            given = frame.stack.pop()
            frame.stack.clear()
        frame.states.reset(input_value=given)
        name = str(uuid.uuid4())
        machine, label, _ = self._asked.map_run_record.map_run_arn.replace("/", ":").rsplit(":", 2)
        arn = f"{machine.replace(':mapRun:', ':execution:')}/{label}:{name}"
        context["Execution"] = ExecutionData(
            **{**context["Execution"], "Id": arn, "Input": given, "Name": name}
        )

    def _look_at_tolerance(self) -> None:
        """If more children have failed than the map tolerates, end the running ones and start no more."""
        count, percentage = self._asked.tolerated_failure_count, self._asked.tolerated_failure_percentage
        with self._lock:
            self._failed += 1
            too_many = bool(count) and self._failed > count
            too_much = (bool(percentage) or not count) and self._failed * 100 > percentage * self._total
            if self.exceeded or not (too_many or too_much):
                return
            self.exceeded = True
        for frame in list(self._env._frames):
            frame.set_stop(stop_date=utcnow(), cause=None, error=None)


def _status(state: Any) -> str:
    if isinstance(state, ProgramEnded):
        return _SUCCEEDED
    if isinstance(state, ProgramError):
        return _FAILED
    return _TIMED_OUT if isinstance(state, ProgramTimedOut) else _ABORTED


@patch.replaces(_Component, "_eval_body")
def _eval_body(self: Any, env: Environment) -> None:
    asked = env.stack.pop()
    record = asked.map_run_record
    _event(env, HistoryEventType.MapRunStarted, mapRunStartedEventDetails={"mapRunArn": record.map_run_arn})
    try:
        outputs = _run(self, env, asked)
    except FailureEventException as failure:
        error, cause = failure.extract_error_cause_pair() or (None, None)
        details = {"error": str(error), "cause": str(cause)}
        _event(env, HistoryEventType.MapRunFailed, mapRunFailedEventDetails=details)
        record.set_stop(status=MapRunStatus.FAILED)
        raise
    _event(env, HistoryEventType.MapRunSucceeded)
    record.set_stop(status=MapRunStatus.SUCCEEDED)
    env.stack.append(outputs)


def _run(component: Any, env: Environment, asked: Any) -> list[Any]:
    run = _MapRun(component, env, asked, _items(env, asked))
    outputs = run.run()
    if run.exceeded:
        raise _failure(
            env,
            StatesErrorNameType.StatesExceedToleratedFailureThreshold,
            "The specified tolerated failure threshold was exceeded",
        )
    return outputs


def _items(env: Environment, asked: Any) -> Sequence[Any]:
    if not asked.item_reader:
        return list(asked.input_items)
    try:
        asked.item_reader.eval(env=env)
    except FailureEventException:
        raise
    except Exception as error:
        raise _failure(env, StatesErrorNameType.StatesItemReaderFailed, str(error)) from error
    items: Sequence[Any] = env.stack.pop()
    return items


def _failure(env: Environment, kind: StatesErrorNameType, cause: str) -> FailureEventException:
    details: Any = {"mapRunFailedEventDetails": {"error": kind.to_name(), "cause": cause}}
    return FailureEventException(
        FailureEvent(
            env=env,
            error_name=StatesErrorName(typ=kind),
            event_type=HistoryEventType.MapRunFailed,
            event_details=details,
        )
    )


def _event(env: Environment, kind: HistoryEventType, **details: Any) -> None:
    given: Any = details or None
    env.event_manager.add_event(context=env.event_history_context, event_type=kind, event_details=given)
