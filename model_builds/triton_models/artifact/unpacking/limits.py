"""The limits of an archive."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The maximum sizes of an archive.

    Attributes:
        name_bytes: The length of a file or folder name. ext4 and xfs, the file systems of the endpoint, allow
            255.
        path_bytes: The length of a path. Linux allows 4,095 bytes, including the folder to unpack to: 53 on
            the platform, such as /opt/ml/models/<32 digits>/model/, and more in a rehearsal.
        depth: The number of folders above a file. Programs that walk recursively, such as Python's
            shutil.rmtree, fail near 1,000; an environment with PyTorch has 15.
        members: The number of files and folders. An environment with PyTorch has 30,000. Their names are kept
            in memory to find clashes; `members` names take about 60 MB.
        unpacked_bytes: The size of the tar archive: that of the largest volume that SageMaker gives an
            instance, VolumeSizeInGB of CreateEndpointConfig.
        ratio: The number of unpacked bytes per packed byte, after `ratio_from_bytes` are unpacked. Deflate
            reaches 1,032 with zeros; weights stay below 20.
        ratio_from_bytes: The size above which `ratio` applies, so that small models may consist of zeros.
        kept_bytes: The size of configurations, and code of Python models, that a check keeps in memory.
        header_bytes: The size of an extended header. GNU tar and Python write one line per attribute.
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
