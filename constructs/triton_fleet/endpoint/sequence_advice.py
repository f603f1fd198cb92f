"""The warning about models with sequences on several instances."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jsii
from constructs import IConstruct, IValidation

from triton_fleet.arguments.collector import warn
from triton_fleet.endpoint.checks import sequences


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
        found = sequences(
            self._models(), instances=self._instances, setting=self._setting, where=self._construct.node.path
        )
        warn(self._construct, found)
        return []
