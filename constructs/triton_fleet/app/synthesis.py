"""The synthesis of an app: its configuration, its stacks, and the checks that every synthesis runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from aws_cdk import App, Validations
from cdk_nag import AwsSolutionsChecks

from triton_fleet.app.config import FleetConfig
from triton_fleet.app.context import Settings, StageSettings
from triton_fleet.parts.arguments.late import defer, late_problems
from triton_models.base.errors import FleetError, Problem, raise_if_any
from triton_models.base.outcome import show_problems


def synthesize(declare: Callable[[App, FleetConfig], object]) -> int:
    """Run an app: read the configuration, declare the stacks, check them, and write the templates.

    `declare` is called for each selected stage. Returns 0, or 1 after problems, which are printed to stderr.
    """
    app = App(stack_traces=False)  # of a Python app they name temporary folders, and differ every time
    try:
        declare_stages(app, declare)
        attach(app)
        write_templates(app)
    except FleetError as error:
        show_problems(dict.fromkeys((*error.problems, *late_problems(app))))
        return 1
    return 0


def declare_stages(
    app: App, declare: Callable[[App, FleetConfig], object], *, settings: Settings | None = None
) -> None:
    """Declare the stacks of each selected stage in an app.

    Stages that are not selected are declared in an app of their own, which finds their mistakes. Those that
    constructs refuse are among the mistakes that are raised. The settings are those in the context of the app
    by default.
    """
    settings = settings or Settings(app.node)
    sound = not settings.problems
    for stage in settings.stages:
        _declare(stage, declare, app if sound and stage.selected else _trial(app))
    raise_if_any(settings.problems)


def _declare(stage: StageSettings, declare: Callable[[App, FleetConfig], object], app: App) -> None:
    """Declare the stacks of a stage.

    The first construct that refuses its arguments ends the declaration. The settings that it refuses are then
    set aside, and the stacks are declared again elsewhere, so that all mistakes are found.
    """
    while True:
        try:
            declare(app, stage.config)
        except FleetError as error:
            if not stage.refuse(error.problems):
                return
            app = _trial(app)
        else:
            return


def _trial(app: App) -> App:
    """Return an app with the same context, which is never synthesised."""
    return App(
        context=app.node.get_all_context() | {"aws:cdk:disable-asset-staging": True}, stack_traces=False
    )


def attach(app: App) -> None:
    """Let every synthesis fail on a finding of AwsSolutions that is not accepted where it is."""
    Validations.of(app).add_plugins(AwsSolutionsChecks(app, verbose=True))


def write_templates(app: App) -> None:
    """Write the templates, unless a check finds something wrong with them, which is raised.

    Under the CDK's command line the findings are left to that, which reads the same report.
    """
    found: list[Problem] = []
    with defer() as late:
        try:
            app.synth()
        except RuntimeError as error:  # through jsii, every error of the CDK is one
            if not str(error).startswith("ValidationFailed"):
                raise
            report = json.loads((Path(app.outdir) / "validation-report.json").read_text())
            found += _findings(report)
    raise_if_any([*(problem for each in late for problem in each.problems), *found])


def _findings(report: dict[str, Any]) -> Iterator[Problem]:
    for plugin in report["pluginReports"]:
        for violation in plugin["violations"]:
            if violation["severity"] != "warning":
                yield Problem(
                    what=violation["description"],
                    where=", ".join(each["constructPath"] for each in violation["violatingConstructs"]),
                    fix="change the resource, or pass the reason to Validations.of(...).acknowledge(...)",
                    rule=violation["ruleName"],
                )
