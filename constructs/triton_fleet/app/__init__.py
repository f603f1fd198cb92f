"""The app of a fleet: from the settings in `cdk.json` to templates that pass every check.

`config` is the model of the settings, and describes each. `context` reads them from the CDK's context;
`checks` has what no construct can check. `synthesis` declares the stacks, names the settings that
constructs refuse, and writes the templates; `schema` prints a JSON schema for editors.

    import sys
    from triton_fleet.app import synthesize

    sys.exit(synthesize(lambda app, config: MyStack(app, config.name, config=config)))
"""

from triton_fleet.app.config import FleetConfig
from triton_fleet.app.context import fleet_configs
from triton_fleet.app.synthesis import synthesize

__all__ = ["FleetConfig", "fleet_configs", "synthesize"]
