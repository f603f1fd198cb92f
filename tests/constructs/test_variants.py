from __future__ import annotations

import pytest

from triton_fleet.hosting.variants import InstancePool, Variant
from triton_fleet.rules.container_environment import container_environment
from triton_fleet.rules.instance_pools import instance_pools, same_gpu, same_image
from triton_fleet.rules.local_storage import local_storage
from triton_fleet.rules.multi_model_features import EXCLUDED, multi_model_features
from triton_fleet.rules.single_model_artifact import single_model_artifact
from triton_fleet.rules.variant_set import variant_set
from triton_models.facts.instances import instance_type

G5, LARGER_G5, G6, CPU = (
    instance_type(f"ml.{name}") for name in ("g5.xlarge", "g5.2xlarge", "g6.xlarge", "m5.xlarge")
)


def test_the_preferred_type_comes_before_those_that_stand_in_for_it() -> None:
    variant = Variant(artifact="a.tar.gz", instance_pools=[InstancePool(instance_type="ml.g5.xlarge")])

    assert variant.instance_types == ("ml.g5.2xlarge", "ml.g5.xlarge")


def test_a_volume_is_fine_where_there_is_one_and_nothing_is_fine_everywhere() -> None:
    assert list(local_storage(CPU, volume_size_gb=10, has_key=True, where="here")) == []
    assert list(local_storage(G5, volume_size_gb=None, has_key=False, where="here")) == []


@pytest.mark.parametrize(
    ("size", "key", "drop"), [(10, False, "volume_size_gb"), (None, True, "encryption_key")]
)
def test_a_volume_on_local_storage_is_a_problem(size: float | None, key: bool, drop: str) -> None:
    (problem,) = local_storage(G5, volume_size_gb=size, has_key=key, where="here")

    assert problem.fix == f"leave {drop} out"


def test_five_types_are_as_many_as_sagemaker_tries() -> None:
    types = [f"ml.g5.{size}xlarge" for size in ("", 2, 4, 8, 16, 12)]

    assert list(instance_pools(types[:5], where="here")) == []
    assert [problem.what for problem in instance_pools(types, where="here")] == [
        "6 instance types for one variant"
    ]


def test_types_of_one_gpu_run_one_model_and_others_do_not() -> None:
    assert same_gpu(G5, LARGER_G5, where="here") is None
    assert same_gpu(G5, G6, where="here") is not None
    assert same_gpu(G5, CPU, where="here") is not None


def test_any_gpu_starts_on_the_host_of_another_and_a_cpu_does_not() -> None:
    assert same_image(G5, G6, where="here") is None
    assert same_image(CPU, CPU, where="here") is None
    assert same_image(G5, CPU, where="here") is not None


def test_a_variable_is_a_problem_only_if_the_server_sets_it_too() -> None:
    assert list(container_environment({"A": "1"}, {"B": "1"}, where="here")) == []
    (problem,) = container_environment({"A": "1"}, {"A": "2"}, where="here")
    assert "'2'" in problem.what
    assert "'1'" in problem.what


def test_a_value_known_only_at_deployment_is_not_measured() -> None:
    assert list(container_environment({}, {"A": None}, where="here")) == []


def test_only_what_is_asked_for_is_refused() -> None:
    assert list(multi_model_features([], where="here")) == []
    assert len(list(multi_model_features(EXCLUDED, where="here"))) == len(EXCLUDED)


@pytest.mark.parametrize("artifact", ["resnet50-0123456789ab.tar.gz", "a.tar.gz", None])
def test_an_artifact_is_a_file_name(artifact: str | None) -> None:
    assert single_model_artifact(artifact, where="here") is None


@pytest.mark.parametrize("artifact", ["", "a", "a.tar", "b/a.tar.gz", "*.tar.gz", "a b.tar.gz", ".tar.gz"])
def test_what_is_no_file_name_of_an_artifact_is_a_problem(artifact: str) -> None:
    assert single_model_artifact(artifact, where="here") is not None


@pytest.mark.parametrize(
    ("names", "weights", "shadow"),
    [
        (["A"], [1], False),
        (["A", "B"], [0, 1], False),
        (["A"], [None], False),
        (["A", "B"], [1], True),
    ],
)
def test_variants_that_can_be_told_apart_and_get_requests_are_fine(
    names: list[str], weights: list[float | None], shadow: bool
) -> None:
    assert list(variant_set(names, weights, has_shadow=shadow, where="here")) == []


@pytest.mark.parametrize(
    ("names", "weights", "shadow"),
    [
        ([], [], False),
        (["A", "A"], [1, 1], False),
        (["A", "B"], [0, 0], False),
        (["A", "A"], [1], True),
        (["A", "B", "C"], [1, 1], True),
        ([f"V{number}" for number in range(11)], [1] * 11, False),
    ],
)
def test_variants_that_cannot_be_served_together_are_a_problem(
    names: list[str], weights: list[float | None], shadow: bool
) -> None:
    (problem,) = variant_set(names, weights, has_shadow=shadow, where="here")

    assert problem.rule == "variant-set"
