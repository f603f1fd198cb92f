"""Beliefs about the contents of Triton's images."""

from __future__ import annotations

from triton_models.ledger.belief import Belief, DecidedBy, Grade, Record

ROWS = (
    Belief(
        id="trtexec-in-image",
        belief="The images have trtexec at /usr/src/tensorrt/bin/trtexec",
        grade=Grade.SOURCE_READ,
        source="NVIDIA/TensorRT's packages, and build.py of server at r25.09",
        depends=("triton_models.builds.tensorrt.machine.IMAGE_TRTEXEC", "trtexec-missing"),
        decided_by=DecidedBy.GPU,
        command="`ls -l /usr/src/tensorrt/bin/trtexec` in the image",
        if_false="Change IMAGE_TRTEXEC, or install the TensorRT package with trtexec in the build job",
    ),
    Belief(
        id="server-in-image",
        belief="The images have the server at /opt/tritonserver/bin/tritonserver, which is on their PATH",
        grade=Grade.SOURCE_READ,
        source="build.py of server at r25.09",
        depends=("triton_models.facts.image_contents.IMAGE_SERVER", "no-tritonserver"),
        decided_by=DecidedBy.GPU,
        command="`which tritonserver` in the image",
        if_false="Change IMAGE_SERVER",
    ),
    Belief(
        id="python-per-release",
        belief="python3 in a release's image has the version in the release table",
        grade=Grade.DOCUMENTATION,
        source="NVIDIA's release notes and docs/introduction/compatibility.md of server",
        depends=("triton_models.facts.releases.RELEASES", "environment-python", "package-python"),
        decided_by=DecidedBy.GPU,
        command="`python3 --version` in the image",
        if_false="Correct the row in triton_models/facts/releases.py",
    ),
    Belief(
        id="image-python-path",
        belief="The image sets PYTHONPATH=/opt/tritonserver/backends/dali/wheel/dali, which also applies to "
        "Python models",
        grade=Grade.SOURCE_READ,
        source="build.py of server at r25.09; the stub's pybind11 makes Python read it: 2.10 with the Python "
        "3.10 of older images, 2.12 since 24.12 (pybind11 pull request 4473)",
        depends=("triton_models.verify.program", "triton_models.environments.packages"),
        decided_by=DecidedBy.GPU,
        command="`echo $PYTHONPATH` in the image",
        if_false="Correct the environment that `fleet verify` passes on, so that it equals the image's",
    ),
    Belief(
        id="pip-for-the-user",
        belief="With PIP_USER and PIP_BREAK_SYSTEM_PACKAGES, the image's pip installs packages for its user, "
        "in addition to the system's, and PYTHONNOUSERSITE hides them from the server's models",
        grade=Grade.DOCUMENTATION,
        source="pip's documentation; PEP 668; the images of 24.12 and newer have Ubuntu 24.04's Python 3.12",
        depends=(
            "triton_fleet.builds.commands",
            "triton_models.environments.slim",
            "triton_fleet.builds.toolkit",
        ),
        decided_by=DecidedBy.BY_HAND,
        command="any build: its log has no error of pip, and `fleet verify` finds no package of the build",
        if_false="Create a virtual environment with --system-site-packages in the buildspec",
    ),
    Belief(
        id="image-variables",
        belief="The image has its TensorRT version in TRT_VERSION, which the stand-in for TensorRT reads",
        grade=Grade.SOURCE_READ,
        source="The history of nvcr.io/nvidia/pytorch:25.10-py3, which has the same base as the Triton image",
        depends=("triton_rehearsal.triton.machine",),
        decided_by=DecidedBy.GPU,
        command="`echo $TRT_VERSION` in the image",
        if_false="Pass the version to the stand-in in another way",
    ),
    Belief(
        id="numpy-location",
        belief="The NumPy of the image's python3 is below its PYTHONPATH, DALI's folder, which takes "
        "precedence over packages next to a model",
        grade=Grade.SOURCE_READ,
        source="build.py of server at r25.09; pb_stub.cc appends a model's folder to sys.path",
        depends=("triton_models.environments.packages", "environment-numpy"),
        decided_by=DecidedBy.GPU,
        command='`python3 -c "import numpy; print(numpy.__version__, numpy.__file__)"` in the image',
        if_false="Correct triton_models/environments/packages.py, and the rules for a model's own NumPy",
    ),
    Belief(
        id="python-modules-in-image",
        belief="Python in the images can import NumPy, DALI since 24.05, and since 24.12 the requirements "
        "of server's python/openai; no other package is relied on",
        grade=Grade.SOURCE_READ,
        source="build.py of server at r23.12 to r26.05",
        depends=("triton_models.facts.image_contents.python_packages", "python-import"),
        decided_by=DecidedBy.BY_HAND,
        command="`python3 -m pip list` in the image",
        if_false="Correct the table in triton_models/facts/image_contents.py; until then, name the module in "
        "custom_image_adds",
    ),
    Belief(
        id="numpy-per-release",
        belief="Python models of releases before 24.12 need NumPy 1; later ones work with NumPy 2",
        grade=Grade.SOURCE_READ,
        source="server issues 8019, 8373 and 8404; commit 09c3537 of python_backend",
        depends=("environment-numpy", "triton_models.facts.releases.Release"),
        decided_by=DecidedBy.GPU,
        command='`python3 -c "import numpy; print(numpy.__version__)"` in the image',
        if_false="Correct _NUMPY_2_SINCE in triton_models/facts/releases.py",
    ),
    Belief(
        id="dali-in-image",
        belief="Python in the image can import nvidia.dali, with the version in the table",
        grade=Grade.SOURCE_READ,
        source="build.py of server at the release branches, and DALI's backend",
        depends=("dali-version", "triton_models.builds.export.dali"),
        decided_by=DecidedBy.GPU,
        command='`python3 -c "import nvidia.dali; print(nvidia.dali.__version__)"` in the image',
        if_false="Correct the table of DALI versions, and the folder that the build searches",
    ),
    Belief(
        id="backends-in-image",
        belief="The images have the backends dali, fil, identity, onnxruntime, openvino, python, pytorch, "
        "repeat, square and tensorrt, and no others; before 25.03 also tensorflow",
        grade=Grade.SOURCE_READ,
        source="enable_all in build.py of server at r23.12 to r26.06; for AWS's image, issue 4047 of "
        "aws/deep-learning-containers",
        records=(
            Record(
                repository="aws/amazon-sagemaker-examples",
                at="766c42a8cf [49]",
                seen="AWS's image of 2023: an ensemble of DALI and TensorFlow answers with 1,001 values on "
                "a GPU multi-model endpoint",
            ),
        ),
        depends=(
            "triton_models.facts.image_contents.backends",
            "backend-unknown",
            "runtime",
            "backend-removed",
        ),
        decided_by=DecidedBy.GPU,
        command="`ls /opt/tritonserver/backends/*` in the image",
        if_false="Correct the table in triton_models/facts/image_contents.py; until then, name the image's "
        "other backends in custom_image_adds of a declaration",
    ),
    Belief(
        id="treelite-per-release",
        belief="The FIL backend has the Treelite of the table: it reads every checkpoint of Treelite 4, and "
        "files of XGBoost 3.1 and newer since release 26.01",
        grade=Grade.SOURCE_READ,
        source="get_treelite.cmake of fil_backend at r23.12 to r26.06; tried with Treelite "
        "4.0.0 to 4.7.0 on 25 forests on 2026-11-24",
        depends=("triton_models.builds.export.forests", "forest-release", "fil-xgboost"),
        decided_by=DecidedBy.BY_HAND,
        command="`fleet verify` of a `Forest`, and of a directory with a file of XGBoost 3.1, in the image",
        if_false="Correct _TREELITES in triton_models/facts/releases.py",
    ),
    Belief(
        id="backends-in-cpu-image",
        belief="AWS's `-cpu` image lacks the TensorRT backend, and may lack DALI's",
        grade=Grade.ASSUMPTION,
        source='"CPU-Only Build" in docs/customization_guide/build.md of server, which leaves both out',
        depends=("triton_models.facts.image_contents.backends", "backend-unknown"),
        decided_by=DecidedBy.BY_HAND,
        command="`ls /opt/tritonserver/backends/*` in the `-cpu` image",
        if_false="Correct the table in triton_models/facts/image_contents.py",
    ),
    Belief(
        id="aws-image-is-nvidias",
        belief="AWS's image of a release has the contents of NVIDIA's image, except for the start script",
        grade=Grade.ASSUMPTION,
        source="aws/deep-learning-containers issue 4047; AWS documents "
        "SAGEMAKER_TRITON_PUBLISH_METRICS_TO_CLOUDWATCH, which docker/sagemaker/serve of server does not "
        "read at r24.12 to r26.06",
        depends=(
            "triton_models.facts.image_contents.backends",
            "triton_models.facts.image_contents.python_packages",
            "triton_models.facts.releases.RELEASES",
        ),
        decided_by=DecidedBy.BY_HAND,
        command="`fleet probe gpu` in AWS's image and in NVIDIA's; compare the transcripts",
        if_false="Correct the tables, and record the image in the transcripts",
    ),
    Belief(
        id="agents-in-image",
        belief="The only repository agent in the images is checksum",
        grade=Grade.SOURCE_READ,
        source="enable_all in build.py of server at r23.12 to r26.06",
        depends=("triton_models.facts.image_contents.REPOSITORY_AGENTS", "repository-agent"),
        decided_by=DecidedBy.GPU,
        command="`ls /opt/tritonserver/repoagents` in the image",
        if_false="Correct the table in triton_models/facts/image_contents.py",
    ),
    Belief(
        id="image-names-release",
        belief="Triton's images set NVIDIA_TRITON_SERVER_VERSION to their release",
        grade=Grade.SOURCE_READ,
        source="server's QA scripts, which run in the images, read it",
        depends=("triton_models.probe.gpu.machine.IMAGE_VARIABLE", "other-release"),
        decided_by=DecidedBy.GPU,
        command="`echo $NVIDIA_TRITON_SERVER_VERSION` in the image",
        if_false="Pass --release, and set the variable before `fleet probe gpu`",
    ),
    Belief(
        id="onnxruntime-per-release",
        belief="The ONNX Runtime backend of a release has the version in the release table",
        grade=Grade.DOCUMENTATION,
        source="docs/introduction/compatibility.md of server, and build.py of the branches before 24.04",
        depends=("triton_models.facts.releases.RELEASES", "triton_models.builds.export.onnx", "onnx-version"),
        decided_by=DecidedBy.GPU,
        command="`strings /opt/tritonserver/backends/onnxruntime/libonnxruntime.so | grep VERS_` in the "
        "image",
        if_false="Correct the table in triton_models/facts/releases.py",
    ),
    Belief(
        id="forward-compatibility-in-image",
        belief="The images contain a newer user-mode driver in /usr/local/cuda/compat/lib.real, for hosts "
        "whose driver is too old for the images' CUDA",
        grade=Grade.PUBLIC_RECORD,
        source="https://docs.nvidia.com/deploy/cuda-compatibility/forward-compatibility.html",
        records=(
            Record(
                repository="triton-inference-server/tensorrtllm_backend",
                at="#358",
                seen="release 23.11: 'CUDA Forward Compatibility mode ENABLED. Using CUDA 12.3 driver "
                "version 545.23.08 with kernel driver version 525.105.17'",
            ),
            Record(
                repository="mikegc-aws/strands-decider-triton",
                at="08f8c414e1 deploy/create_endpoint.py",
                seen="release 26.05 with kernel driver 535.309.01 enters CUDA forward compatibility, and "
                "dies with error 803",
            ),
        ),
        depends=("triton_models.builds.tensorrt.driver.IMAGE_COMPAT", "driver-too-old"),
        decided_by=DecidedBy.GPU,
        command="`ls /usr/local/cuda/compat/lib.real` in the image",
        if_false="Correct IMAGE_COMPAT; otherwise hosts with an older driver cannot build for this release",
    ),
    Belief(
        id="python-model-numpy",
        belief="A Python model imports the NumPy of the image's python3: the stub inherits PYTHONPATH",
        grade=Grade.SOURCE_READ,
        source="pb_stub.cc of python_backend starts the image's interpreter with the server's variables",
        depends=("triton_models.environments.packages", "triton_models.verify.program", "environment-numpy"),
        decided_by=DecidedBy.GPU,
        command="print numpy.__file__ in a Python model, in the image",
        if_false="Correct the rules about NumPy in environments and packages",
    ),
)
