"""What every test relies on, set before the first import of the CDK."""

from __future__ import annotations

import os
import sys
from pathlib import Path

# The CDK's template validator costs two seconds a process. tests/stacks/test_app.py runs with it on.
os.environ["CDK_VALIDATION"] = "false"
# jsii runs `node` from PATH. The environment brings its own, so a bare `.venv/bin/pytest` finds it too.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
