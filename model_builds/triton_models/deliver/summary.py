"""`fleet summarize`: one summary of many runs, which ran side by side or one after the other."""

from __future__ import annotations

import argparse
import json

from triton_models.base.errors import FleetError
from triton_models.deliver.places import Place
from triton_models.deliver.results import Results, merged


def run(arguments: argparse.Namespace) -> Results:
    """`fleet summarize URL [--items FILE] [--summary FILE]`."""
    items = Place(address=arguments.items) if arguments.items else None
    found = summary(Place(address=arguments.place), items=items)
    if arguments.summary:
        Place(address=arguments.summary).write(found.to_json())
    return found


def summary(place: Place, *, items: Place | None = None) -> Results:
    """The results in all documents of a folder.

    Args:
        place: A folder or a prefix of documents that `fleet deliver --results` wrote, or one of them.
        items: What `fleet diff --items` wrote. A model of it that no document has a result on has failed.

    Raises:
        FleetError: A document cannot be read, or is none: what became of its models is not known. Or there
            is none at all, and nothing says which models were to be made.
    """
    expected = _expected(items) if items is not None else []
    documents = _documents(place, none_will_do=items is not None)
    return merged(
        (Results.from_json(text, where=where) for where, text in documents.items()), expected=expected
    )


def _documents(place: Place, *, none_will_do: bool) -> dict[str, bytes]:
    try:
        return place.documents()
    except FleetError as error:
        if none_will_do and error.problems[0].rule == "no-results":
            return {}
        raise


def _expected(items: Place) -> list[str]:
    try:
        listed = json.loads(items.read())
        if not isinstance(listed, list):
            msg = f"{type(listed).__name__} instead of an array"
            raise TypeError(msg)
        return [model for each in listed for model in each["models"].split()]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise FleetError.of(
            what=f"not a list of models: {type(error).__name__} {error}",
            where=items.address,
            expected='[{"models": "minilm resnet50"}, ...], as `fleet diff --items` writes it',
            fix="give the address that `fleet diff` was given with --items",
            rule="items",
        ) from None
