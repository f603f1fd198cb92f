"""`fleet probe gpu` and `fleet probe account`."""

from __future__ import annotations

import argparse

from triton_models.base.outcome import Outcome


def run(arguments: argparse.Namespace) -> Outcome:
    """Run the probes of the given place."""
    if arguments.place == "account":
        from triton_models.probe.account.run import run as run_account

        return run_account(arguments)
    from triton_models.probe.gpu.run import run as run_gpu

    return run_gpu(arguments)
