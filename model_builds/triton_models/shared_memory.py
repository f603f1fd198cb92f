"""What the Python backend takes of /dev/shm, and what a SageMaker container has of it. Read 2026-11-21.

Each instance of a Python model has a region of its own (SharedMemoryManager in src/shm_manager.cc of
python_backend). It begins with shm-default-byte-size, for which src/python_be.cc takes no less than 1 MiB;
with the start script's 16 MiB four instances fill a container. The size of a container's /dev/shm is in issue
2801 of sagemaker-python-sdk and in server issue 4675; nothing changes it.
"""

from __future__ import annotations

CONTAINER_BYTES = 64 << 20
SMALLEST_REGION_BYTES = 1 << 20
