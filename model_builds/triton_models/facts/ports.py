"""Ports that a container may listen on, next to the one for SageMaker's own requests.

SageMaker sets SAGEMAKER_SAFE_PORT_RANGE, and Triton exits if one of its other interfaces is outside: "The
server cannot listen to metrics requests at port 8002, allowed port range is [23000, 23999]".

AWS does not document the range, and it has not always been the same: see the belief `safe-port-range`.
"""

from __future__ import annotations

SAFE_PORTS = range(23000, 24000)
"""The ports that SageMaker allows."""

SAFE_PORT_RANGE = f"{SAFE_PORTS[0]}-{SAFE_PORTS[-1]}"
"""The value of SAGEMAKER_SAFE_PORT_RANGE."""

METRICS_PORT = SAFE_PORTS[0]
"""The port of Triton's metrics, by default."""

GRPC_PORT = SAFE_PORTS[1]
"""The port of Triton's gRPC interface, by default."""

TRITON_PORTS = {"http": 8000, "grpc": 8001, "metrics": 8002}
"""The ports that Triton listens on by default, by interface: none of them is allowed."""
