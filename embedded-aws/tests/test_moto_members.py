"""The internals of moto that the embedded AWS changes. moto does not promise to keep them."""

from __future__ import annotations

import types
from importlib.metadata import version

import pytest

from embedded_aws import MotoChangedError
from embedded_aws.moto_gaps import patch


def test_the_changes_are_for_the_installed_moto() -> None:
    assert version("moto") == patch.MOTO


def test_a_member_that_moto_no_longer_has_is_named_with_both_versions() -> None:
    class Backend: ...

    with pytest.raises(MotoChangedError, match=rf"Backend no longer has create,.*written for {patch.MOTO}$"):
        patch.replace(Backend, create=None)


def test_a_member_that_moto_has_by_now_is_named() -> None:
    module = types.ModuleType("moto.newer")
    module.create = object()  # type: ignore[attr-defined]

    with pytest.raises(MotoChangedError, match=r"moto\.newer now has create"):
        patch.adds(module, "create")
