"""Numbers on the command line."""

from __future__ import annotations

import argparse
import math


def count(text: str) -> int:
    """An integer of 1 or more.

    Raises:
        argparse.ArgumentTypeError: It is not.
    """
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        msg = f"{text!r}: expected an integer of 1 or more"
        raise argparse.ArgumentTypeError(msg)
    return number


def seconds(text: str) -> float:
    """A number of seconds above 0.

    Raises:
        argparse.ArgumentTypeError: It is not.
    """
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        msg = f"{text!r}: expected a number of seconds above 0"
        raise argparse.ArgumentTypeError(msg)
    return number
