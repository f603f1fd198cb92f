"""SEARCH expressions: the metrics whose names and dimensions match some terms.

Syntax: https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/search-expression-syntax.html. All
terms must hold: OR, NOT and parentheses are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from embedded_aws.cloudwatch.metric_math import ExpressionError
from embedded_aws.cloudwatch.series import MetricKey

_SCHEMA = re.compile(r"\s*\{([^}]*)\}\s*,?")
_SCHEMA_PART = re.compile(r'\s*(?:"([^"]*)"|([^,"]+?))\s*(?:,|$)')
_TERM = re.compile(r'((?:[^\s()="]+=)?)(?:"([^"]*)"|([^\s"]+))')
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def found(query: str, keys: Iterable[MetricKey]) -> list[MetricKey]:
    """Return the metrics that a search finds, in their order.

    Args:
        query: The first argument of SEARCH: a schema in braces, terms, or both.
        keys: The metrics to search.
    """
    schema = _SCHEMA.match(query)
    terms = [each for each in _TERM.findall(query[schema.end() :] if schema else query) if each[2] != "AND"]
    if not schema and not terms:
        raise ExpressionError("a search needs a schema or a term")
    if any(word in {"OR", "NOT"} or "(" in word for _, _, word in terms):
        raise ExpressionError("the embedded AWS has no OR, NOT and parentheses in searches")
    named = [quoted or plain for quoted, plain in _SCHEMA_PART.findall(schema[1])] if schema else []
    return [
        key
        for key in keys
        if (not named or (named[0], set(named[1:])) == (key.namespace, {name for name, _ in key.dimensions}))
        and all(_matches(key, *term) for term in terms)
    ]


def _matches(key: MetricKey, named: str, exact: str, partial: str) -> bool:
    """Return True if a name or a value matches: exactly in quotes, and otherwise some of its words."""
    values = _values(key, named.removesuffix("="))
    return exact in values if exact else any(_contains(_words(value), _words(partial)) for value in values)


def _values(key: MetricKey, name: str) -> list[str]:
    """Return what a term may match: the value of its property, or every name and value of the metric."""
    if not name:
        return [key.namespace, key.name, *(each for pair in key.dimensions for each in pair)]
    known = {**dict(key.dimensions), "MetricName": key.name, "Namespace": key.namespace}
    return [known[name]] if name in known else []


def _words(text: str) -> list[str]:
    """Return the words of a name, in lower case: they begin at capitals, digits and punctuation."""
    return [word.lower() for word in _WORD.findall(text)]


def _contains(words: list[str], wanted: list[str]) -> bool:
    width = len(wanted)
    return any(words[start : start + width] == wanted for start in range(len(words) - width + 1))
