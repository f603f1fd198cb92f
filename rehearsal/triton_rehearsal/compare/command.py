"""`fleet compare`: measures variants of a model side by side, on this machine or a deployed endpoint."""

from __future__ import annotations

import argparse
from pathlib import Path

from triton_models.spec import forms_of, load_builds
from triton_rehearsal.compare.comparison import Comparison
from triton_rehearsal.compare.endpoint import compare_on_endpoint
from triton_rehearsal.compare.local import compare_locally


def run(arguments: argparse.Namespace) -> Comparison:
    """Run `fleet compare NAME...` on this machine, or with --endpoint on a deployed endpoint.

    Raises:
        FleetError: A model is unknown, cannot be built, or is not served.
    """
    spelled = [each for name in arguments.names for each in _forms(name, arguments.models)]
    names = list(dict.fromkeys(spelled))
    builds = dict(zip(names, load_builds(names, arguments.models), strict=True))
    if arguments.endpoint:
        return compare_on_endpoint(
            builds,
            endpoint=arguments.endpoint,
            repository=arguments.repository,
            wanted=arguments.names,
            requests=arguments.requests,
            concurrency=arguments.concurrency,
        )
    return compare_locally(
        builds,
        models=arguments.models,
        requests=arguments.requests,
        concurrency=arguments.concurrency,
        cold_starts=arguments.cold_starts,
    )


def _forms(name: str, models: Path | None) -> list[str]:
    return [name] if ":" in name else forms_of(name, models)
