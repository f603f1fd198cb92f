"""The internals of moto that the embedded AWS depends on. moto does not promise to keep them."""

from __future__ import annotations

import importlib
import types
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import pytest

from embedded_aws import MotoChangedError
from embedded_aws.cloudformation import stacks
from embedded_aws.moto_gaps import close_gaps, patch
from embedded_aws.moto_gaps.members import ADDED, CALLED, MOTO, REPLACED, Members


def pairs(members: Members) -> Iterator[tuple[str, str]]:
    return ((target, name) for target, names in members.items() for name in names)


def target_of(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        module, _, member = name.rpartition(".")
        return getattr(importlib.import_module(module), member)


def test_the_list_names_every_member_that_is_patched() -> None:
    close_gaps()
    stacks.install()

    assert patch.patched == {*pairs(REPLACED), *pairs(ADDED)}


def test_the_list_is_of_the_installed_moto() -> None:
    assert version("moto") == MOTO


@pytest.mark.parametrize(("target", "name"), [*pairs(CALLED)])
def test_moto_has_the_undocumented_member_that_is_used(target: str, name: str) -> None:
    assert hasattr(target_of(target), name), f"moto {version('moto')} no longer has {target}.{name}"


def test_a_member_that_moto_no_longer_has_is_named_with_both_versions() -> None:
    class Backend: ...

    with pytest.raises(MotoChangedError, match=rf"Backend no longer has create,.*written for {MOTO}$"):
        patch.replace(Backend, create=None)


def test_a_member_that_moto_has_by_now_is_named() -> None:
    module = types.ModuleType("moto.newer")
    module.create = object()  # type: ignore[attr-defined]

    with pytest.raises(MotoChangedError, match=r"moto\.newer now has create"):
        patch.add(module, create=object())
