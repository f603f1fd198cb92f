"""The table of Triton container releases: contents, host requirements, and regions of AWS's images.

Sources, as read on 2026-11-21:

* Releases that AWS publishes: docs/src/data/sagemaker-tritonserver/ of aws/deep-learning-containers (read on
  2026-11-22). It lists 25.12, 26.03 and 26.04, which the SDK's table lacks.
* Regions and accounts: image_uri_config/sagemaker-tritonserver.json of sagemaker-core 2.27.0 (2026-10-21).
  The three releases that it lacks are assumed to be in the same regions as 25.09 and 26.05.
* TensorRT, CUDA and Python: NVIDIA's release notes and docs/introduction/compatibility.md of
  triton-inference-server/server, and the issues named at a row. The versions are those of the notes;
  `dpkg -l | grep tensorrt` inside the image is authoritative, and the build job records it.
* TensorRT of 26.05 and 26.06 is uncertain: build.py of r26.05 starts from NVIDIA's image of 26.04, and that
  of r26.06 from 26.05 (`upstream_container_version`, read 2026-11-22), an image earlier than their names say.
* A release is left out if its TensorRT has no source: see `known_release`.
* NumPy: server issues 8019, 8373 and 8404, and commit 09c3537 of python_backend (2024-11-01), which makes the
  stub of release 24.12 accept both major versions.
* Drivers: the CUDA toolkit release notes, table "CUDA Toolkit and Minimum Required Driver Version for CUDA
  Minor Version Compatibility".
* Host AMIs: ProductionVariantInferenceAmiVersion of the SageMaker API (botocore 1.44.5) and
  https://docs.aws.amazon.com/sagemaker/latest/dg/inference-gpu-drivers.html

For a new release, add a row to `RELEASES`, and look at what depends on its version elsewhere: the tables of
ONNX Runtime, Treelite and CUDA above it, `dali`, `image_contents`, `host_amis`, and `NEW_FIELDS` of
`check.release`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from triton_models.base.checks import Check
from triton_models.base.suggest import CLOSER, did_you_mean

_TABLE = "the table of triton_models.facts.releases"
UNKNOWN_RELEASE = Check(id="unknown-release", source=_TABLE)
RELEASE_NOT_ON_SAGEMAKER = Check(id="release-not-on-sagemaker", source=_TABLE)
RELEASE_NOT_IN_REGION = Check(id="release-not-in-region", source=_TABLE)
RELEASE_UNLISTED = Check(id="triton-fleet:release-unlisted", source=_TABLE)

DEFAULT_RELEASE = "25.09"
IMAGE_REPOSITORY = "sagemaker-tritonserver"

RELEASE_VARIABLE = "NVIDIA_TRITON_SERVER_VERSION"
"""The variable with the release in NVIDIA's images: build.py of server, read 2026-11-22."""

_NAME = re.compile(r"[0-9]{2}\.(?:0[1-9]|1[0-2])")

REMOVED_BACKENDS: Mapping[str, str] = {"tensorflow": "25.03"}
"""Backend -> the first release without it. Read 2026-11-21 in NVIDIA's release notes of 25.03."""

# The first release whose ONNX Runtime backend passes CUDA options, such as use_tf32, on to ONNX Runtime:
# src/onnxruntime.cc of the branches r24.05 and r24.06 of onnxruntime_backend, read 2026-11-22.
_TF32_SWITCH_SINCE = "24.06"

# The first release whose ONNX Runtime plans a convolution again whenever its input changes its shape: 1.20
# moved to cuDNN 9's frontend, without the cache by shape of conv_8.h. Conv::UpdateState of 1.21.0, and issue
# 23006 of onnxruntime, open on 2026-11-28.
_CONVOLUTIONS_REPLANNED_SINCE = "24.12"

# The first release with ONNX Runtime 1.22, whose fused kernels take attention_bias: see builds.export.fused.
_ATTENTION_BIAS_SINCE = "25.05"

# The first release whose TensorRT backend reads execution_context_allocation_strategy: ParseParameters of
# src/model_state.cc of tensorrt_backend, branches r24.03 to r25.09, read 2026-11-26.
_CONTEXT_STRATEGY_SINCE = "25.05"

# Treelite, with which the FIL backend reads forests, by the first release that has it:
# get_treelite.cmake of the branches r23.12 to r26.06 of fil_backend, read 2026-11-24.
_TREELITES: Mapping[str, tuple[int, int]] = {
    "23.11": (3, 9),
    "24.03": (4, 0),
    "24.05": (4, 1),
    "24.09": (4, 3),
    "24.11": (4, 4),
    "26.01": (4, 6),
    "26.06": (4, 7),
}

# ONNX Runtime by the first release that has it: docs/introduction/compatibility.md of
# triton-inference-server/server (main of 2026-08-19), and before 24.04 TRITON_VERSION_MAP in build.py of its
# branches. Read 2026-11-22 and 2026-11-25.
_ONNX_RUNTIMES: Mapping[str, str] = {
    "23.12": "1.16.3",
    "24.03": "1.17.2",
    "24.04": "1.17.3",
    "24.05": "1.18.0",
    "24.07": "1.18.1",
    "24.09": "1.19.2",
    "24.12": "1.20.1",
    "25.03": "1.21.0",
    "25.05": "1.22.0",
    "25.08": "1.23.0",
    "25.10": "1.23.1",
    "25.11": "1.23.2",
    "26.02": "1.24.1",
    "26.03": "1.24.2",
    "26.04": "1.24.4",
    "26.07": "1.27.0",
    "26.08": "1.28.0",
}

# The highest IR version and opset that each ONNX Runtime accepts. Found on 2026-11-22 by loading networks of
# every version with PyPI's wheels 1.16.3, 1.17.1, 1.17.3, 1.18.0, 1.19.2, 1.20.1, 1.21.0, 1.22.0, 1.23.0,
# 1.23.2, 1.24.2 and 1.24.4, and on 2026-11-25 with 1.27.0 and 1.28.0.
_ONNX_LIMITS: Mapping[str, tuple[int, int]] = {
    "1.16": (9, 19),
    "1.17": (9, 20),
    "1.18": (10, 21),
    "1.19": (10, 21),
    "1.20": (10, 21),
    "1.21": (10, 22),
    "1.22": (10, 22),
    "1.23": (11, 23),
    "1.24": (13, 25),
    "1.27": (13, 26),
    "1.28": (13, 26),
}

# The same of the opset of ai.onnx.ml, if it is lower than 5: found with 1.16.3, 1.17.3, 1.18.0 and 1.31.1.
_ML_OPSETS: Mapping[str, int] = {"1.16": 3, "1.17": 4}

# The newest opset that TensorRT reads, by its major version, if that is lower than the exporters' opset:
# docs/operators.md and builtin_op_importers.cpp of onnx-tensorrt, release/8.6-GA, read 2026-11-22. It reads a
# ReduceMean of opset 18, whose axes are an input, as one over all axes, without an error.
_PLAN_OPSETS: Mapping[str, int] = {"8": 17}

# The first release whose backend has BF16 inputs and outputs: src/onnxruntime_utils.cc of onnxruntime_backend
# at r25.09 to r26.03, and ConvertTrtTypeToConfigDataType of tensorrt_backend at r24.05 and r24.09, read
# 2026-11-24.
_BF16_SINCE: Mapping[str, str] = {"onnxruntime": "26.03", "tensorrt": "24.09"}

# The first release whose Python backend accepts NumPy 2 tensors. With an earlier one, a model loads under
# NumPy 2 but then answers with empty tensors and status 200.
_NUMPY_2_SINCE = "24.12"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cuda:
    """The host requirements of a CUDA major version.

    Attributes:
        min_driver: The oldest driver that runs all of its minor versions.
        inference_ami: The SageMaker host AMI (InferenceAmiVersion) with a suitable driver. It must be named,
            because a default host of ml.g4dn and ml.g5 has driver 470 or 535, and none can be chosen.
    """

    min_driver: str
    inference_ami: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A Triton container release.

    Attributes:
        name: NVIDIA's name for the release, such as "25.09".
        tensorrt: The TensorRT version. A plan loads only in the version that compiled it, compared up to the
            last number that both sides state.
        cuda: The CUDA toolkit version.
        python: The version of the image's Python, which also runs its Python models.
        min_compute_capability: The lowest compute capability of `instances.GPUS` that its TensorRT supports.
        min_driver: The oldest host driver that runs its CUDA.
        inference_ami: The InferenceAmiVersion of an endpoint with this release.
        regions: The regions in which AWS publishes the image; empty if only NVIDIA does.
    """

    name: str
    tensorrt: str
    cuda: str
    python: str
    min_compute_capability: str
    min_driver: str
    inference_ami: str | None
    regions: tuple[str, ...]

    @property
    def on_sagemaker(self) -> bool:
        """True if AWS publishes the image in a region of this table."""
        return bool(self.regions)

    @property
    def is_listed(self) -> bool:
        """True if the table has it; otherwise what the release before it has is assumed."""
        return self.name in RELEASES

    @property
    def numpy_below(self) -> int | None:
        """The first major version of NumPy that its Python models cannot use; None if they can use any."""
        return 2 if self.name < _NUMPY_2_SINCE else None

    @property
    def onnxruntime(self) -> str:
        """The ONNX Runtime version, such as "1.23.0"."""
        return _ONNX_RUNTIMES[max(first for first in _ONNX_RUNTIMES if first <= self.name)]

    @property
    def treelite(self) -> tuple[int, int]:
        """The version of Treelite of its FIL backend, such as (4, 4)."""
        return max(version for first, version in _TREELITES.items() if first <= self.name)

    @property
    def onnx_ir_version(self) -> int:
        """The newest IR version of an ONNX file that its ONNX Runtime loads."""
        return _ONNX_LIMITS[self.onnxruntime.rpartition(".")[0]][0]

    @property
    def onnx_opset(self) -> int:
        """The newest opset of an ONNX file that its ONNX Runtime loads."""
        return _ONNX_LIMITS[self.onnxruntime.rpartition(".")[0]][1]

    @property
    def onnx_ml_opset(self) -> int:
        """The newest opset of ai.onnx.ml that its ONNX Runtime loads."""
        return _ML_OPSETS.get(self.onnxruntime.rpartition(".")[0], 5)

    @property
    def plan_opset(self) -> int:
        """The newest opset of an ONNX file that its TensorRT compiles and its ONNX Runtime loads."""
        return min(self.onnx_opset, _PLAN_OPSETS.get(self.tensorrt.partition(".")[0], self.onnx_opset))

    @property
    def switches_tf32(self) -> bool:
        """True if TF32 can be disabled per ONNX Runtime model; older releases can only do so per server."""
        return self.name >= _TF32_SWITCH_SINCE

    @property
    def replans_convolutions(self) -> bool:
        """True if ONNX Runtime on a GPU plans convolutions again whenever the batch size changes."""
        return self.name >= _CONVOLUTIONS_REPLANNED_SINCE

    @property
    def fuses_attention_bias(self) -> bool:
        """True if ONNX Runtime's fused attention takes a mask that is added to the scores."""
        return self.name >= _ATTENTION_BIAS_SINCE

    @property
    def sizes_contexts(self) -> bool:
        """True if each profile of a plan can have a context of its own size, not that of the largest."""
        return self.name >= _CONTEXT_STRATEGY_SINCE

    def bf16_since(self, backend: str) -> str | None:
        """Return the first release in which a backend has BF16 tensors; None if it has them in this one."""
        since = _BF16_SINCE.get(backend, self.name)
        return since if self.name < since else None

    @property
    def server_variables(self) -> Mapping[str, str]:
        """Environment variables of its server: without telemetry, and with the precision that models declare.

        ONNX Runtime's packages since 1.29 report sessions to Microsoft unless ORT_DISABLE_TELEMETRY is set
        (pull request 27379 of onnxruntime). Seen with 1.31.1 on 2026-11-26: each process has a thread that
        uploads, and writes a device's id and a database below HOME. NVIDIA's libraries read
        NVIDIA_TF32_OVERRIDE. TensorRT plans keep the kernels they were compiled with.
        """
        quiet = {"ORT_DISABLE_TELEMETRY": "1"}
        return quiet if self.switches_tf32 else {**quiet, "NVIDIA_TF32_OVERRIDE": "0"}

    @property
    def image_tag(self) -> str:
        """The tag of the GPU image, such as "25.09-py3"."""
        return f"{self.name}-py3"


# NVIDIA's numbers for "minor version compatibility", and the SageMaker AMI whose driver satisfies them: see
# triton_models.facts.host_amis.
CUDA_MAJORS: Mapping[str, Cuda] = {
    "12": Cuda(min_driver="525.60.13", inference_ami="al2-ami-sagemaker-inference-gpu-3-1"),
    "13": Cuda(min_driver="580", inference_ami="al2023-ami-sagemaker-inference-gpu-4-1"),
}

# The account that holds the image in each region, for images since 23.12. Older images live in other accounts
# and are not offered here.
IMAGE_ACCOUNTS: Mapping[str, str] = {
    **dict.fromkeys(
        (
            *("ap-northeast-1", "ap-northeast-2", "ap-south-1", "ap-southeast-1", "ap-southeast-2"),
            *("ca-central-1", "eu-central-1", "eu-north-1", "eu-west-1", "eu-west-2"),
            *("eu-west-3", "sa-east-1", "us-east-1", "us-east-2", "us-west-1"),
            "us-west-2",
        ),
        "763104351884",
    ),
    "af-south-1": "626614931356",
    "ap-east-1": "871362719292",
    "ap-east-2": "975050140332",
    "ap-northeast-3": "364406365360",
    "ap-south-2": "772153158452",
    "ap-southeast-3": "907027046896",
    "ap-southeast-4": "457447274322",
    "ap-southeast-5": "550225433462",
    "ap-southeast-6": "633930458069",
    "ap-southeast-7": "590183813437",
    "ca-west-1": "204538143572",
    "cn-north-1": "727897471807",
    "cn-northwest-1": "727897471807",
    "eu-central-2": "380420809688",
    "eu-south-1": "692866216735",
    "eu-south-2": "503227376785",
    "il-central-1": "780543022126",
    "me-central-1": "914824155844",
    "me-south-1": "217643126080",
    "mx-central-1": "637423239942",
}

_CHINA = frozenset({"cn-north-1", "cn-northwest-1"})
_NEW_IN_25_04 = frozenset(
    {
        *("ap-east-2", "ap-south-2", "ap-southeast-4", "ap-southeast-5", "ap-southeast-7"),
        *("eu-central-2", "eu-south-2", "me-central-1", "mx-central-1"),
    }
)
_NEW_IN_25_09 = frozenset({"ap-southeast-6"})


def _all_but(*missing: frozenset[str]) -> tuple[str, ...]:
    left_out = frozenset[str]().union(*missing)
    return tuple(sorted(region for region in IMAGE_ACCOUNTS if region not in left_out))


_UNTIL_24_09 = _all_but(_NEW_IN_25_04, _NEW_IN_25_09)
_OF_25_04 = _all_but(_NEW_IN_25_09)
_SINCE_25_09 = _all_but(_CHINA)


def _releases(*rows: tuple[str, str, str, str, str, tuple[str, ...]]) -> Mapping[str, Release]:
    releases = {}
    for name, tensorrt, cuda, python, capability, regions in rows:
        host = CUDA_MAJORS[cuda.partition(".")[0]]
        releases[name] = Release(
            name=name,
            tensorrt=tensorrt,
            cuda=cuda,
            python=python,
            min_compute_capability=capability,
            min_driver=host.min_driver,
            inference_ami=host.inference_ami,
            regions=regions,
        )
    return releases


# name, TensorRT, CUDA, Python, smallest compute capability of a plan, regions
RELEASES: Mapping[str, Release] = _releases(
    ("23.12", "8.6.1.6", "12.3.2", "3.10", "7.0", _UNTIL_24_09),  # INT64 inputs of an ONNX become INT32
    ("24.01", "8.6.1.6", "12.3.2", "3.10", "7.0", _UNTIL_24_09),  # INT64 inputs of an ONNX become INT32
    ("24.03", "8.6.3.1", "12.4.0", "3.10", "7.0", _UNTIL_24_09),  # server issue 7221
    ("24.05", "10.0.1.6", "12.4.1", "3.10", "7.0", _UNTIL_24_09),  # INT64 inputs stay INT64 from here on
    ("24.09", "10.4.0", "12.6.1", "3.10", "7.0", _UNTIL_24_09),  # the last for V100; needs numpy<2
    ("24.10", "10.5.0", "12.6.2", "3.10", "7.5", ()),  # TensorRT 10.5 dropped Volta; needs numpy<2
    ("24.12", "10.7.0.23", "12.6.3", "3.12", "7.5", ()),  # NumPy 2 works from here on
    ("25.04", "10.9.0.34", "12.9.0", "3.12", "7.5", _OF_25_04),  # the newest in China; built for driver 575
    ("25.06", "10.11.0.33", "12.9.1", "3.12", "7.5", ()),  # tensorrtllm_backend pull request 821
    # TensorRT unsure: 10.13.2 is the first for CUDA 13, and of the same month
    ("25.08", "10.13.2", "13.0.0", "3.12", "7.5", ()),
    ("25.09", "10.13.3.9", "13.0.1", "3.12", "7.5", _SINCE_25_09),  # built for driver 580.82
    ("25.10", "10.13.3.9", "13.0.2", "3.12", "7.5", ()),  # TensorRT of nvcr.io/nvidia/pytorch:25.10-py3
    # an unload stalls every invocation from here on
    ("25.12", "10.14.1.48", "13.1", "3.12", "7.5", _SINCE_25_09),
    ("26.03", "10.16.0", "13.2.0", "3.12", "7.5", _SINCE_25_09),  # refuses '/' in a target model
    ("26.04", "10.16.1.11", "13.2.1", "3.12", "7.5", _SINCE_25_09),  # refuses '/' in a target model
    # refuses '/' in a target model; TensorRT unsure
    ("26.05", "10.16.1.11", "13.2.1", "3.12", "7.5", _SINCE_25_09),
    # TensorRT unsure; TensorRT 11 has no --fp16, networks are strongly typed
    ("26.06", "11.0", "13.3.0", "3.12", "7.5", ()),
    ("26.07", "11.1.0.106", "13.3", "3.12", "7.5", ()),  # server issue 8969
)


def known_release(name: str) -> Release | None:
    """Return a release; None if NVIDIA cannot have one of that name.

    For a release that the table lacks, of which AWS has no image, the release before it stands in: its
    backends and drivers change rarely, and a build takes TensorRT's version from the image.
    """
    if name in RELEASES or not _NAME.fullmatch(name):
        return RELEASES.get(name)
    before = max((known for known in RELEASES if known < name), default=None)
    if before is None or int(name[:2]) > int(max(RELEASES)[:2]) + 1:
        return None
    return replace(RELEASES[before], name=name, regions=())


def release(name: str) -> Release:
    """Return the release with that name, as `known_release`."""
    found = known_release(name)
    if found is None:
        offered = _offered()
        otherwise = f"use one that AWS publishes, such as {DEFAULT_RELEASE}: {', '.join(offered)}"
        raise UNKNOWN_RELEASE.error(
            what=f"unknown Triton release {name!r}",
            where="the release a model is built for and served with",
            why="the release decides TensorRT, CUDA, Python and the host driver",
            fix=did_you_mean(name.removesuffix("-py3"), offered, otherwise=otherwise, cutoff=CLOSER),
        )
    return found


def _offered() -> list[str]:
    return [known.name for known in RELEASES.values() if known.on_sagemaker]


def image_account(*, region: str, release: Release) -> str:
    """Return the AWS account whose ECR registry holds the release's image in a region."""
    if region in release.regions:
        return IMAGE_ACCOUNTS[region]
    if not release.on_sagemaker:
        what = f"Triton release {release.name} is not published on SageMaker"
        why = "SageMaker would find no image to pull"
        fix = f"use {DEFAULT_RELEASE}, or another one of {', '.join(_offered())}"
        raise RELEASE_NOT_ON_SAGEMAKER.error(what=what, where="the endpoint's release", why=why, fix=fix)
    if region in IMAGE_ACCOUNTS:
        newest = [known.name for known in RELEASES.values() if region in known.regions][-1]
        fix = f"use release {newest}, the newest in {region}, or another region"
    else:
        fix = did_you_mean(region, release.regions, otherwise=f"use one of {', '.join(release.regions)}")
    what = f"no image of Triton release {release.name} in region {region!r}"
    why = "SageMaker pulls the image from a registry in its own region"
    raise RELEASE_NOT_IN_REGION.error(what=what, where="the region of the inference stack", why=why, fix=fix)
