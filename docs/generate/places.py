"""Where a file of the repository is on the site."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]
PICTURES = [*(ROOT / "docs").glob("*.svg")]
_REFERENCE = {
    "constructs/triton_fleet/__init__.py": "fleet",
    "constructs/triton_fleet/app/config.py": "settings",
    "constructs/triton_fleet/operations/alarm_declarations.py": "alarms",
    "model_builds/triton_models/spec.py": "declarations",
    "model_builds/triton_models/client/__init__.py": "client",
    "model_builds/triton_models/cli/main.py": "command_line",
    "conformance/beliefs.toml": "beliefs",
    "model_builds/triton_models/base/errors.py": "errors",
    "embedded-aws/embedded_aws/coverage.py": "embedded_aws",
}
"""The code whose docstrings are a page of the reference: on GitHub a link leads to the code."""


def place(path: Path) -> PurePosixPath:
    """Return the place of a file of the repository on the site."""
    within = path.relative_to(ROOT)
    if page := _REFERENCE.get(within.as_posix()):
        return PurePosixPath("reference", f"{page}.md")
    if within.parts[:2] == ("constructs", "triton_fleet"):
        return PurePosixPath("reference", f"{within.parts[2]}.md")
    if within == Path("README.md"):
        return PurePosixPath("index.md")
    if within.parts[0] == "docs":
        within = within.relative_to("docs")
    return PurePosixPath(within).with_name(within.name.replace("README", "index"))


def is_page(path: Path) -> bool:
    """Return True for what is on the site: pages, pictures, and code with a page of the reference."""
    return path.suffix == ".md" or path in PICTURES or place(path).parts[0] == "reference"
