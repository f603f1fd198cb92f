"""The rule of a composite alarm: states of other alarms with AND, OR and NOT.

Grammar: https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutCompositeAlarm.html, read
2026-11-23. NOT binds more strongly than AND, and AND more strongly than OR.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

_TOKEN = re.compile(
    r"\s*(?:(?P<state>ALARM|OK|INSUFFICIENT_DATA)\s*\(\s*(?:\"(?P<double>[^\"]+)\"|'(?P<single>[^']+)'"
    r"|(?P<bare>[^\s()\"']+))\s*\)|(?P<word>AND|OR|NOT|TRUE|FALSE)\b|(?P<sign>[()]))"
)

Holds = Callable[[Mapping[str, str]], bool]


class RuleError(ValueError):
    """The rule does not follow the grammar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The rule of a composite alarm.

    Attributes:
        alarms: The names of the alarms in it, in their order.
        holds: Returns True if the rule holds, for the states of alarms by name. An alarm that does not exist
            has insufficient data.
    """

    alarms: tuple[str, ...]
    holds: Holds

    @classmethod
    def of(cls, text: str) -> Rule:
        """Return the rule in a text."""
        parser = _Parser(_tokens(text))
        holds = parser.any_of()
        parser.end()
        return cls(alarms=tuple(dict.fromkeys(parser.alarms)), holds=holds)


def alarm_name(name_or_arn: str) -> str:
    """Return the name of an alarm that is given by its name or ARN."""
    return name_or_arn.rsplit(":alarm:", 1)[-1]


def _tokens(text: str) -> list[re.Match[str]]:
    found, position = [], 0
    while text[position:].strip():
        token = _TOKEN.match(text, position)
        if token is None:
            raise RuleError(f"unexpected text at position {position}: {text[position:].strip()[:20]}")
        found.append(token)
        position = token.end()
    return found


class _Parser:
    def __init__(self, tokens: list[re.Match[str]]) -> None:
        self._tokens = tokens
        self.alarms: list[str] = []

    def any_of(self) -> Holds:
        parts = [self._all_of()]
        while self._takes("OR"):
            parts.append(self._all_of())
        return lambda states: any(part(states) for part in parts)

    def _all_of(self) -> Holds:
        parts = [self._one()]
        while self._takes("AND"):
            parts.append(self._one())
        return lambda states: all(part(states) for part in parts)

    def _one(self) -> Holds:
        if self._takes("NOT"):
            inner = self._one()
            return lambda states: not inner(states)
        if self._takes("("):
            inside = self.any_of()
            if not self._takes(")"):
                raise RuleError("a parenthesis is not closed")
            return inside
        if self._takes("TRUE"):
            return lambda _: True
        if self._takes("FALSE"):
            return lambda _: False
        return self._alarm()

    def _alarm(self) -> Holds:
        if not self._tokens or not (state := self._tokens[0]["state"]):
            raise RuleError(
                f"an alarm is missing before {self._tokens[0][0].strip()}"
                if self._tokens
                else "it ends early"
            )
        token = self._tokens.pop(0)
        name = alarm_name(token["double"] or token["single"] or token["bare"])
        self.alarms.append(name)
        return lambda states: states.get(name, "INSUFFICIENT_DATA") == state

    def _takes(self, wanted: str) -> bool:
        if self._tokens and wanted in (self._tokens[0]["word"], self._tokens[0]["sign"]):
            self._tokens.pop(0)
            return True
        return False

    def end(self) -> None:
        if self._tokens:
            raise RuleError(f"unexpected {self._tokens[0][0].strip()}")
