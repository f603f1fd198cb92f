"""The folder constructs/ must not hide the `constructs` distribution, on which the CDK stands."""

from __future__ import annotations

from pathlib import Path

import constructs

import triton_fleet

ROOT = Path(__file__).parents[2]


def test_the_folder_is_no_package() -> None:
    assert not (ROOT / "constructs" / "__init__.py").exists()


def test_the_cdk_gets_the_distribution() -> None:
    assert constructs.__file__ is not None
    assert not Path(constructs.__file__).is_relative_to(ROOT / "constructs")
    assert hasattr(constructs, "Construct")


def test_our_package_comes_from_the_folder() -> None:
    assert Path(str(triton_fleet.__file__)).is_relative_to(ROOT / "constructs")
