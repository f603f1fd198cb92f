"""The limits of an archive."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The maximum sizes of an archive.

    Attributes:
        name_bytes: A file or folder name. ext4 and xfs, the file systems of the endpoint, stop at 255.
        path_bytes: A path. Linux allows 4,095 bytes, including the folder to unpack to: 53 on the platform,
            such as /opt/ml/models/<32 digits>/model/, and more in a rehearsal.
        depth: The folders above a file. Programs that walk recursively, such as Python's shutil.rmtree, fail
            near 1,000; an environment with PyTorch has 15.
        members: Files and folders. An environment with PyTorch has 30,000. Their names are kept in memory to
            find clashes, about 60 MB for so many.
        unpacked_bytes: All bytes of the tar archive: the largest volume that SageMaker gives an instance,
            VolumeSizeInGB of CreateEndpointConfig.
        ratio: Unpacked bytes per packed byte, once `ratio_from_bytes` are unpacked. Deflate reaches 1,032
            with zeros; weights stay below 20.
        ratio_from_bytes: The size from which `ratio` applies, so that small models may consist of zeros.
        kept_bytes: The configurations, and the code of Python models, that a check keeps in memory.
        header_bytes: An extended header. Those of GNU tar and Python have one line per attribute.
    """

    name_bytes: int = 255
    path_bytes: int = 3_800
    depth: int = 64
    members: int = 200_000
    unpacked_bytes: int = 512 << 30
    ratio: int = 200
    ratio_from_bytes: int = 1 << 30
    kept_bytes: int = 64 << 20
    header_bytes: int = 1 << 20


LIMITS = Limits()
