"""The warning about models with sequences on several instances."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jsii
from constructs import IConstruct, IValidation

from triton_fleet.arguments.collector import warn
from triton_fleet.endpoint.checks import sequences
from triton_models.base.checks import Report


@jsii.implements(IValidation)
class SequenceAdvice:
    """Warns when the app is synthesised, for builds of a repository may be declared after what serves it.

    Args:
        construct: The construct to warn about.
        models: Finds the models with sequences.
        instances: The most instances; None if that is known only at deployment.
        setting: The setting that limits it to one instance.
    """

    def __init__(
        self,
        construct: IConstruct,
        models: Callable[[], Sequence[str]],
        *,
        instances: int | None,
        setting: str,
    ) -> None:
        self._construct = construct
        self._models = models
        self._instances = instances
        self._setting = setting
        if instances != 1:
            construct.node.add_validation(self)

    def validate(self) -> list[str]:
        """Warn; nothing is refused."""
        report = Report(self._construct.node.path)
        sequences(report, self._models(), instances=self._instances, setting=self._setting)
        warn(self._construct, report)
        return []
