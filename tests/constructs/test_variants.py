from __future__ import annotations

from triton_fleet.endpoint.hosting.variants import InstancePool, Variant


def test_the_preferred_type_comes_before_those_that_stand_in_for_it() -> None:
    variant = Variant(artifact="a.tar.gz", instance_pools=[InstancePool(instance_type="ml.g5.xlarge")])

    assert variant.instance_types == ("ml.g5.2xlarge", "ml.g5.xlarge")
