"""The rehearsal's assumptions about AWS that no transcript settles, in addition to the embedded AWS's.

Their names are the ids of beliefs in the ledger, with underscores. `fleet probe account` settles them in an
account, but for the two that need several instances or end one.
"""

from __future__ import annotations

from embedded_aws import ASSUMPTIONS

__all__ = ["ASSUMPTIONS", "holds"]

ASSUMPTIONS.declare(
    {
        "build_host_driver": "CodeBuild's GPU hosts have a driver that runs CUDA 13",
        "codebuild_image_python": "CodeBuild's own image has python3",
        "cpu_images_exist": "AWS's registries have the images for CPUs",
        "endpoint_config_dimension": "Metrics of requests come a second time with EndpointConfigName",
        "error_wording": "InvokeEndpoint's errors are worded as AWS's documents and public records say",
        "eviction_order": "The least recently used model is unloaded first",
        "executable_bits_kept": "An artifact's executable files stay executable",
        "gpu_image_without_gpu": "The image for GPUs starts on types without one",
        "hung_instance_replaced": "An instance that does not answer pings for half a minute is replaced",
        "images_in_every_region": "AWS's registries of all regions have the images",
        "list_bucket_by_prefix": "SageMaker fetches artifacts with ListBucket for the prefix alone",
        "metric_publication_interval": "Metrics come in the interval of MetricsConfig",
        "newer_releases_published": "AWS's registries have the images after those that its SDK lists",
        "not_ready_answer": "A request for a model that is still loading is answered with 429",
        "object_overwritten": "An instance keeps its copy of an object that changes",
        "old_endpoint_deletion": "Requests under way are answered when their endpoint is deleted",
        "payload_limit": "A request of more than 6 MiB is refused",
        "prices": "The price list says what the price table says",
        "processing_host_driver": "The hosts of Processing jobs have a driver that runs CUDA 13",
        "processing_job_log": "A Processing job reads its name in its configuration",
        "pytorch_index": "Builds reach PyTorch's own index",
        "refused_input_text": "OriginalMessage is what the container has answered",
        "result_names_log": "CODEBUILD_LOG_PATH names the log stream",
        "routing_to_loaded": "A request goes to an instance that has its model, unless they are all busy",
        "s3_source_permissions": "CodeBuild reads its source with the permissions of a fleet's role",
        "session_not_pinned": "No container answers with a session id",
        "start_script_variables": "The start script passes SAGEMAKER_TRITON_* on to the server",
        "unpacker_takes_stored_blocks": "SageMaker unpacks gzip streams of stored blocks",
    }
)
holds = ASSUMPTIONS.holds
