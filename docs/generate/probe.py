"""The page of probes: what `fleet probe account` creates, its duration, cost and permissions."""

from __future__ import annotations

from collections.abc import Iterator

from triton_models.facts import prices
from triton_models.facts.instances import instance_type
from triton_models.probe.account import costs
from triton_models.probe.account.probe import AccountProbe
from triton_models.probe.account.probes import PROBES

_INSTANCE = "ml.g5.2xlarge"
_HEAD = """\
# Probe an account

`fleet probe account` tests, in an AWS account, the beliefs of the [ledger](ledger.md) that only an account
can decide. It first lists the resources, the duration and the cost, and asks for confirmation.

```
fleet probe account --region us-east-1                    # the cheap probes
fleet probe account --region us-east-1 --all              # all of them
fleet probe account --only empty-prefix build-host        # by the id of a probe or of a belief
fleet probe account --resume                              # continue an interrupted run
fleet probe account --clean                               # remove what earlier runs left
```

- Everything is named `fleet-probe-<run>-...` and removed at the end, even after Ctrl-C. SageMaker cannot
  delete an endpoint that is still starting: the command waits until it has started or failed. A second Ctrl-C
  leaves it to `--clean`.
- What a run is about to create is first written to a journal, in `~/.local/state/triton-fleet` (or
  `$XDG_STATE_HOME/triton-fleet`). `--clean` removes what the journals list, and what has such a name in the
  region: that also works after a crash, and from another machine. It lists what it found and asks, because a
  colleague's run looks the same.
- The transcript contains no account id and no name from the account. Put it into `docs/transcripts/` to raise
  the grades of its beliefs.
- What cannot be decided is *undecided*, with the reason: a missing permission, a quota of 0, no capacity, a
  region without the image. The exit status is 0 if every belief is true.
"""
_ALWAYS = (
    "iam:DeleteRole",
    "iam:DeleteRolePolicy",
    "iam:ListRolePolicies",
    "iam:TagRole",
    "s3:DeleteBucket",
    "s3:DeleteObject",
    "s3:ListBucket",
    "s3:ListBucketMultipartUploads",
)


def page() -> str:
    """The page."""
    return "\n".join((_HEAD, *_table(), "", *_permissions(), ""))


def _table() -> Iterator[str]:
    instance = instance_type(_INSTANCE)
    yield f"Costs are for {_INSTANCE}, with the prices of {prices.SOURCE_DATE}."
    yield "The price of CodeBuild's GPU is an upper bound."
    yield ""
    yield "| probe | what it does | creates | minutes | USD |"
    yield "|---|---|---|---|---|"
    for probe in sorted(PROBES, key=lambda each: not each.cheap):
        yield _row(probe, costs.usd(probe, instance))
    cheap = [probe for probe in PROBES if probe.cheap]
    for name, probes in (("without `--all`", cheap), ("with `--all`", PROBES)):
        total = sum(costs.usd(probe, instance) or 0.0 for probe in probes)
        yield f"| **{name}** | all, in parallel, with removal | | {costs.minutes(probes):.0f} | {total:.2f} |"


def _row(probe: AccountProbe, usd: float | None) -> str:
    name = f"`{probe.id}`" if probe.cheap else f"`{probe.id}` (`--all`)"
    amount = "unknown" if usd is None else f"{usd:.2f}"
    return f"| {name} | {probe.what} | {probe.creates} | {probe.minutes:g} | {amount} |"


def _permissions() -> Iterator[str]:
    yield "The caller needs these permissions, and those to list and delete what is created:"
    yield ""
    needed = sorted({action for probe in PROBES for action in probe.allowed} | set(_ALWAYS))
    for service in sorted({action.partition(":")[0] for action in needed}):
        actions = [action.partition(":")[2] for action in needed if action.startswith(f"{service}:")]
        yield f"- `{service}`: {', '.join(actions)}"
