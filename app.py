"""The composition root: configuration in, stacks out. The CDK's command line runs it."""

from __future__ import annotations

import sys

from aws_cdk import App

from stacks import policy
from stacks.context import fleet_config
from stacks.inference import InferenceStack
from stacks.models import ModelsStack
from triton_fleet import FleetError
from triton_fleet.arguments.late import late_problems


def main() -> int:
    """Synthesise the fleet.

    Returns:
        0, or 1 after an invalid configuration or findings of the checks, which are printed to stderr.
    """
    app = App(stack_traces=False)  # of a Python app they name temporary folders, and differ every time
    try:
        config = fleet_config(app.node)
        models = ModelsStack(app, f"{config.name}Models", config=config)
        InferenceStack(app, f"{config.name}Inference", config=config, library=models.library)
        policy.attach(app)
        policy.synthesise(app)
    except FleetError as error:
        problems = dict.fromkeys((*error.problems, *late_problems(app)))
        sys.stderr.writelines(f"error: {problem}\n" for problem in problems)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
