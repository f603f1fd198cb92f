"""Capacity that was reserved beforehand, for instance types that are hard to get."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import aws_sagemaker as sagemaker

from triton_fleet.arguments.typed import typed

_Config = sagemaker.CfnEndpointConfig.CapacityReservationConfigProperty


@typed
@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityReservation:
    """A reservation of machine learning capacity, which provides all instances of a variant.

    If the reservation is used up, no instance starts: set the maximum capacity of auto scaling to what is
    reserved. SageMaker supports no other preference.

    Source, read on 2026-11-21:
    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProductionVariantCapacityReservationConfig.html

    Attributes:
        arn: The reservation's ARN, such as that of a training plan for endpoints.
    """

    arn: str

    def _render(self) -> _Config:
        """As CloudFormation takes it."""
        return _Config(
            capacity_reservation_preference="capacity-reservations-only", ml_reservation_arn=self.arn
        )
