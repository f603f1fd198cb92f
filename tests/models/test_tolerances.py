"""Every precision that a model is built in has a tolerance, or nothing is compiled."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from triton_models.base.errors import FleetError
from triton_models.builds.build import build
from triton_models.spec import load_build


@pytest.fixture
def encoder(declare_network: Callable[..., Path]) -> Callable[..., Path]:
    """Declare an encoder that a GPU build compiles in FP16."""
    return partial(declare_network, "encoder", backend='TensorRt(precision="fp16")')


def test_a_reference_needs_a_tolerance(encoder, models):
    encoder("reference=dict")
    with pytest.raises(FleetError, match="'encoder' has a reference and no tolerance"):
        load_build("encoder", models)


def test_a_build_without_plans_needs_a_tolerance_for_fp32_before_anything_is_exported(
    encoder, models, tmp_path
):
    encoder('reference=dict, tolerance={"fp16": 0.1}', network="1 / 0")
    with pytest.raises(FleetError, match=r"no tolerance for fp32, only for fp16 \[no-tolerance\]"):
        build("encoder", output=tmp_path, models=models)


def test_a_plan_of_write_without_a_tolerance_is_not_compiled(relu_model, models, machine, tmp_path):
    log = machine()
    relu_model(fp16=True, tolerance="dict(fp32=0.1)")
    with pytest.raises(FleetError, match=r"no tolerance for fp16, only for fp32 \[no-tolerance\]"):
        build("encoder", output=tmp_path / "out", models=models, gpu="A10G")
    assert not log.exists()
