"""The app of a fleet: from the settings in `cdk.json` to templates that pass every check.

`config` is the configuration, with a description of each key. `context` reads it from the CDK's context,
`problems`, `updates` and `stages` check it. `synthesis` runs the app: it writes the templates, or prints all
mistakes.

    import sys
    from triton_fleet.app import synthesize

    sys.exit(synthesize(lambda app, config: MyStack(app, config.name, config=config)))

Imports: arguments, builds, delivery, endpoint, hosting, images, network, operations, repository, scaling.
"""

from triton_fleet.app.config import FleetConfig
from triton_fleet.app.context import fleet_config, fleet_configs
from triton_fleet.app.synthesis import synthesize

__all__ = ["FleetConfig", "fleet_config", "fleet_configs", "synthesize"]
