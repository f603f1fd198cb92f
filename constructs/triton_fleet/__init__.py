"""Constructs that declare a fleet of Triton models behind one SageMaker GPU endpoint."""

from triton_fleet.alarm_declarations import Severity
from triton_fleet.alarms import EndpointAlarms
from triton_fleet.alias import EndpointAlias, endpoint_name_for
from triton_fleet.async_inference import AsyncInference
from triton_fleet.builds import ModelBuilds
from triton_fleet.capacity_reservation import CapacityReservation
from triton_fleet.capture import DataCapture
from triton_fleet.core_dumps import CoreDumps
from triton_fleet.dashboard import EndpointDashboard
from triton_fleet.deployment import AllAtOnce, Canary, Deployment, Linear, Portion, Rolling
from triton_fleet.endpoint import MultiModelEndpoint
from triton_fleet.endpoint_base import Endpoint
from triton_fleet.image import OwnImage
from triton_fleet.imported import ImportedEndpoint
from triton_fleet.metrics import EndpointMetrics, InvocationMetrics
from triton_fleet.network import EndpointNetwork, VpcService
from triton_fleet.notifications import AlarmTopic
from triton_fleet.repository import ModelRepository
from triton_fleet.rollback import NewFleetAlarms, RollbackAlarms
from triton_fleet.s3_folder import S3Folder
from triton_fleet.scaling import EndpointScaling
from triton_fleet.schedules import ScheduledCapacity
from triton_fleet.server import TritonMetrics, TritonServer
from triton_fleet.single_model import SingleModelEndpoint
from triton_fleet.steps import Step, StepScaling
from triton_fleet.suspension import Suspension
from triton_fleet.thresholds import Thresholds
from triton_fleet.tracking import (
    BacklogPerInstance,
    ConcurrentRequests,
    Cooldowns,
    CpuUtilization,
    GpuMemoryUtilization,
    GpuUtilization,
    InvocationsPerGpu,
    InvocationsPerInstance,
    MetricTarget,
    ModelLatency,
    Target,
)
from triton_fleet.variants import DeployedVariant, InstancePool, Routing, Variant
from triton_fleet.warm_up import WarmUp, WarmUpRequest
from triton_models.errors import FleetError

__all__ = [
    "AlarmTopic",
    "AllAtOnce",
    "AsyncInference",
    "BacklogPerInstance",
    "Canary",
    "CapacityReservation",
    "ConcurrentRequests",
    "Cooldowns",
    "CoreDumps",
    "CpuUtilization",
    "DataCapture",
    "DeployedVariant",
    "Deployment",
    "Endpoint",
    "EndpointAlarms",
    "EndpointAlias",
    "EndpointDashboard",
    "EndpointMetrics",
    "EndpointNetwork",
    "EndpointScaling",
    "FleetError",
    "GpuMemoryUtilization",
    "GpuUtilization",
    "ImportedEndpoint",
    "InstancePool",
    "InvocationMetrics",
    "InvocationsPerGpu",
    "InvocationsPerInstance",
    "Linear",
    "MetricTarget",
    "ModelBuilds",
    "ModelLatency",
    "ModelRepository",
    "MultiModelEndpoint",
    "NewFleetAlarms",
    "OwnImage",
    "Portion",
    "RollbackAlarms",
    "Rolling",
    "Routing",
    "S3Folder",
    "ScheduledCapacity",
    "Severity",
    "SingleModelEndpoint",
    "Step",
    "StepScaling",
    "Suspension",
    "Target",
    "Thresholds",
    "TritonMetrics",
    "TritonServer",
    "Variant",
    "VpcService",
    "WarmUp",
    "WarmUpRequest",
    "endpoint_name_for",
]
