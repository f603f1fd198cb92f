"""`fleet verdicts`: one summary of many runs, which ran side by side or one after the other."""

from __future__ import annotations

import argparse
import json

from triton_models.base.errors import FleetError
from triton_models.deliver.places import Place
from triton_models.deliver.verdicts import Verdicts, merged


def run(arguments: argparse.Namespace) -> Verdicts:
    """`fleet verdicts URL [--items FILE] [--output FILE]`."""
    items = Place(address=arguments.items) if arguments.items else None
    found = summary(Place(address=arguments.place), items=items)
    if arguments.output:
        Place(address=arguments.output).write(found.to_json())
    return found


def summary(place: Place, *, items: Place | None = None) -> Verdicts:
    """The verdicts in all documents of a folder.

    Args:
        place: A folder or a prefix of documents that `fleet deliver --verdicts` wrote, or one of them.
        items: What `fleet changed -o` wrote. A model of it that no document has a verdict on has failed.

    Raises:
        FleetError: A document cannot be read, or is none: what became of its models is not known. Or there
            is none at all, and nothing says which models were to be made.
    """
    expected = _expected(items) if items is not None else []
    documents = _documents(place, none_will_do=items is not None)
    return merged(
        (Verdicts.from_json(text, where=where) for where, text in documents.items()), expected=expected
    )


def _documents(place: Place, *, none_will_do: bool) -> dict[str, bytes]:
    try:
        return place.documents()
    except FleetError as error:
        if none_will_do and error.problems[0].rule == "no-verdicts":
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
            expected='[{"models": "minilm resnet50"}, ...], as `fleet changed -o` writes it',
            fix="give the address that `fleet changed` was given with -o",
            rule="items",
        ) from None
