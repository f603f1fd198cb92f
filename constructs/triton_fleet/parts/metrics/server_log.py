"""Queries that find Triton's log lines about loaded and unloaded models in CloudWatch Logs."""

from __future__ import annotations

from triton_models.facts.server_log import LOAD_FAILED, LOADED, OUT_OF_MEMORY, UNLOADED

LOAD_FAILURE_PATTERN = " ".join(
    [*(f'"{term}"' for term in LOAD_FAILED), *(f'-"{term}"' for term in OUT_OF_MEMORY)]
)
"""A filter pattern for loads that failed for another reason than memory."""

_NAME = "'(?:[^']*::)?(?<model>[^']+)'"

MOST_LOADED = (
    f'filter @message like "{LOADED}"',
    f"parse @message /successfully loaded {_NAME}/",
    "stats count(*) as loads, count_distinct(@logStream) as instances by model",
    "sort loads desc",
    "limit 20",
)
"""The models that are loaded most often. Many more loads than instances: they are evicted again and again."""

FAILED_LOADS = (
    f'filter @message like "{LOAD_FAILED[0]}" and @message like "{LOAD_FAILED[1]}"',
    f"parse @message /failed to load {_NAME} version [0-9]+: (?<reason>.*)/",
    "stats count(*) as failures, latest(@timestamp) as last by model, reason",
    "sort failures desc",
    "limit 20",
)
"""The models that could not be loaded, and why."""

SLOWEST_UNLOADS = (
    f'filter @message like "{UNLOADED}"',
    "parse @message /UNLOAD for model (?<model>[^ ]+) completed in (?<seconds>[0-9]+) seconds/",
    "stats count(*) as unloads, max(seconds) as slowest_seconds by model",
    "sort slowest_seconds desc",
    "limit 20",
)
"""The models that are unloaded, the slowest first: SageMaker gives up waiting for one after 360 seconds."""
