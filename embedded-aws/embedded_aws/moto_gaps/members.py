"""The internals of moto that this package depends on. moto does not promise to keep them.

The list is for moto 5.2.5. When moto changes one of them, check its change and the module that uses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

MOTO = "5.2.5"
"""The version of moto that this list is for."""

_EXEC = "moto.stepfunctions.parser.asl.component.state.exec"

Members = Mapping[str, tuple[str, ...]]

REPLACED: Members = MappingProxyType(
    {
        "moto.applicationautoscaling.models.ApplicationAutoscalingBackend": (
            "deregister_scalable_target",
            "put_scaling_policy",
            "register_scalable_target",
        ),
        "moto.applicationautoscaling.responses": ("_build_alarms",),
        "moto.applicationautoscaling.responses.ApplicationAutoScalingResponse": (
            "describe_scalable_targets",
            "describe_scaling_policies",
            "describe_scheduled_actions",
        ),
        "moto.awslambda.models.LambdaBackend": ("put_function_event_invoke_config",),
        "moto.awslambda.models.LambdaFunction": ("__init__", "get_configuration", "update_configuration"),
        "moto.awslambda_simple.models.LambdaSimpleBackend": ("invoke",),
        "moto.cloudformation.models": ("ResourceMap",),
        "moto.cloudformation.models.CloudFormationBackend": (
            "create_change_set",
            "create_stack",
            "delete_stack",
            "execute_change_set",
            "update_stack",
        ),
        "moto.cloudformation.models.Stack": (
            "outputs",
            "parameter_list",
            "parse_template",
            "stack_parameters",
        ),
        "moto.cloudformation.parsing": ("clean_json",),
        "moto.cloudformation.responses": ("get_template_summary_response_from_template",),
        "moto.cloudformation.responses.CloudFormationResponse": (
            "delete_change_set",
            "describe_change_set",
            "execute_change_set",
            "list_change_sets",
            "validate_template",
        ),
        "moto.cloudwatch.models.CloudWatchBackend": (
            "delete_alarms",
            "disable_alarm_actions",
            "enable_alarm_actions",
            "put_metric_alarm",
            "put_metric_data",
        ),
        "moto.cloudwatch.responses.CloudWatchResponse": (
            "describe_alarms",
            "describe_alarms_for_metric",
            "get_metric_data",
            "get_metric_statistics",
            "list_metrics",
            "put_metric_alarm",
            "set_alarm_state",
        ),
        "moto.codebuild.responses.CodeBuildResponse": (
            "batch_get_builds",
            "batch_get_projects",
            "create_project",
            "list_builds",
            "list_builds_for_project",
            "start_build",
            "stop_build",
        ),
        "moto.core.utils": ("Session",),
        "moto.ecr.models.ECRBackend": ("batch_get_image",),
        "moto.events.models.EventPattern": ("matches_event",),
        "moto.events.models.Rule": ("send_to_targets",),
        "moto.iam.models.IAMBackend": ("attach_role_policy", "get_policy"),
        "moto.logs.metric_filters.MetricFilters": ("add_filter",),
        "moto.logs.models": ("EventMessageFilter",),
        "moto.logs.models.LogGroup": ("put_log_events",),
        "moto.logs.models.LogsBackend": ("delete_log_group",),
        "moto.logs.responses.LogsResponse": ("filter_log_events",),
        "moto.s3.models.FakeBucket": ("_log_permissions_enabled_policy", "get_permission"),
        "moto.s3.responses.S3Response": (
            "_bucket_response",
            "_key_response",
            "_key_response_post",
            "head_bucket",
            "put_object",
            "upload_part",
        ),
        "moto.sagemaker.models.FakeEndpointConfig": ("response_object", "validate_instance_type"),
        "moto.sagemaker.models.Model": ("response_object",),
        "moto.sagemaker.models.SageMakerModelBackend": (
            "_get_resource_from_arn",
            "add_tags",
            "delete_endpoint",
            "update_endpoint_weights_and_capacities",
        ),
        "moto.sagemaker.responses.SageMakerResponse": (
            "create_endpoint",
            "create_endpoint_config",
            "create_model",
            "create_processing_job",
            "describe_processing_job",
            "list_models",
            "stop_processing_job",
        ),
        "moto.servicequotas.models.ServiceQuotasBackend": (
            "get_service_quota",
            "list_aws_default_service_quotas",
        ),
        "moto.servicequotas.responses.ServiceQuotasResponse": ("list_aws_default_service_quotas",),
        f"{_EXEC}.state_map.iteration.distributed_iteration_component.DistributedIterationComponent": (
            "_eval_body",
        ),
        f"{_EXEC}.state_map.result_writer.resource_eval.resource_eval_s3.ResourceEvalS3": (
            "_handle_put_object",
        ),
        f"{_EXEC}.state_task.service.state_task_service_aws_sdk.StateTaskServiceAwsSdk": (
            "_eval_service_task",
            "_normalise_exception_name",
            "_normalise_service_error_name",
        ),
        f"{_EXEC}.state_task.state_task_factory": ("state_task_service_for",),
        "moto.stepfunctions.parser.asl.parse.asl_parser.AmazonStateLanguageParser": ("parse",),
        "moto.stepfunctions.parser.asl.utils.boto_client": ("boto3",),
        "moto.stepfunctions.parser.models.StepFunctionsParserBackend": (
            "create_state_machine",
            "start_execution",
        ),
        "moto.sts.responses.TokenResponse": ("assume_role_with_web_identity",),
    }
)
"""Members of a class or module that `patch.replace` replaces."""

ADDED: Members = MappingProxyType(
    {
        "moto.applicationautoscaling.responses.ApplicationAutoScalingResponse": (
            "describe_scaling_activities",
        ),
        "moto.cloudformation.responses.CloudFormationResponse": (
            "cancel_update_stack",
            "continue_update_rollback",
            "update_termination_protection",
        ),
        "moto.cloudtrail.responses.CloudTrailResponse": ("lookup_events",),
        "moto.cloudwatch.responses.CloudWatchResponse": ("describe_alarm_history", "put_composite_alarm"),
        "moto.codebuild.responses.CodeBuildResponse": (
            "batch_get_fleets",
            "create_fleet",
            "delete_fleet",
            "update_fleet",
            "update_project",
        ),
        "moto.logs.responses.LogsResponse": (
            "associate_kms_key",
            "disassociate_kms_key",
            "test_metric_filter",
        ),
        "moto.sagemaker.responses.SageMakerResponse": ("delete_processing_job", "update_endpoint"),
        "moto.servicequotas.responses.ServiceQuotasResponse": (
            "get_aws_default_service_quota",
            "list_service_quotas",
        ),
    }
)
"""Members that moto lacks and `patch.add` adds."""

CALLED: Members = MappingProxyType(
    {
        "moto.applicationautoscaling.responses": (
            "_build_policy",
            "_build_scheduled_action",
            "_build_target",
        ),
        "moto.applicationautoscaling.responses.ApplicationAutoScalingResponse": ("_validate_params",),
        "moto.cloudformation.models.Stack": ("_add_stack_event",),
        "moto.cloudformation.responses.CloudFormationResponse": ("_get_stack_from_s3_url",),
        "moto.ec2.models.availability_zones_and_regions.RegionsAndZonesBackend": ("zones",),
        "moto.cloudwatch.models.CloudWatchBackend": ("_validate_parameters_put_metric_data",),
        "moto.core.responses.BaseResponse": ("_get_bool_param", "_get_param", "_get_params"),
        "moto.events.models.EventPattern": ("_does_item_match_filters",),
        "moto.logs.models.LogEvent": ("instances_tracked",),
        "moto.sagemaker.models.FakeEndpoint": ("_process_production_variants",),
        f"{_EXEC}.state_map.iteration.distributed_iteration_component.DistributedIterationComponent": (
            "_get_iteration_program",
        ),
        f"{_EXEC}.state_map.result_writer.resource_eval.resource_eval_s3.ResourceEvalS3": ("_get_s3_client",),
        f"{_EXEC}.state_task.service.state_task_service_aws_sdk.StateTaskServiceAwsSdk": (
            "_from_boto_response",
            "_get_boto_service_action",
            "_get_boto_service_name",
            "_to_boto_request",
        ),
        f"{_EXEC}.state_task.service.state_task_service_callback.StateTaskServiceCallback": (
            "_eval_integration_pattern",
            "_eval_service_task",
            "_from_error",
            "_get_boto_service_action",
            "_get_sfn_resource",
            "_get_sfn_resource_type",
            "_validate_service_integration_is_supported",
        ),
    }
)
"""Undocumented members that are used, but not replaced."""
