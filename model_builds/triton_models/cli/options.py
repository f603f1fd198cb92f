"""Options that several verbs share, with the same meaning everywhere."""

from __future__ import annotations

import argparse
import math
import os
import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

NAME_HELP = "a folder under model_builds/models/, or folder:form for another form of the network"

# As in the AWS CLI, a profile takes precedence over credentials in the environment.
_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


def _number(text: str, expected: str, *, accepts: Callable[[float], bool]) -> float:
    """Parse a finite number.

    Raises:
        argparse.ArgumentTypeError: The string is anything else, or a number that is not accepted.
    """
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
    """Parse a time such as 250ms, 30s, 5m or 2h; a number alone is seconds.

    Raises:
        argparse.ArgumentTypeError: The string is anything else.
    """
    found = re.fullmatch(r"([0-9.]+)\s*(ms|s|m|min|h)?", text.strip())
    try:
        return seconds(found[1]) * _UNITS[found[2] or "s"] if found else seconds("")
    except argparse.ArgumentTypeError:
        msg = f"{text!r}: expected a time such as 250ms, 30s, 5m or 2h"
        raise argparse.ArgumentTypeError(msg) from None


def rates(text: str) -> list[float]:
    """Parse requests per second, such as 50/s or 3000/min, or steps of them, such as 10/s,20/s,40/s.

    Raises:
        argparse.ArgumentTypeError: The string is anything else.
    """
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
    """Parse two times, such as 10m/1h.

    Raises:
        argparse.ArgumentTypeError: The string is anything else.
    """
    first, slash, second = text.partition("/")
    if not slash:
        msg = f"{text!r}: expected two times such as 10m/1h"
        raise argparse.ArgumentTypeError(msg)
    return duration(first), duration(second)


def share(text: str) -> float:
    """Parse a share such as 1% or 0.01.

    Raises:
        argparse.ArgumentTypeError: The string is anything else, or more than all.
    """
    most = 100.0 if text.strip().endswith("%") else 1.0
    number = text.strip().removesuffix("%")
    return _number(number, "a share such as 1% or 0.01", accepts=lambda each: 0 <= each <= most) / most


def count_or_share(text: str) -> int | float:
    """Parse an integer, or a share such as 20%.

    Raises:
        argparse.ArgumentTypeError: The string is anything else.
    """
    return int(text) if text.isdecimal() and text.isascii() else share(text)


def popularity(text: str) -> float:
    """Parse the exponent of Zipf's law, such as 1.1 or zipf:1.1.

    Raises:
        argparse.ArgumentTypeError: The string is anything else.
    """
    return not_negative(text.strip().removeprefix("zipf:"))


def add_count(parser: argparse.ArgumentParser, name: str, text: str, *, default: int) -> None:
    """Add an option for an integer of 1 or more, with a default."""
    parser.add_argument(name, type=count, default=default, metavar="N", help=f"{text} (default: %(default)s)")


def add_models(parser: argparse.ArgumentParser) -> None:
    """Add `--models DIR`, the folder of the declarations."""
    parser.add_argument(
        "--models",
        type=Path,
        metavar="DIR",
        help="the folder of model builds (default: model_builds/models, here or in a folder above)",
    )


def add_output(parser: argparse.ArgumentParser, *, default: Path | None = None) -> None:
    """Add `-o DIR`, the folder to write to."""
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=default,
        required=default is None,
        metavar="DIR",
        help="the folder to write to" + (" (default: %(default)s, in the current folder)" if default else ""),
    )


def add_target(parser: argparse.ArgumentParser) -> None:
    """Add `--release`, `--gpu` and `--cpu`, the target of builds."""
    from triton_models.facts.releases import DEFAULT_RELEASE

    hardware = parser.add_mutually_exclusive_group()
    hardware.add_argument("--gpu", help="build for this GPU, such as A10G (default: a portable build)")
    hardware.add_argument(
        "--cpu",
        action="store_true",
        help="build for instances without a GPU, with ONNX Runtime instead of TensorRT",
    )
    parser.add_argument(
        "--release", default=DEFAULT_RELEASE, help="the Triton release to build for (default: %(default)s)"
    )


def add_portable(parser: argparse.ArgumentParser) -> None:
    """Add `--portable`."""
    parser.add_argument(
        "--portable",
        action="store_true",
        help="accept artifacts built without a GPU, for a rehearsal (also: FLEET_PORTABLE=1)",
    )


def add_instance_type(parser: argparse._ActionsContainer, *, required: bool = False) -> None:
    """Add `--instance-type`, the endpoint's."""
    parser.add_argument(
        "--instance-type",
        required=required,
        metavar="TYPE",
        help="the endpoint's instance type, such as ml.g5.2xlarge",
    )


def add_repository(parser: argparse.ArgumentParser) -> None:
    """Add `--repository`, and the options of its account."""
    group = add_account(parser)
    group.add_argument(
        "--repository",
        default=os.environ.get("FLEET_REPOSITORY"),
        metavar="URL",
        help="the model repository, s3://bucket/prefix/ (default: the environment variable FLEET_REPOSITORY)",
    )


def add_account(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add `--profile` and `--region`, for verbs that call AWS."""
    group = parser.add_argument_group("AWS")
    group.add_argument("--profile", metavar="NAME", help="the AWS profile (default: that of the environment)")
    group.add_argument(
        "--region", metavar="REGION", help="the AWS region (default: that of the environment or the profile)"
    )
    return group


def use_account(arguments: argparse.Namespace) -> None:
    """Make this process and its children use `--profile` and `--region`.

    boto3 reads only AWS_DEFAULT_REGION. The CDK and other SDKs read AWS_REGION, so it applies here as well.
    """
    if getattr(arguments, "profile", None):
        for key in _KEYS:
            os.environ.pop(key, None)
        os.environ["AWS_PROFILE"] = arguments.profile
    if getattr(arguments, "region", None):
        os.environ["AWS_DEFAULT_REGION"] = os.environ["AWS_REGION"] = arguments.region
    elif "AWS_REGION" in os.environ:
        os.environ.setdefault("AWS_DEFAULT_REGION", os.environ["AWS_REGION"])
