"""The probe of auto scaling: a policy's metric, and changes that SageMaker refuses for a scaled variant."""

from __future__ import annotations

from typing import Any

from triton_models.probe.account import trouble
from triton_models.probe.account.costs import ENDPOINT
from triton_models.probe.account.endpoint import START, endpoint_name, in_service, serving
from triton_models.probe.account.models import configure, variant
from triton_models.probe.account.probe import AccountProbe, Steps
from triton_models.probe.account.work import Work
from triton_models.probe.verdict import UndecidedError, decide


def _scaling(work: Work) -> Steps:
    """Create a policy that follows GPUUtilization, wait for its alarm's data, and try to change the type."""
    belief, name = "scaling-on-gpu-utilization", serving(work)
    client = work.clients("application-autoscaling")
    resource = f"endpoint/{name}/variant/AllTraffic"
    where = {
        "ServiceNamespace": "sagemaker",
        "ResourceId": resource,
        "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
    }
    # At most one instance: the probe needs the policy's metric, not a second instance.
    work.create(
        "scaling", resource, lambda: client.register_scalable_target(**where, MinCapacity=1, MaxCapacity=1)
    )
    refused = _type_change_refusal(work)
    yield from in_service(work, minutes=45)
    dimensions = [{"Name": "EndpointName", "Value": name}, {"Name": "VariantName", "Value": "AllTraffic"}]
    client.put_scaling_policy(
        **where,
        PolicyName=work.name("gpu"),
        PolicyType="TargetTrackingScaling",
        TargetTrackingScalingPolicyConfiguration={
            "TargetValue": 60.0,
            "CustomizedMetricSpecification": {
                "MetricName": "GPUUtilization",
                "Namespace": "/aws/sagemaker/Endpoints",
                "Dimensions": dimensions,
                "Statistic": "Average",
                "Unit": "Percent",
            },
        },
    )
    alarms = f"TargetTracking-{resource}"

    def state() -> str | None:
        found = work.clients("cloudwatch").describe_alarms(AlarmNamePrefix=alarms)["MetricAlarms"]
        states = {each["StateValue"] for each in found} - {"INSUFFICIENT_DATA"}
        return ", ".join(sorted(states)) or None

    try:
        seen = yield from work.until(state, minutes=10, what="data of the policy's alarms")
    except UndecidedError as error:
        return [decide(belief, str(error), holds=False), refused]
    return [decide(belief, f"the policy's alarms have data: {seen}", holds=True), refused]


def _type_change_refusal(work: Work) -> Any:
    """Try to update to another instance type while the variant is a scalable target."""
    belief, name, sagemaker = "update-with-scaling-refused", endpoint_name(work), work.clients("sagemaker")
    other = work.another_type
    config = work.name("other-type")
    ami = work.place.release.inference_ami
    configure(work, config, [variant(work, name, InstanceType=other, InferenceAmiVersion=ami)])
    refused = trouble.refusal(lambda: sagemaker.update_endpoint(EndpointName=name, EndpointConfigName=config))
    return decide(belief, refused or f"UpdateEndpoint to {other} was accepted", holds=bool(refused))


PROBES = (
    AccountProbe(
        id="scaling",
        what="creates a scaling policy that follows GPUUtilization",
        decides=("scaling-on-gpu-utilization", "update-with-scaling-refused"),
        run=_scaling,
        creates="a scalable target with a policy and its alarms, a configuration",
        allowed=(
            "application-autoscaling:RegisterScalableTarget",
            "application-autoscaling:PutScalingPolicy",
            "application-autoscaling:DeregisterScalableTarget",
            "cloudwatch:PutMetricAlarm",
            "cloudwatch:DescribeAlarms",
            "cloudwatch:DeleteAlarms",
            "iam:CreateServiceLinkedRole",
            "sagemaker:UpdateEndpoint",
            "sagemaker:UpdateEndpointWeightsAndCapacities",
        ),
        minutes=6,
        pays=((ENDPOINT, 6 / 60),),
        needs=(START,),
    ),
)
