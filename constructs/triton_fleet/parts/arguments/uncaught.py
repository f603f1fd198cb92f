"""The end of an app that does not catch a FleetError: its message and the app's own lines, without jsii's."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import jsii

from triton_models.base import errors
from triton_models.base.errors import FleetError
from triton_models.base.outcome import show_problems

_Hook = Callable[[type[BaseException], BaseException, TracebackType | None], object]

_NOT_THE_APPS = (
    Path(__file__).resolve().parents[2],
    Path(errors.__file__).resolve().parents[1],
    Path(jsii.__file__).resolve().parent,
)


def short_for_mistakes(others: _Hook) -> _Hook:
    """Return a `sys.excepthook` that shows a FleetError without the library's frames."""

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if not isinstance(error, FleetError):
            others(kind, error, trace)
            return
        own = [
            each
            for each in traceback.extract_tb(trace)
            if not any(Path(each.filename).resolve().is_relative_to(folder) for folder in _NOT_THE_APPS)
        ]
        sys.stderr.writelines(traceback.format_list(own))
        show_problems(error.problems)

    return hook
