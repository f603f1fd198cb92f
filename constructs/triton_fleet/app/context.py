"""The settings, read from the CDK's context and the environment: here and nowhere else.

`cdk.json` holds them under one key, `tritonFleet`. On the command line every setting can be given on its own:
`cdk deploy --all -c instance_type=ml.g5.4xlarge -c max_capacity=8`. There every value is a string, and
precedes that of the selected stage, which precedes that of all stages.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from constructs import Node
from pydantic import ValidationError

from triton_fleet.app.checks import (
    STAGE,
    STAGES,
    check_keys_once,
    check_settings,
    check_together,
    chosen_stages,
)
from triton_fleet.app.config import FleetConfig
from triton_fleet.parts.arguments.checks import NUMBER_RANGE
from triton_models.base.checks import FROM_ARGUMENTS, Check, Report
from triton_models.base.errors import Problem, raise_if_any
from triton_models.base.suggest import did_you_mean

UNKNOWN_CONFIG_KEY = Check(id="unknown-config-key", source=FROM_ARGUMENTS)
CONFIG_VALUE_KIND = Check(id="config-value-kind", source=FROM_ARGUMENTS)
UNKNOWN_DEPLOYMENT = Check(id="unknown-deployment", source=FROM_ARGUMENTS)
STAGE_ENVIRONMENT = Check(id="stage-environment", source=FROM_ARGUMENTS)

CONTEXT_KEY = "tritonFleet"

_FILE, _COMMAND_LINE = "cdk.json", "the command line"
_RULES = MappingProxyType(
    {"literal_error": UNKNOWN_DEPLOYMENT, "greater_than_equal": NUMBER_RANGE, "less_than_equal": NUMBER_RANGE}
)
"""The check of each of pydantic's errors; of all others it is that of the kind."""

_EXPECTED = MappingProxyType(
    {
        "int_type": "an integer",
        "float_type": "a number",
        "bool_type": "true or false",
        "string_type": "a string",
        "tuple_type": "a list of names, or names with commas between them",
        "dict_type": "an object of names and values, or NAME=VALUE with commas between them",
        "model_type": "an object",
    }
)
"""The words of JSON for pydantic's errors about Python's types; the others speak for themselves."""

_ARGUMENTS: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        # rules
        "deployment-portion": ["deployment_size", "deployment"],
        "deployment-times": ["deployment_wait_minutes", "deployment"],
        "existing-bucket": ["encryption_key", "bucket"],
        "host-ami": ["inference_ami"],
        "release-not-in-region": ["region", "deployed_in"],
        # arguments, or the parts of one
        "the endpoint's instance type": ["instance_type"],
        "CpuUtilization": ["cpu_utilization_percent"],
        "GpuUtilization": ["gpu_utilization_percent"],
        "Invocations": ["invocations_per_gpu_per_minute", "invocations_per_instance_per_minute"],
        "build_every": ["build_every_hours"],
        "email": ["alarm_email"],
        "environment": ["build_environment"],
        "initial_instance_count": ["min_capacity"],
        "latency_p99": ["latency_p99_ms"],
        "limit_usd": ["monthly_budget_usd"],
        "max_concurrency": ["parallel_builds"],
        "min_capacity": ["min_capacity", "max_capacity"],
        "on_new_weights": ["build_on_new_weights"],
        "owner_id": ["github_owner_id", "github_repository_id"],
        "provider_arn": ["github_provider"],
        "repository": ["github_repository"],
        "requests": ["warm_up"],
        "role_arns": ["promoted_by"],
        "sg id": ["vpc"],
        "subnet id": ["vpc"],
        "topic": ["monthly_budget_usd"],
        "uri": ["image"],
        "vpc id": ["vpc"],
    }
)
"""The settings that become an argument of another name, or that a rule is about."""


def settings_of(problem: Problem) -> Iterator[str]:
    """Yield the settings that a construct may refuse, the likeliest first."""
    for part in (problem.rule, *re.split(" of | in |, ", problem.where)):
        yield from _ARGUMENTS.get(part, [part])


class StageSettings:
    """The settings of a stage, or of a fleet without stages, and the mistakes in them.

    In the configuration, a refused setting has its default. A selected stage is deployed by this synthesis.
    """

    def __init__(
        self, stage: str | None, given: Mapping[str, Mapping[str, Any]], *, selected: bool, region: str | None
    ) -> None:
        """Read and check the settings by the place that gives them; each place precedes those before it."""
        self.selected = selected
        self._reports: dict[str, Report] = {}
        self._places = {key: place for place, values in given.items() for key in values}
        values = {key: value for each in given.values() for key, value in each.items()}
        config = self._validated({key: values[key] for key in FleetConfig.settings() if key in values})
        derived: dict[str, object] = {"stage": stage, "deployed_in": config.region or region}
        if stage and self._places.get("name", _FILE) == _FILE:
            derived["name"] = f"{config.name}-{stage}"
        self.config = config.model_copy(update=derived)
        check_settings(self.config, self.at)
        self._others = Report(_of_stage(stage))
        missing = [key for key in ("account", "region") if not values.get(key)]
        if stage and missing:
            self._others(
                STAGE_ENVIRONMENT,
                f"the stage {stage!r} has no {' and no '.join(missing)}",
                fix='add "account": "123456789012"' if "account" in missing else 'add "region": "eu-west-1"',
                why="it would go wherever the AWS profile of the day points",
            )
        self._set_aside()

    def at(self, setting: str) -> Report:
        """Return the report of a setting, whose place is where the setting is given."""
        place = f"{setting} of {self._places.get(setting, _FILE)}"
        if setting == "deployed_in":
            place = "CDK_DEFAULT_REGION, the region of your AWS profile"
        return self._reports.setdefault(setting, Report(place))

    def refuse(self, problems: Iterable[Problem]) -> bool:
        """Add what constructs refuse, with the settings in place of their arguments.

        Returns True if the configuration is another one without the settings that are refused.
        """
        before = self.config
        for each in problems:
            setting = next(filter(before.model_fields_set.__contains__, settings_of(each)), None)
            if setting is None:
                self._others.add([each])
            else:
                report = self.at(setting)
                report.add([replace(each, where=report.where)])
        self._set_aside()
        return self.config != before

    def _set_aside(self) -> None:
        """Give each refused setting its default, to find the mistakes in the others."""
        self.config = self.config.without(key for key, each in self._reports.items() if each.problems)

    @property
    def problems(self) -> list[Problem]:
        """The mistakes."""
        reports = (*self._reports.values(), self._others)
        return [problem for each in reports for problem in each.problems]

    def _validated(self, values: dict[str, Any]) -> FleetConfig:
        """Return the configuration without the values that are of the wrong kind."""
        try:
            return FleetConfig(**values)
        except ValidationError as error:
            for each in error.errors(include_url=False):
                key, kind = str(each["loc"][0]), each["type"]
                message = re.sub("^(Value error, |Input should be )", "", each["msg"])
                self.at(key)(
                    _RULES.get(kind, CONFIG_VALUE_KIND),
                    f"{'.'.join(map(str, each['loc']))} is {each['input']!r}",
                    fix=f"give {_EXPECTED.get(kind, message)}",
                )
                values.pop(key, None)
            return FleetConfig(**values)


class Settings:
    """The settings of an app: those of each stage, in order; without stages, those of the fleet."""

    def __init__(
        self, node: Node, *, environment: Mapping[str, str] = os.environ, file: Path = Path(_FILE)
    ) -> None:
        """Read and check all settings, also those of stages that are not selected.

        Of the environment only CDK_DEFAULT_REGION is read: the CLI sets it to where it would deploy. The file
        is read for duplicate keys, of which the CLI hands on the last.
        """
        self._file, self._line = Report(_FILE), Report(_COMMAND_LINE)
        check_keys_once(self._file, file)
        context, keys = node.get_all_context(), FleetConfig.settings()
        line = {key: context[key] for key in keys if context.get(key) is not None}
        shared = self._object(CONTEXT_KEY, context.get(CONTEXT_KEY))
        stages = {
            name: self._object(f"stage {name!r}", each)
            for name, each in self._object(STAGES, shared.pop(STAGES, None)).items()
        }
        _check_known(self._file, shared, (*keys, STAGES))
        known = (*keys, CONTEXT_KEY, STAGE)
        _check_known(self._line, _lookalikes(context, known), known)
        chosen = chosen_stages(self._line, context.get(STAGE), stages)
        self.stages: list[StageSettings] = []
        declared: Mapping[str | None, dict[str, Any]] = dict(stages.items()) or {None: {}}
        for name, own in declared.items():
            _check_known(self._file.at(f"stage {name!r}"), own, keys)
            given = {_FILE: shared, _of_stage(name): own, _COMMAND_LINE: line if name in chosen else {}}
            region = environment.get("CDK_DEFAULT_REGION")
            read = StageSettings(name, given, selected=name in chosen, region=region)
            before = self.stages[-1].config if self.stages else None
            if before is not None and before.account == read.config.account:
                read.config = read.config.model_copy(update={"follows": before})
            self.stages.append(read)
        configs = [each.config for each in self.stages]
        check_together(self._file.at(STAGES), configs, chosen=chosen)

    @property
    def problems(self) -> list[Problem]:
        """All mistakes; one in a setting that stages share is a single mistake."""
        of_stages = [problem for each in self.stages for problem in each.problems]
        return list(dict.fromkeys([*self._line.problems, *self._file.problems, *of_stages]))

    def _object(self, name: str, given: object) -> dict[str, Any]:
        """Return an object of the context without its nulls; an empty one if it is not an object."""
        if given is not None and not isinstance(given, Mapping):
            self._file.at(name)(CONFIG_VALUE_KIND, f"{name} is {given!r}", fix="give an object")
            return {}
        return {key: value for key, value in (given or {}).items() if value is not None}


def fleet_configs(
    node: Node, *, environment: Mapping[str, str] = os.environ, file: Path = Path(_FILE)
) -> tuple[FleetConfig, ...]:
    """Read the configuration of every selected stage; without stages, that of the fleet. See `Settings`."""
    settings = Settings(node, environment=environment, file=file)
    raise_if_any(settings.problems)
    return tuple(each.config for each in settings.stages if each.selected)


def _of_stage(name: str | None) -> str:
    return f"stage {name!r} of {_FILE}"


def _check_known(report: Report, given: Iterable[str], known: Collection[str]) -> None:
    for key in given:
        if key not in known:
            report.at(key)(
                UNKNOWN_CONFIG_KEY,
                f"unknown key {key!r}",
                fix=did_you_mean(key, known, otherwise=f"use one of {', '.join(known)}"),
                why="it would be ignored, and the default deployed in its place",
            )


def _lookalikes(given: Iterable[str], known: Collection[str]) -> list[str]:
    """Return the keys that are probably misspelled: the context holds the CDK's own keys as well."""
    return [key for key in given if difflib.get_close_matches(key.replace("-", "_"), known, n=1, cutoff=0.8)]
