"""The environment of every test, set before the first import of the CDK."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# The CDK's template validator costs two seconds a process. tests/stacks/test_app.py runs with it on.
os.environ["CDK_VALIDATION"] = "false"
# jsii runs `node` from PATH. The environment brings its own, so a bare `.venv/bin/pytest` finds it too.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])

# No test depends on how fast or busy the machine is. `make fuzz` tries more.
settings.register_profile(
    "untimed",
    deadline=None,
    max_examples=1000 if os.environ.get("FLEET_FUZZ") == "1" else 30,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("untimed")

# A long file that starts last leaves the other workers without work.
_LONG_FIRST = ("rehearsal/test_story.py", "rehearsal/", "models/", "triton_aws/", "stacks/", "reporting/")


def pytest_xdist_auto_num_workers() -> int:
    """Return one worker more than there are cores: a fifth of the time is spent waiting for servers."""
    return min((os.cpu_count() or 1) + 1, 8)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start with the files whose tests take longest."""
    tests = Path(__file__).parent

    def rank(item: pytest.Item) -> int:
        path = item.path.relative_to(tests).as_posix()
        return next((place for place, start in enumerate(_LONG_FIRST) if path.startswith(start)), 9)

    items.sort(key=rank)


def pytest_collection_finish() -> None:
    """Spare the garbage collector what was imported: it would look at all of it again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)
