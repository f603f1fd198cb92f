"""The environment of all tests, set before the first import of the CDK."""

from __future__ import annotations

import gc
import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# The CDK's template validator costs two seconds per process. tests/stacks/test_app.py runs with it.
os.environ["CDK_VALIDATION"] = "false"
# jsii runs `node` from PATH. The environment includes one, so a bare `.venv/bin/pytest` finds it too.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])

# A shell starts a background command with SIGINT ignored, which the processes of the tests would inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)

# No deadline, so that the tests do not depend on the speed or load of the machine. `make fuzz` tries more
# examples.
settings.register_profile(
    "untimed",
    deadline=None,
    max_examples=1000 if os.environ.get("FLEET_FUZZ") == "1" else 30,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("untimed")

# If a long file starts last, the other workers run out of work.
_LONG_FIRST = (
    *("tests/rehearsal/test_story.py", "tests/rehearsal/", "tests/models/", "conformance/test_endpoint.py"),
    *("conformance/", "embedded-aws/", "tests/stacks/", "tests/reporting/"),
)


def pytest_xdist_auto_num_workers() -> int:
    """Return one worker more than the number of cores: a fifth of the time is spent waiting for servers."""
    return min((os.cpu_count() or 1) + 1, 8)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the files with the longest tests first."""
    root = Path(__file__).parents[1]

    def rank(item: pytest.Item) -> int:
        path = item.path.relative_to(root).as_posix()
        return next((place for place, start in enumerate(_LONG_FIRST) if path.startswith(start)), 9)

    items.sort(key=rank)


def pytest_collection_finish() -> None:
    """Freeze the imported objects, so that the garbage collector does not scan them again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)
