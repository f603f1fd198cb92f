"""The extras of the distribution, which install packages that only some uses need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.errors import FleetError

EXTRA_MISSING = Check(id="extra-missing", source=FROM_ARGUMENTS)
DISTRIBUTION = "triton-fleet"

EXTRAS: Mapping[str, frozenset[str]] = {
    "client": frozenset({"boto3", "botocore", "google", "numpy", "tritonclient", "urllib3"}),
    "plan": frozenset({"llvmlite", "numba"}),
    "constructs": frozenset(
        {"aws_cdk", "cdk_nag", "constructs", "jsii", "pydantic", "typeguard", "typing_extensions"}
    ),
    "build": frozenset(
        {
            *("huggingface_hub", "onnx", "onnxruntime", "onnxscript", "packaging", "safetensors"),
            *("tokenizers", "torch", "transformers", "treelite"),
        }
    ),
    "rehearse": frozenset(
        {
            *("cfnlint", "httptools", "jsonpath_ng", "moto", "rich", "uvicorn", "uvloop", "werkzeug", "yaml"),
            *("embedded_aws", "triton_rehearsal", "triton_report"),  # which a build's toolkit lacks
        }
    ),
}
"""The top-level modules that each extra adds; `build` includes `client`, and `rehearse` includes both."""


def extra_of(module: str) -> str | None:
    """Return the extra that installs a module; None if no extra does."""
    top = module.partition(".")[0]
    return next((extra for extra, modules in EXTRAS.items() if top in modules), None)


def install_command(extra: str) -> str:
    """Return the command that installs an extra."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"


def build_extra(module: str) -> str:
    """Return the command that installs a module of builds; empty in a build job, which runs the source."""
    from importlib import metadata

    try:
        metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return ""
    return install_command("build") if extra_of(module) in {"client", "build"} else ""


def explained(error: ModuleNotFoundError, *, where: str, own: str = "") -> FleetError | ModuleNotFoundError:
    """Return an error with the extra that installs a missing module; without one, the original error."""
    module = (error.name or "").partition(".")[0]
    extra = extra_of(module)
    if extra is None:
        return error
    if own and extra != "constructs":
        extra = max(extra, own, key=[*EXTRAS].index)
    what = f"the package {module!r} is not installed"
    return EXTRA_MISSING.error(what=what, where=where, fix=install_command(extra))


@contextmanager
def imports_of(package: str) -> Iterator[None]:
    """Report a missing module in the imports of a package, with the extra that installs it.

    Raises:
        ModuleNotFoundError: A module is missing; the message has the command that installs its extra.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        extra = extra_of(error.name or "")
        if extra is None:
            raise
        msg = f"{package} needs the package {error.name!r}: {install_command(extra)}"
        raise ModuleNotFoundError(msg, name=error.name) from None
