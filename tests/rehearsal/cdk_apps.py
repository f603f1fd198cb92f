"""Users' apps, deployed by the real CDK command line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from embedded_aws import EmbeddedAws
from triton_rehearsal.cdk import Cdk

CLI = Path(__file__).resolve().parents[2] / "node_modules" / "aws-cdk" / "bin" / "cdk"


def write_app(folder: Path, source: str, **settings: Any) -> Path:
    """Write app.py and cdk.json into a folder and return it."""
    folder.mkdir(exist_ok=True)
    (folder / "app.py").write_text(source, encoding="utf-8")
    (folder / "cdk.json").write_text(json.dumps({"app": f"{sys.executable} app.py", **settings}))
    return folder


def cdk_of(aws: EmbeddedAws, app: Path, on_line: Callable[[str], object] = lambda _: None) -> Cdk:
    """Return the command line for an app's folder. Its output goes to a folder next to the app's."""
    environment = aws.environment(CDK_VALIDATION="false")
    return Cdk(environment=environment, directory=app, output=app.parent / "out", on_line=on_line, cli=CLI)
