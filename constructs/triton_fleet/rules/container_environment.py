"""The container's environment: nothing is set twice, and it fits into what SageMaker passes on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from triton_models.base.errors import Problem

RULE = "container-environment"
# Read on 2026-11-21.
SOURCE = "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ContainerDefinition.html"

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_LONGEST = 1024
_MOST = 100
_WHOLE = 32 * 1024


def container_environment(
    server: Mapping[str, str], extra: Mapping[str, str | None], *, where: str
) -> Iterator[Problem]:
    """The problems with adding variables to those of the server's options.

    Args:
        server: What the server's options set.
        extra: What is added; a value that is known only at deployment is None.
        where: What the problems are reported for.
    """
    for name in sorted(set(server) & set(extra)):
        yield Problem(
            what=f"{name} is set to {extra[name]!r} here and to {server[name]!r} by the server's options",
            where=where,
            expected="a variable that TritonServer does not set",
            why="one of the two would be lost without a word",
            fix="set it with the option of TritonServer",
            rule=RULE,
        )
    for name, value in extra.items():
        longest = max(len(name.encode()), len((value or "").encode()))
        if longest > _LONGEST or not _NAME.fullmatch(name):
            yield Problem(
                what=f"the variable {name[:40]!a} is {longest} bytes long"
                if longest > _LONGEST
                else f"a variable is named {name!a}",
                where=where,
                expected=f"names and values of at most {_LONGEST} bytes each; names of letters, digits and "
                "underscores, beginning with no digit",
                why="SageMaker refuses the model",
                fix="put what is long into a file of the artifact"
                if longest > _LONGEST
                else "write names like MODEL_OPTION",
                rule=RULE,
            )
    variables = {**server, **extra}
    size = sum(len(name.encode()) + len((value or "").encode()) for name, value in variables.items())
    if len(variables) > _MOST or size > _WHOLE:
        yield Problem(
            what=f"the environment has {len(variables)} variables and {size} bytes",
            where=where,
            expected=f"at most {_MOST} variables and {_WHOLE} bytes, those of the server's options included",
            why="SageMaker refuses the model",
            fix="put settings that belong together into one variable, or into a file of the artifact"
            if len(variables) > _MOST
            else "put what is long into a file of the artifact",
            rule=RULE,
        )
