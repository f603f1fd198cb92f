"""Checks of the role of a workflow."""

from __future__ import annotations

import re

from triton_models.base.checks import Check, Report

GITHUB_REPOSITORY = Check(
    id="github-repository", source="2026-11-23: https://docs.github.com/en/actions/reference/security/oidc"
)
"""The repository is OWNER/NAME, as GitHub writes it into the subject of its tokens."""

GITHUB_ENVIRONMENT = Check(
    id="github-environment", source="2026-11-23: https://docs.github.com/en/actions/reference/security/oidc"
)
"""The environment is one name, which nothing else can stand for."""

GITHUB_PROVIDER = Check(
    id="github-provider",
    source="2026-11-23: https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_providers_create_oidc.html",
)
"""The provider is that of GitHub, which an account can have once."""

ISSUER = "token.actions.githubusercontent.com"
"""The host that signs the tokens of GitHub Actions."""

READ_IDS = "gh api repos/OWNER/NAME --jq '.owner.id, .id'"
"""The command that prints the ids of a repository's owner and of the repository."""

GITHUB_IDS = Check(
    id="github-ids",
    source="2026-11-25: "
    "https://github.blog/changelog/2026-04-23-immutable-subject-claims-for-github-actions-oidc-tokens/",
)
"""The ids are the numbers of the repository and its owner, which are part of the subject of newer tokens."""

_REPOSITORY = re.compile(r"[A-Za-z0-9](-?[A-Za-z0-9])*(_[A-Za-z0-9]+)?/[A-Za-z0-9._-]+")
_ID = re.compile(r"[1-9][0-9]*", re.ASCII)
_OWNER, _NAME, _LONGEST_ENVIRONMENT = 39, 100, 255
# A colon is escaped in the subject, and a star or a question mark would stand for others.
_FORBIDDEN = re.compile(r"[:*?${}\x00-\x1f\x7f]|^\s|\s$")


def github_repository(report: Report, repository: str | None) -> None:
    """Report problems with a repository's name; None if it is known only at deployment."""
    if repository is None:
        return
    owner, _, name = repository.partition("/")
    fits = len(owner) <= _OWNER and len(name) <= _NAME and name not in {".", ".."}
    if fits and _REPOSITORY.fullmatch(repository):
        return
    report(
        GITHUB_REPOSITORY,
        f"the repository is {repository[:80]!a}",
        fix="give the last two parts of its address, without https://github.com/ and .git"
        if "github.com" in repository
        else "give the names alone; their numbers are the owner's id and the repository's id"
        if "@" in repository
        else "give the owner, a slash and the repository's name",
        why="the role trusts the tokens of this repository, and of no other",
    )


def github_ids(report: Report, owner: str | None, repository: str | None) -> None:
    """Report problems with the ids of a repository and its owner; None of both for tokens without them."""
    if owner is None and repository is None:
        return
    if all(each and _ID.fullmatch(each) for each in (owner, repository)):
        return
    report(
        GITHUB_IDS,
        f"the owner's id is {_given(owner)}, and the repository's id is {_given(repository)}",
        fix=f"give two numbers, as from {READ_IDS}",
        why="the subject of a token has both ids or none",
    )


def _given(number: str | None) -> str:
    return "missing" if number is None else repr(number[:40])


def github_environment(report: Report, environment: str | None) -> None:
    """Report problems with an environment's name; None if it is known only at deployment."""
    if environment is None:
        return
    if environment and len(environment) <= _LONGEST_ENVIRONMENT and not _FORBIDDEN.search(environment):
        return
    report(
        GITHUB_ENVIRONMENT,
        f"the environment is {environment[:80]!a}",
        fix=f"use one name, such as production: up to {_LONGEST_ENVIRONMENT} characters without : * ? $",
        why="its protection rules decide who may deploy, and the trust names it alone",
    )


def github_provider(report: Report, arn: str | None) -> None:
    """Report problems with the ARN of an identity provider; None for a new one, or if it is not known yet."""
    if arn is None or re.fullmatch(
        rf"arn:aws[a-z-]*:iam::[0-9]{{12}}:oidc-provider/{re.escape(ISSUER)}", arn
    ):
        return
    report(
        GITHUB_PROVIDER,
        f"the provider is {arn[:80]!a}",
        fix=f"copy the ARN ending in oidc-provider/{ISSUER} from `aws iam list-open-id-connect-providers`, "
        "or leave it out for a new one",
        why="only this provider vouches for the tokens of GitHub Actions",
    )
