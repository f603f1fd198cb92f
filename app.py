"""The composition root: configuration in, stacks out. The CDK's command line runs it."""

from __future__ import annotations

import sys

from aws_cdk import App

from stacks.delivery import DeliveryStack
from stacks.inference import InferenceStack
from stacks.models import ModelsStack
from triton_fleet.app import FleetConfig, synthesize


def declare(app: App, config: FleetConfig) -> None:
    """Declare the stacks of a fleet."""
    models = ModelsStack(app, f"{config.name}Models", config=config)
    inference = InferenceStack(app, f"{config.name}Inference", config=config, library=models.library)
    if config.github_repository:
        DeliveryStack(app, f"{config.name}Delivery", config=config, fleet=inference.fleet)


if __name__ == "__main__":
    sys.exit(synthesize(declare))
