"""The requests of a sequence reach the instance that has its state."""

from __future__ import annotations

from collections.abc import Sequence

from triton_models.base.suggest import some_of

RULE = "triton-fleet:sequences-spread"
# Read on 2026-11-22. A session of SageMaker is pinned to an instance only where the container answers with a
# session's id, and no branch of Triton's front end does (src/sagemaker_server.cc).
SOURCES = (
    "https://docs.aws.amazon.com/sagemaker/latest/dg/stateful-sessions.html",
    "https://github.com/triton-inference-server/server/blob/main/src/sagemaker_server.cc",
)


def sequences(models: Sequence[str], *, instances: int | None, setting: str) -> str | None:
    """What to know about models with sequences on an endpoint, if anything.

    Args:
        models: The models whose declarations have sequence batching.
        instances: The most instances; None if that is known only at deployment.
        setting: What makes it one instance.
    """
    if not models or (instances is not None and instances <= 1):
        return None
    return (
        f"Sequence batching in {some_of(models)}: with several instances, nothing sends the requests of a "
        f"sequence to the instance that has its state. Serve these models from one instance, with {setting}, "
        "or elsewhere."
    )
