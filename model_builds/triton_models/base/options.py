"""The options of a verb: the fields of a frozen dataclass, next to the `run` that reads them.

The type of a field says how its value is written, such as `Duration`; `argument`, `option` or `flag` says the
rest. `triton_models.cli.parser` makes the parser. What parses a value raises `argparse.ArgumentTypeError`.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, TypeAlias


@dataclass(frozen=True, eq=False, kw_only=True)
class OneOf:
    """Arguments that exclude each other."""

    required: bool = False


EITHER = OneOf()
ONE = OneOf(required=True)


def argument(
    text: str, metavar: str | None = None, *, nargs: str | None = None, within: OneOf | None = None
) -> Any:
    """Declare a positional argument; `text` is its help."""
    default: Any = {"*": (), "?": None}.get(nargs or "", MISSING)
    metadata = {"within": within, "help": text, "nargs": nargs} | ({"metavar": metavar} if metavar else {})
    return field(default=default, metadata=metadata)


def option(
    text: str,
    *names: str,
    default: Any = None,
    required: bool = False,
    within: OneOf | str | None = None,
    **keywords: Any,
) -> Any:
    """Declare an option.

    Args:
        text: Its help, to which the default is added.
        names: Its names, if not `--` and the name of the field.
        default: The value without it.
        required: It has no default.
        within: Options that exclude each other, or the title of a section of the help.
        keywords: More for argparse, such as `nargs`.
    """
    if default and default is not True and "(default: " not in text:
        text += f" (default: {default:g})" if isinstance(default, float) else f" (default: {default})"
    metadata = {"names": names, "within": within, "help": text, **keywords}
    return field(default=MISSING if required else default, metadata=metadata)


def flag(text: str, *names: str, within: OneOf | str | None = None) -> Any:
    """Declare an option without a value."""
    return option(text, *names, default=False, within=within, action="store_true")


def _number(text: str, expected: str, *, accepts: Callable[[float], bool]) -> float:
    """Parse a finite number."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and accepts(number)):
        msg = f"{text!r}: expected {expected}"
        raise argparse.ArgumentTypeError(msg)
    return number


def count(text: str) -> int:
    """Parse an integer of 1 or more."""
    digits = text.strip().isdecimal()
    return int(_number(text, "an integer of 1 or more", accepts=lambda each: digits and each >= 1))


def seconds(text: str) -> float:
    """Parse a number of seconds above 0."""
    return _number(text, "a number of seconds above 0", accepts=lambda each: each > 0)


def whole(text: str) -> int:
    """Parse an integer of 0 or more."""
    digits = text.strip().isdecimal()
    return int(_number(text, "an integer of 0 or more", accepts=lambda _: digits))


def not_negative(text: str) -> float:
    """Parse a number of 0 or more."""
    return _number(text, "a number of 0 or more", accepts=lambda each: each >= 0)


def month(text: str) -> datetime:
    """Parse a month such as 2026-11; it begins at midnight, UTC."""
    try:
        return datetime.strptime(f"{text} +0000", "%Y-%m %z")
    except ValueError:
        msg = f"{text!r}: expected a month, such as 2026-11"
        raise argparse.ArgumentTypeError(msg) from None


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def duration(text: str) -> float:
    """Parse a time such as 250ms, 30s, 5m or 2h; a number alone is seconds."""
    found = re.fullmatch(r"([0-9.]+)\s*(ms|s|m|min|h)?", text.strip())
    try:
        return seconds(found[1]) * _UNITS[found[2] or "s"] if found else seconds("")
    except argparse.ArgumentTypeError:
        msg = f"{text!r}: expected a time such as 250ms, 30s, 5m or 2h"
        raise argparse.ArgumentTypeError(msg) from None


def rates(text: str) -> list[float]:
    """Parse requests per second, such as 50/s or 3000/min, or steps of them, such as 10/s,20/s,40/s."""
    found = []
    for part in text.split(","):
        count, _, unit = part.strip().partition("/")
        try:
            found.append(seconds(count) / _UNITS[unit or "s"])
        except (argparse.ArgumentTypeError, KeyError):
            msg = f"{text!r}: expected a rate such as 50/s or 3000/min, or steps such as 10/s,20/s,40/s"
            raise argparse.ArgumentTypeError(msg) from None
    return found


def times(text: str) -> tuple[float, float]:
    """Parse two times, such as 10m/1h."""
    first, slash, second = text.partition("/")
    if not slash:
        msg = f"{text!r}: expected two times such as 10m/1h"
        raise argparse.ArgumentTypeError(msg)
    return duration(first), duration(second)


def share(text: str) -> float:
    """Parse a share such as 1% or 0.01."""
    most = 100.0 if text.strip().endswith("%") else 1.0
    number = text.strip().removesuffix("%")
    return _number(number, "a share such as 1% or 0.01", accepts=lambda each: 0 <= each <= most) / most


def count_or_share(text: str) -> int | float:
    """Parse an integer, or a share such as 20%."""
    return int(text) if text.isdecimal() and text.isascii() else share(text)


def popularity(text: str) -> float:
    """Parse the exponent of Zipf's law, such as 1.1 or zipf:1.1."""
    return not_negative(text.strip().removeprefix("zipf:"))


@dataclass(frozen=True)
class Value:
    """How a value is written: what parses it, and what the help calls it."""

    parse: Callable[[str], Any]
    metavar: str


Name: TypeAlias = Annotated[str, Value(str, "NAME")]
Target: TypeAlias = Annotated[str, Value(str, "TARGET")]
Type: TypeAlias = Annotated[str, Value(str, "TYPE")]
Url: TypeAlias = Annotated[str, Value(str, "URL")]
AnyPath: TypeAlias = Annotated[Path, Value(Path, "PATH")]
File: TypeAlias = Annotated[Path, Value(Path, "FILE")]
Folder: TypeAlias = Annotated[Path, Value(Path, "DIR")]
Count: TypeAlias = Annotated[int, Value(count, "N")]
Integer: TypeAlias = Annotated[int, Value(whole, "N")]
Duration: TypeAlias = Annotated[float, Value(duration, "TIME")]
Seconds: TypeAlias = Annotated[float, Value(seconds, "SECONDS")]
Popularity: TypeAlias = Annotated[float, Value(popularity, "Z")]
Rates: TypeAlias = Annotated[list[float], Value(rates, "RATE")]
Share: TypeAlias = Annotated[float, Value(share, "SHARE")]
Usd: TypeAlias = Annotated[float, Value(not_negative, "USD")]

AWS = "AWS"
PROFILE = "the AWS profile (default: that of the environment)"
REGION = "the AWS region (default: that of the environment or the profile)"
REPOSITORY = "the model repository, s3://bucket/prefix/ (default: the environment variable FLEET_REPOSITORY)"

ALIAS = "the fleet's alias, such as /triton-fleet/TritonFleet/endpoint: the output EndpointAlias"
ENDPOINT = "an endpoint instead of an alias"
ENDPOINT_TARGET = "the target of --endpoint, such as sm86-trt10.13.3, if models need it"
INSTANCE_TYPE = "the endpoint's instance type, such as ml.g5.2xlarge"
MODELS = "the folder of model builds (default: model_builds/models, here or in a folder above)"
NAMES = "a folder under model_builds/models/, or folder:form for another form of the network"
CPU = "build for instances without a GPU, with ONNX Runtime instead of TensorRT"
GPU = "build for this GPU, such as A10G (default: a portable build)"
RELEASE = "the Triton release to build for"
AUTO_COMPLETE = "the endpoint completes configurations too: TritonServer(auto_complete_config=True)"
IMAGE_ADDS = (
    "a Python module, backend or repository agent that the server has besides those of NVIDIA's image; "
    "may be repeated"
)
SERVER = "the server (default: the one on PATH, otherwise that of NVIDIA's images)"
SERVER_LOG = "append the server's output to this file"
SHADOW = "give it copies of a share, and compare its answers"
TOLERANCE = "the largest difference of a shadow's answers (default: as declared)"
SIGNALS = "where clients write: see `fleet top`"
ALARMS = "watch alarms"
ALARM_NAMES = "the CloudWatch alarms, metric or composite, in the region of the repository"
ALARM_ENDPOINT = "also the rollback alarms of this endpoint"
PORTABLE = "accept artifacts built without a GPU, for a rehearsal (also: FLEET_PORTABLE=1)"


@dataclass(frozen=True, kw_only=True)
class AccountOptions:
    """The options of each verb that calls AWS."""

    profile: Name | None = option(PROFILE, within=AWS)
    region: str | None = option(REGION, within=AWS)


@dataclass(frozen=True, kw_only=True)
class RepositoryOptions(AccountOptions):
    """The options of each verb that reads a model repository."""

    repository: Url | None = option(REPOSITORY, within=AWS, environment="FLEET_REPOSITORY")
