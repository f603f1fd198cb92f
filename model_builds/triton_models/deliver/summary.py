"""`fleet summarize`: sum up many runs, parallel or successive."""

from __future__ import annotations

import argparse

from triton_models.base.errors import FleetError
from triton_models.base.json_text import parsed
from triton_models.deliver.places import Place
from triton_models.deliver.results import Results, merged


def run(arguments: argparse.Namespace) -> Results:
    """Run `fleet summarize URL [--items FILE] [--summary FILE]`."""
    items = Place(address=arguments.items) if arguments.items else None
    found = summary(Place(address=arguments.place), items=items)
    if arguments.summary:
        Place(address=arguments.summary).write(found.to_json())
    return found


def summary(place: Place, *, items: Place | None = None) -> Results:
    """Merge the results in all documents of a folder.

    Raises:
        FleetError: A document is unreadable or invalid, so the results of its models are unknown. Or there is
            no document, and `items` is None.
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
        listed = parsed(items.read())
        if not isinstance(listed, list):
            msg = f"{type(listed).__name__} instead of an array"
            raise TypeError(msg)
        return [model for each in listed for model in each["models"].split()]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise FleetError.of(
            what=f"not a list of models: {type(error).__name__} {error}",
            where=items.address,
            fix="pass the address given to `fleet diff --items`",
            rule="items",
        ) from None
