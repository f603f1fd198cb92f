"""The warning about models with sequences on several instances."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jsii
from constructs import IConstruct, IValidation

from triton_fleet.parts.arguments.checks import warn
from triton_models.base.checks import Check, Report
from triton_models.base.suggest import some_of

# SageMaker pins a session to an instance only if the container answers with a session id, and no branch of
# Triton's front end does (src/sagemaker_server.cc).
SEQUENCES_SPREAD = Check(
    id="triton-fleet:sequences-spread",
    source=(
        "2026-11-22: https://docs.aws.amazon.com/sagemaker/latest/dg/stateful-sessions.html"
        " https://github.com/triton-inference-server/server/blob/main/src/sagemaker_server.cc"
    ),
)


@jsii.implements(IValidation)
class SequenceAdvice:
    """Warns when the app is synthesised, because builds may be declared after what serves their models."""

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
        self._setting = setting
        if instances is None or instances > 1:  # None is known only at deployment
            construct.node.add_validation(self)

    def validate(self) -> list[str]:
        """Warn; nothing is refused."""
        models = self._models()
        if models:
            report = Report(self._construct.node.path)
            report(
                SEQUENCES_SPREAD,
                f"sequence batching in {some_of(models)}, on several instances",
                fix=f"serve these models from one instance with {self._setting}, or from another endpoint",
                why="nothing sends the requests of a sequence to the instance that has its state",
            )
            warn(self._construct, report)
        return []
