"""Beliefs about metrics, auto scaling and updates of endpoints."""

from __future__ import annotations

from triton_models.ledger.belief import Belief, DecidedBy, Grade, Record

ROWS = (
    Belief(
        id="scaling-on-gpu-utilization",
        belief="Auto scaling acts on GPUUtilization",
        grade=Grade.AWS_DOCUMENTATION,
        source="https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-auto-scaling-add-code-define.html",
        depends=("GpuUtilization", "EndpointScaling"),
        decided_by=DecidedBy.ACCOUNT,
        command="`aws application-autoscaling describe-scaling-activities --service-namespace sagemaker` "
        "under load",
        if_false="Track InvocationsPerInstance",
    ),
    Belief(
        id="gpu-metrics-sum",
        belief="GPUUtilization and GPUMemoryUtilization are sums over the GPUs of an instance, up to 100 for "
        "each GPU, with the dimensions EndpointName and VariantName",
        grade=Grade.AWS_DOCUMENTATION,
        source="https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html; the page about "
        "scaling multi-model endpoints has ModelName instead",
        depends=("scaling-target-reachable", "unknown-metric", "triton_fleet.metrics.facts"),
        decided_by=DecidedBy.ACCOUNT,
        command="`aws cloudwatch list-metrics --namespace /aws/sagemaker/Endpoints`, after a deployment "
        "with traffic",
        if_false="Correct triton_fleet/metrics/facts.py",
    ),
    Belief(
        id="endpoint-config-dimension",
        belief="Invocation5XXErrors and InvocationModelErrors carry EndpointConfigName on a multi-model "
        "endpoint",
        grade=Grade.AWS_DOCUMENTATION,
        source="https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html, for endpoints "
        "that are updated",
        depends=("GreenFleetAlarms",),
        decided_by=DecidedBy.ACCOUNT,
        command="`aws cloudwatch list-metrics --namespace AWS/SageMaker --dimensions "
        "Name=EndpointConfigName`, after a deployment with traffic",
        if_false="Use RollbackAlarms, which see both fleets",
    ),
    Belief(
        id="high-resolution-concurrency",
        belief="High-resolution concurrency metrics exist for multi-model endpoints",
        grade=Grade.ASSUMPTION,
        source="AWS's documentation names them, but not the kinds of endpoints that have them",
        depends=("ConcurrentRequests", "scaling-target-published"),
        decided_by=DecidedBy.ACCOUNT,
        command="`aws cloudwatch list-metrics --metric-name ConcurrentRequestsPerModel`",
        if_false="Refuse the target on multi-model endpoints",
    ),
    Belief(
        id="dashboard-has-data",
        belief="The dashboard's metrics have data",
        grade=Grade.AWS_DOCUMENTATION,
        source="https://docs.aws.amazon.com/sagemaker/latest/dg/multi-model-endpoint-cloudwatch-metrics.html",
        depends=("EndpointDashboard", "EndpointAlarms"),
        decided_by=DecidedBy.ACCOUNT,
        command="CloudWatch, dashboard `TritonFleet-g5-2xlarge-25-09`",
        if_false="Correct triton_fleet/metrics/facts.py",
    ),
    Belief(
        id="scaling-blocked-in-updates",
        belief="Auto scaling does nothing while an endpoint is updated, including the waits of a canary",
        grade=Grade.AWS_DOCUMENTATION,
        source="https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-scaling-update.html",
        depends=("EndpointScaling", "Canary", "Linear"),
        decided_by=DecidedBy.ACCOUNT,
        command="describe-scaling-activities during an update under load",
        if_false="Document that fleets scale during updates",
    ),
    Belief(
        id="retained-instance-count",
        belief="RetainAllVariantProperties keeps the instance count that auto scaling has set",
        grade=Grade.AWS_DOCUMENTATION,
        source="https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_UpdateEndpoint.html",
        depends=("Deployment",),
        decided_by=DecidedBy.ACCOUNT,
        command="scale to 2, then `npx cdk deploy --all` with a changed threshold",
        if_false="Set initial_instances to the fleet's size before a deployment",
    ),
    Belief(
        id="metric-publication-interval",
        belief="SageMaker publishes a multi-model endpoint's utilization at the interval of MetricsConfig",
        grade=Grade.AWS_DOCUMENTATION,
        source="https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_MetricsConfig.html does not "
        "name a kind of endpoint; monitoring-cloudwatch-enhanced-metrics.html says both 'single-model "
        "endpoints "
        "and inference components' and 'all real-time endpoints'; read on 2026-11-22",
        depends=("metric-interval",),
        decided_by=DecidedBy.ACCOUNT,
        command="an endpoint with an interval of 10 seconds",
        if_false="Refuse intervals below 60 seconds",
    ),
    Belief(
        id="tracking-alarms",
        belief="A target tracking policy scales out after three minutes above its target, and in after "
        "fifteen minutes below nine tenths of it",
        grade=Grade.SOURCE_READ,
        source="Descriptions of such alarms in public repositories, such as AlarmHigh with three periods "
        "of 60 seconds; AWS documents neither. mikegc-aws/strands-decider-triton keeps its instances for 25 "
        "to 30 minutes after a test of 3 minutes, with a cooldown of 600 s; a public lab saw ALARM after "
        "about five minutes",
        depends=("embedded_aws.autoscaling.tracking_alarms", "GpuUtilization"),
        decided_by=DecidedBy.BY_HAND,
        command="`aws cloudwatch describe-alarms --alarm-name-prefix TargetTracking-endpoint/`, after a "
        "deployment",
        if_false="Correct the constants in embedded_aws/autoscaling/tracking_alarms.py",
    ),
    Belief(
        id="alarm-evaluation-range",
        belief="An alarm looks at two more periods than its evaluation periods when data is missing",
        grade=Grade.AWS_DOCUMENTATION,
        source="https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarm-evaluation.html: five "
        "data points for three periods; for other periods AWS names no number",
        depends=("embedded_aws.cloudwatch.alarm_state", "embedded_aws.cloudwatch.alarms"),
        decided_by=DecidedBy.BY_HAND,
        command="an alarm of three periods on a metric that stops, then `aws cloudwatch "
        "describe-alarm-history`",
        if_false="Correct MORE_PERIODS in embedded_aws/cloudwatch/alarm_state.py",
    ),
    Belief(
        id="alarm-evaluated-every-minute",
        belief="An alarm is evaluated at the end of every minute, over periods that end there, however long "
        "they are",
        grade=Grade.ASSUMPTION,
        source="AWS documents one evaluation a minute, not where the periods begin; metric data arrive later "
        "than here",
        depends=("embedded_aws.cloudwatch.alarm_data",),
        decided_by=DecidedBy.BY_HAND,
        command="an alarm with a period of five minutes, then startDate in `aws cloudwatch "
        "describe-alarm-history`",
        if_false="Correct Reading.of in embedded_aws/cloudwatch/alarm_data.py",
    ),
    Belief(
        id="alarm-messages",
        belief="Reasons, history and messages of alarms have the fields and words of recorded ones",
        grade=Grade.AWS_DOCUMENTATION,
        source="the AWS command line's example of describe-alarm-history, and messages in public "
        "repositories; AWS documents the events, not the messages",
        depends=("embedded_aws.cloudwatch.alarm_messages", "embedded_aws.cloudwatch.alarm_data"),
        decided_by=DecidedBy.BY_HAND,
        command="`aws cloudwatch set-alarm-state` on an alarm with a topic, then `aws cloudwatch "
        "describe-alarm-history`",
        if_false="Correct embedded_aws/cloudwatch/alarm_messages.py",
    ),
    Belief(
        id="overhead-latency",
        belief="SageMaker adds about 1.5 ms to a request, and 6 ms per megabyte of its body",
        grade=Grade.PUBLIC_RECORD,
        records=(
            Record(
                repository="C24IO/SageMaker-Endpoints-Benchmark",
                at="1e0534e6a1 [26]",
                seen="999 requests of each size to a single-model endpoint, 2020: OverheadLatency 2.0 ms "
                "at 100 KB, 3.0 ms at 300 KB, 7.6 ms at 1 MB",
            ),
        ),
        depends=("triton_rehearsal.hosting.metrics",),
        decided_by=DecidedBy.BY_HAND,
        command="OverheadLatency of an endpoint, for requests of 100 KB, 1 MB and 5 MB",
        if_false="Nothing: the rehearsal shows the overhead of its own gateway",
    ),
    Belief(
        id="capacity-change-time",
        belief="New instances of a change serve and count one by one: with GPU images of 2022, the first "
        "after about 5 minutes and the second about 5 later, with small images within a minute of each "
        "other; the endpoint is Updating until the last one",
        grade=Grade.PUBLIC_RECORD,
        records=(
            Record(
                repository="kshitizgupta21/triton-mme-gtc23",
                at="bf2aef49b7 mme.ipynb [62]",
                seen="release 22.12 on ml.g5.xlarge, from 2 instances to 4, polled every 60 s from some "
                "moment of the change on: 2, 2, 2, 3, 3, 3, 3, 3, then InService with 4",
            ),
            Record(
                repository="RamVegiraju/SageMaker-Deployment",
                at="b5cd1f0458 XGBoost-Abalone.ipynb [29]",
                seen="XGBoost on ml.c5d.18xlarge, from 1 instance to 4, polled every second from some "
                "moment on: 2 at the 13th poll, 3 at the 17th, 4 at the 61st, InService at the 70th",
            ),
        ),
        depends=("embedded_aws.moto_gaps.capacity",),
        decided_by=DecidedBy.BY_HAND,
        command="`aws sagemaker update-endpoint-weights-and-capacities`, then `aws sagemaker wait "
        "endpoint-in-service`, with a clock",
        if_false="Correct ARRIVALS in embedded_aws/moto_gaps/capacity.py",
    ),
    Belief(
        id="tracking-in-proportion",
        belief="Target tracking wants the capacity times the metric by its target, rounded up, in both "
        "directions, from the metric's newest minute, in one step",
        grade=Grade.PUBLIC_RECORD,
        source="AWS documents proportion and rounding, but no formula",
        records=(
            Record(
                repository="mikegc-aws/strands-decider-triton",
                at="08f8c414e1 README.md",
                seen="target 250 per instance and minute, a test of 3 minutes with about 14 requests per "
                "second: from 1 to 3 at once",
            ),
            Record(
                repository="RamVegiraju/SageMaker-Deployment",
                at="f11f1bf478 sagemaker-notebook.ipynb [23]",
                seen="target 10, several callers for 260 s: from 1 to the maximum of 4",
            ),
            Record(
                repository="RamVegiraju/SageMaker-Deployment",
                at="b5cd1f0458 XGBoost-Abalone.ipynb [29]",
                seen="target 10, one caller for 250 s: one change from 1 to the maximum of 4",
            ),
        ),
        depends=("embedded_aws.autoscaling.decisions", "GpuUtilization"),
        decided_by=DecidedBy.BY_HAND,
        command="steps of load on a scaled endpoint, then `aws application-autoscaling "
        "describe-scaling-activities --service-namespace sagemaker`",
        if_false="Correct tracked_capacity in embedded_aws/autoscaling/decisions.py",
    ),
    Belief(
        id="step-metric-value",
        belief="A step policy compares the average of the periods that its alarm evaluated with its steps",
        grade=Grade.ASSUMPTION,
        source="AWS documents MetricAggregationType, but not the time that it covers",
        depends=("embedded_aws.autoscaling.decisions", "StepScaling"),
        decided_by=DecidedBy.BY_HAND,
        command="a step policy with an alarm of several periods, and a metric that rises in between",
        if_false="Correct stepped_capacity in embedded_aws/autoscaling/decisions.py",
    ),
    Belief(
        id="scale-in-after-scale-out",
        belief="A cooldown after scaling out does not delay scaling in",
        grade=Grade.ASSUMPTION,
        source="AWS documents that it counts the capacity that was added, and nothing about removals",
        depends=("embedded_aws.moto_gaps.scaling",),
        decided_by=DecidedBy.BY_HAND,
        command="a step policy for each direction, with a scale-out cooldown of an hour",
        if_false="Wait for the end of the cooldown in embedded_aws/moto_gaps/scaling.py",
    ),
)
