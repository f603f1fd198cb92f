"""The build job: makes the models on the hardware that serves them, with the TensorRT that loads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType

from aws_cdk import Annotations as Advice
from aws_cdk import Duration, RemovalPolicy, Stack
from aws_cdk import aws_codebuild as codebuild
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from triton_fleet.builds import processing_jobs
from triton_fleet.builds.codebuild import (
    CODEBUILD,
    build_environment,
    codebuild_statements,
    commands_project,
    network_statements,
    only_where_offered,
    starter_environment,
    variables,
)
from triton_fleet.builds.commands import commands
from triton_fleet.builds.inputs import (
    BuildInputs,
    build_weights,
    check_environment,
    outgoing_ports,
    weights_advice,
    weights_prefixes,
    weights_unreadable,
    weights_uploaded,
)
from triton_fleet.builds.machines import (
    BuildMachineChoice,
    OnDemandMachine,
    ProcessingJob,
    build_machine,
    check_machine,
)
from triton_fleet.builds.source import check_source, declared_models, source_asset, source_contents
from triton_fleet.builds.working_folder import timing_cache
from triton_fleet.parts.arguments.checks import literal_list, look_up, not_literal, quantity_range
from triton_fleet.parts.arguments.late import LateProblems
from triton_fleet.parts.arguments.roles import advise_on_immutable, is_immutable, policy_of, service_role
from triton_fleet.parts.arguments.service_model import hold_against_services
from triton_fleet.parts.arguments.tokens import known
from triton_fleet.parts.arguments.typed import typed
from triton_fleet.parts.images.image import TritonImage
from triton_fleet.parts.network.endpoint_network import EndpointNetwork
from triton_fleet.parts.network.findings import acknowledge_network_interfaces
from triton_fleet.parts.repository.endpoint_fit import BuiltModel, PlanTarget
from triton_fleet.parts.repository.model_repository import ModelRepository
from triton_fleet.parts.serving import Serving
from triton_models.artifact.targets import ArtifactTarget
from triton_models.base.checks import Check, Report
from triton_models.check.survey import Survey
from triton_models.declare.searched import sequence_models, variables_read
from triton_models.facts.build_machines import BUILD_MACHINES
from triton_models.facts.instances import InstanceType
from triton_models.facts.instances import instance_type as find_instance_type
from triton_models.facts.tensorrt import hardware_problems, precision_problems

BUILD_NETWORK = Check(
    id="build-network",
    source="2026-11-23: https://docs.aws.amazon.com/vpc/latest/privatelink/vpc-endpoints-s3.html",
)

# A Processing job gets an instance and pulls the image before it begins.
_JOB_START_MINUTES = 30
_LONGEST_BUILD_MINUTES = 2160

_NOTHING: Mapping[str, str] = MappingProxyType({})


@typed
class ModelBuildProject(Construct):
    """A CodeBuild project that builds models on the serving hardware, and publishes them.

    It runs in the Triton image of the release, on the GPU model of the endpoint's instance type, because a
    TensorRT plan loads in no other version and on no other GPU. For an instance type without a GPU it runs on
    a machine without one and compiles nothing: a model stays an ONNX file, which ONNX Runtime serves. A build
    runs the commands that a person types: build, check, pack, publish. Start one with
    `aws codebuild start-build`; override FLEET_MODELS to build fewer models.

    CodeBuild has few GPUs on demand. For any other GPU the project starts a SageMaker Processing job on the
    endpoint's own instance type, and ends as the job ends. `machine.reason` gives the reason for the choice.

    Attributes:
        machine: The machine of builds, and the reason for it.
        declared: The names of the folders in models/ that declare a model.
        gpu: The GPU model that compiles; None if nothing is compiled.
        release: The Triton release, with its TensorRT.
        image: The image of the release, or your own.
        starter_role: The role of a project that starts a Processing job; otherwise None.
        log_group: The log of builds; for a Processing job, a copy of its log.

    Most of its arguments are attributes, too.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        repository: ModelRepository,
        source: str | Path,
        models: Sequence[str] | None = None,
        serving: Serving | None = None,
        weights: Mapping[str, str] = _NOTHING,
        weights_from: Sequence[str] = (),
        hub_token: secretsmanager.ISecret | None = None,
        source_key: kms.IKey | None = None,
        machine: BuildMachineChoice | None = None,
        expected_region: str | None = None,
        timeout: Duration | None = None,
        log_retention: logs.RetentionDays = logs.RetentionDays.THREE_MONTHS,
        role: iam.IRole | None = None,
        environment: Mapping[str, str] = _NOTHING,
        network: EndpointNetwork | None = None,
    ) -> None:
        """Create the project; it builds nothing until it is started.

        Args:
            repository: The repository that artifacts are published to.
            source: The folder that holds models/, such as `model_builds`. It is uploaded at
                deployment, and a change to it is a new version of the project.
            models: Folders in models/ to build, or `folder:form`. By default every folder. For thousands of
                models use BuildRuns: one build would take many hours.
            serving: What the endpoint serves with. On an instance type without a GPU nothing is compiled. If
                all plans are declared with `TensorRt(hardware=...)`, it may be a type with another GPU whose
                plans the endpoint loads.
            weights: Trained weights by the environment variable in which a declaration looks for their
                address, as in `{"T5_WEIGHTS": "s3://bucket/t5.safetensors"}`. An address is one object or a
                prefix of S3, which builds may then read, or hf://owner/name@commit. If a key of yours
                encrypts the object, allow `role` to use the key.
            weights_from: Prefixes of S3, as in `["s3://bucket/checkpoints/"]`, under which declarations may
                name weights themselves. An address elsewhere fails the synthesis.
            hub_token: The token of a private repository of the Hugging Face hub. A build reads it when it
                starts, so it is in no template and no log.
            source_key: The KMS key of the bucket that `cdk bootstrap` made, if it was given a key of the
                account (`--bootstrap-kms-key-id` or `--bootstrap-customer-key`). Builds may then decrypt
                their source.
            machine: The machine of builds: OnDemandMachine, ProcessingJob or ReservedMachines. By default one
                that has the GPU and costs nothing while idle: CodeBuild on demand, or else a Processing job.
                Reserved machines are billed while they exist, so they are never the default.
            expected_region: The region of the deployment, for a stack that leaves its region open. CodeBuild
                has GPUs on demand in few regions; a template for all regions fails in the others.
            timeout: The longest build. Two hours by default.
            log_retention: The retention of the log, which records how each model was made.
            role: An existing role for builds, which CodeBuild may assume, or SageMaker for Processing jobs.
                It gets the permissions of a build, unless it is immutable. By default a new role.
            environment: Further environment variables of a build: a package index (PIP_INDEX_URL), a proxy
                (HTTPS_PROXY, with NO_PROXY), or what a build.py reads. They are not secret.
            network: The private subnets in which builds run. They need ways to S3, ECR, CloudWatch Logs, KMS,
                SageMaker and a package index: by a NAT gateway, or by VPC endpoints that exist. By default
                the service's own network.
        """
        super().__init__(scope, construct_id)
        folder = Path(source)
        region = known(Stack.of(self).region) or expected_region
        report = Report(self.node.path)
        serving = serving or Serving()
        instance = look_up(report, "instance_type", serving.instance_type, find_instance_type)
        _check_machine(report, machine, instance, region, timeout)
        triton = serving._release(report, region=region, multi_model=False)
        if instance is not None:
            serving._fits(report, report.at("instance_type"), instance, triton)
        quantity_range(
            report.at("timeout"),
            timeout,
            least=5,
            most=_LONGEST_BUILD_MINUTES,
            name="timeout",
            unit="minutes",
        )
        literal_list(report.at("models"), models or (), name="models")
        check_source(report, folder, models)
        _check_weights(report, weights, folder)
        literal_list(report.at("weights_from"), weights_from, name="weights_from")
        weights_prefixes(report.at("weights_from"), weights_from)
        check_environment(report.at("environment"), environment, weights=weights)
        if network is not None and network.s3_endpoint is not None:
            report.at("network")(
                BUILD_NETWORK,
                "the network creates the VPC endpoint for S3",
                fix="give builds a network with VpcService.S3 in existing_vpc_endpoints, or a NAT gateway",
                why="that endpoint lets models be read: builds also write, and read sources and weights",
            )
        report.raise_if_any()
        assert instance is not None and triton is not None  # noqa: S101, PT018 -- what is missing was raised
        self.repository = repository
        self.models = tuple(models) if models is not None else None
        self.declared = declared_models(folder)
        self.weights, self.source_key, self.hub_token = dict(weights), source_key, hub_token
        self.weights_from = tuple(weights_from)
        self.environment, self.network = dict(environment), network
        if network is not None:
            network._let_out(outgoing_ports(environment))
        self.release, self.gpu = triton, instance.gpu
        self.machine = build_machine(machine, instance, region)
        own = serving.image
        self.image = own._resolved() if own else TritonImage.of(self, release=triton, cpu=serving.cpu_image)
        files = source_contents(folder)
        self._survey = Survey(
            self.models or self.declared,
            source=folder,
            release=triton,
            gpu=self.gpu is not None,
            given=self.weights,
        )
        LateProblems(self, self._problems_at_synthesis)
        sequences = partial(sequence_models, folder, tuple(files), self._survey.names)
        repository._usage.note_build(self._built, sequences=sequences)
        advise = Advice.of(self).add_warning_v2
        for advice, text in weights_advice(self._survey.names, source=folder, given=weights):
            advise(advice, text)
        self.source = source_asset(self, folder, files)
        self.log_group = logs.LogGroup(
            self, "Logs", retention=log_retention, removal_policy=RemovalPolicy.RETAIN
        )
        self._inputs = BuildInputs(weights=self.weights, hub_token=hub_token, weights_from=self.weights_from)
        self.starter_role: iam.Role | None = None
        make = self._processing_job if isinstance(self.machine.choice, ProcessingJob) else self._codebuild
        self.role, self.project = make(role, timeout or Duration.hours(2))
        hold_against_services(self)

    @property
    def target(self) -> ArtifactTarget:
        """The target of its builds: the release with its GPU, or without one."""
        return ArtifactTarget.of(release=self.release, gpu=self.gpu)

    def _built(self) -> Iterator[BuiltModel]:
        """The models that a build makes, without those whose declarations cannot be read."""
        path = self.node.path  # once, because each reading asks the CDK's process
        for asked, checked in zip(self._survey.names, self._survey.results(), strict=True):
            if checked.artifact:
                target = PlanTarget(
                    gpu=self.gpu,
                    release=self.release,
                    path=path,
                    plans=checked.plans,
                    environments=checked.environments,
                    pipelines=checked.pipelines,
                    any_gpu=checked.any_gpu,
                    plugins=checked.plugins,
                    forests=checked.forests,
                    pool=checked.pool_mib,
                    completed=checked.auto_complete,
                )
                yield BuiltModel(asked=asked, name=checked.artifact, target=target)

    def _families(self) -> list[str]:
        """The names of its models that are families."""
        checked = zip(self._survey.names, self._survey.results(), strict=True)
        return [asked for asked, each in checked if each.family]

    def _problems_at_synthesis(self, report: Report) -> None:
        """Check the declarations, and compiling them on this GPU."""
        report.add(self._survey.problems())
        for checked in self._survey.results():
            place = Report(f"the declaration of {checked.artifact!r}")
            weights_uploaded(place, checked.elsewhere)
            weights_unreadable(
                place, checked.objects, weights=self.weights.values(), prefixes=self._inputs.prefixes
            )
            report.add(place.problems)
        for checked in self._survey.results() if self.gpu is not None else ():
            where = f"the plans of {checked.artifact!r}, for {report.where}"
            for plan in checked.plans:
                report.add(hardware_problems(plan, release=None, gpu=self.gpu, where=where))
            for precision in checked.precisions:
                report.add(precision_problems(precision, release=None, gpu=self.gpu, where=where))

    def _codebuild(self, role: iam.IRole | None, timeout: Duration) -> tuple[iam.IRole, codebuild.Project]:
        own = codebuild_statements(source=self.source, key=self.source_key, log_group=self.log_group)
        own += network_statements(self, self.network)
        role = self._allowed(role or self._new_role(CODEBUILD), own)
        values = variables(
            {
                **self.environment,
                **self.variables(),
                **self.weights,
                "FLEET_LOG_GROUP": self.log_group.log_group_name,
            }
        )
        project = commands_project(
            self,
            "Resource",
            description=self._description(),
            phases=commands(self.gpu),
            environment=build_environment(
                self, machine=self.machine, image=self.image, gpu=self.gpu is not None
            ),
            values=values | self._inputs.token_variables(),
            role=role,
            key=self.repository.key,
            log_group=self.log_group,
            timeout=timeout,
            source=self.source,
            network=self.network,
        )
        resource = project.node.default_child
        assert isinstance(resource, codebuild.CfnProject)  # noqa: S101 -- every project is one
        # The CDK's image for GPUs knows tags of AWS's own registries only.
        resource.add_property_override("Environment.Image", self.image.uri)
        if self.gpu is not None and isinstance(self.machine.choice, OnDemandMachine):
            only_where_offered(project, BUILD_MACHINES[self.gpu.name])
        return role, project

    def _processing_job(
        self, role: iam.IRole | None, timeout: Duration
    ) -> tuple[iam.IRole, codebuild.Project]:
        """The role of a job, and the project that starts it and waits."""
        assert self.gpu is not None  # noqa: S101 -- else there would be no job
        own = processing_jobs.job_statements(self, source=self.source, key=self.source_key)
        own += self.network._statements() if self.network is not None else []
        local = find_instance_type(self.machine.name).nvme_gb
        volume_key = None if local else self.repository.key
        own += processing_jobs.volume_statements(volume_key)
        role = self._allowed(role or self._new_role(processing_jobs.SERVICE), own)
        self.starter_role = service_role(
            self, "StarterRole", service=CODEBUILD, description="What starts a build may do"
        )
        started = processing_jobs.starter_statements(self, job_role=role, log_group=self.log_group)
        for statement in (*started, *network_statements(self, self.network)):
            self.starter_role.add_to_policy(statement)
        if self.network is not None:
            acknowledge_network_interfaces(self.starter_role)
        job = processing_jobs.job_variables(
            self,
            image=self.image,
            role=role,
            source=self.source,
            instance_type=self.machine.name,
            gpu=self.gpu,
            seconds=timeout.to_seconds(),
            inputs=self._inputs,
            environment=self.environment,
            network=self.network,
            volume_key=volume_key,
        )
        project = commands_project(
            self,
            "Resource",
            description=self._description(),
            phases={"build": [processing_jobs.program()]},
            environment=starter_environment(),
            values=variables({**self.variables(), **self.weights, **job}),
            role=self.starter_role,
            key=self.repository.key,
            log_group=self.log_group,
            timeout=Duration.minutes(min(timeout.to_minutes() + _JOB_START_MINUTES, _LONGEST_BUILD_MINUTES)),
            network=self.network,
        )
        # The job's permissions are there before anyone can start one.
        project.node.add_dependency(policy_of(role))
        return role, project

    def _new_role(self, service: str) -> iam.Role:
        return service_role(self, "Role", service=service, description="What a build of models may do")

    def _allowed(self, role: iam.IRole, own: Sequence[iam.PolicyStatement]) -> iam.IRole:
        """The role with permissions to publish to the repository, pull one image, and do what is its own."""
        granted = self.repository.grant_publish(role).principal_statements
        fetched = self._inputs.weights_statements(self)
        kept = timing_cache(self.repository).read_write_statements("TimingCache") if self.gpu else []
        statements = [*self.image.pull_statements(), *own, *fetched, *kept]
        for statement in statements:
            role.add_to_principal_policy(statement)
        if self.network is not None and not is_immutable(role):
            acknowledge_network_interfaces(role)
        if self._inputs.hub_token is not None:
            granted += self._inputs.hub_token.grant_read(role).principal_statements
        service = "SageMaker" if isinstance(self.machine.choice, ProcessingJob) else "CodeBuild"
        advise_on_immutable(self, role, [*granted, *statements], service=service)
        return role

    def _description(self) -> str:
        hardware = self.gpu.name if self.gpu else "CPUs"
        does = f"Builds models for {hardware} and Triton {self.release.name}"
        usual = isinstance(self.machine.choice, OnDemandMachine)
        return does if usual else f"{does}. Machine: {self.machine.reason}"

    def variables(self) -> dict[str, str]:
        """Return the variables of a build: the models, their target, and the repository."""
        compiled = (
            {"FLEET_GPU": self.gpu.name, "FLEET_TIMING_CACHE": timing_cache(self.repository).url}
            if self.gpu
            else {}
        )
        return compiled | {
            "FLEET_RELEASE": self.release.name,
            "FLEET_MODELS": " ".join(self.models or ()),
            "FLEET_REPOSITORY": self.repository.url,
        }


def _check_weights(report: Report, weights: Mapping[str, str], source: Path) -> None:
    if not weights:  # to find what declarations read, all of them are searched
        return
    place = report.at("weights")
    for name, address in weights.items():
        if known(address) is None or known(name) is None:
            not_literal(place, "weights")
            return
    build_weights(place, weights, read=variables_read(source / "models"))


def _check_machine(
    report: Report,
    choice: BuildMachineChoice | None,
    instance: InstanceType | None,
    region: str | None,
    timeout: Duration | None,
) -> None:
    if instance is None:
        return
    before = len(report.problems)
    check_machine(report, choice, instance, region)
    if len(report.problems) > before or timeout is None or not timeout.is_unresolved():
        return
    if isinstance(build_machine(choice, instance, region).choice, ProcessingJob):
        not_literal(report.at("timeout"), "timeout")  # seconds for the job, and minutes for the build
