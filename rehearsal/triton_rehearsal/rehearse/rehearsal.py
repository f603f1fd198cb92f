"""A rehearsal: runs each step once, in order, on this machine."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from triton_models.base.errors import FleetError, raise_if_any
from triton_models.client import AsyncClient, Client
from triton_models.declare.reading import with_members
from triton_models.deliver.results import Results, merged
from triton_models.repository.manifest import Repository
from triton_models.spec import ModelDefinition, load_builds
from triton_rehearsal.aws import REGION, SPEED, open_aws, resource_problems
from triton_rehearsal.builds.runner import BuildRunner
from triton_rehearsal.cdk import Cdk, read_stage
from triton_rehearsal.closing import Closing
from triton_rehearsal.hosting.budget import read_size
from triton_rehearsal.hosting.service import Hosting, require_served
from triton_rehearsal.page.document import read as read_document
from triton_rehearsal.rehearse.inventory import Inventory
from triton_rehearsal.rehearse.inventory import read as read_inventory
from triton_rehearsal.rehearse.predictions import Prediction, predict
from triton_rehearsal.scenario.play import Faults, Stage, ask_again, play
from triton_rehearsal.scenario.result import ScenarioResult
from triton_rehearsal.scenario.scenario import Scenario
from triton_rehearsal.triton.runtime import find_runtime

Report = Callable[[str], None]

_SHOWN_OF_A_RESULT = ("precision", "proof", "answers")

C = TypeVar("C", Client, AsyncClient)

_LOOK_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """The outputs of the deployed stacks."""

    endpoint: str
    alias: str
    dashboard: str
    repository: str
    build_project: str
    resources: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Session:
    """A boto3 session for one set of exports. It does not change this process's environment."""

    exports: Mapping[str, str]

    def client(self, service: str, **options: Any) -> Any:
        own = f"AWS_ENDPOINT_URL_{service.upper().replace('-', '_')}"
        url = self.exports.get(own, self.exports["AWS_ENDPOINT_URL"])
        return self._session().client(service, endpoint_url=url, **options)

    def get_credentials(self) -> Any:
        return self._session().get_credentials()

    def _session(self) -> Any:
        import boto3

        return boto3.Session(
            aws_access_key_id=self.exports["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=self.exports["AWS_SECRET_ACCESS_KEY"],
            region_name=self.exports["AWS_REGION"],
        )


@contextmanager
def _own_temporary_folder() -> Iterator[Path]:
    """Use one folder for all temporary files of this process and its children, and remove it at the end.

    Libraries leave caches in the temporary folder: importing transformers alone creates one.
    """
    before = os.environ.get("TMPDIR")
    with tempfile.TemporaryDirectory(prefix="fleet-", ignore_cleanup_errors=True) as folder:
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        try:
            yield Path(folder)
        finally:
            tempfile.tempdir = None
            if before is None:
                del os.environ["TMPDIR"]
            else:
                os.environ["TMPDIR"] = before


def with_answers(row: Mapping[str, Any], results: Results) -> dict[str, Any]:
    """Return a model's row of the page, with its precision and answers if this rehearsal built it."""
    built = {each.artifact: each for each in results.results if each.artifact}
    result = built.get(row["target"])
    return {**row, **({name: getattr(result, name) for name in _SHOWN_OF_A_RESULT} if result else {})}


class Rehearsal(Closing):
    """A rehearsal with its processes and files; closing it removes all of them.

    Without models, those are built and served that the deployed project builds; a scenario has models of its
    own. Without a stage it is the first one, if the project has stages, and without a memory for models, such
    as "500MiB", that of the GPU of the deployed instance type. `deploy` sets `deployed`, and after `build`,
    `models` are those that were built.
    """

    def __init__(
        self,
        *,
        project: Path,
        port: int = 0,
        models: Sequence[str] = (),
        stage: str | None = None,
        gpu_memory: str | None = None,
        scenario: Scenario | None = None,
    ) -> None:
        self._gpu_memory = None if gpu_memory is None else read_size(gpu_memory, where="--gpu-memory")
        self._scenario, self._faults = scenario, Faults()
        if scenario is not None:
            self._gpu_memory = scenario.gpu_memory or self._gpu_memory
        self._project = project
        self.stage = read_stage(project, stage)
        self._declarations = project / "model_builds" / "models"
        find_runtime()  # fails here if the server is missing, not at the end
        self._names = list(models)
        self.models = tuple(self._loaded(models))
        self._open = ExitStack()
        try:
            self.folder = self._open.enter_context(_own_temporary_folder())
            self.aws = self._open.enter_context(
                open_aws(port, region=self.stage.region or REGION, speed=SPEED)
            )
            self._builds = self._open.enter_context(BuildRunner(self.aws))
        except BaseException:
            self._open.close()
            raise
        self._hosting: Hosting | None = None
        self._played: ScenarioResult | None = None
        self._built = Results(results=())

    def deploy(self, report: Report) -> Deployed:
        """Bootstrap and deploy every stack with the CDK command line, and check that every resource exists.

        A build that the deployment starts continues while the rest is deployed.
        """
        cdk = Cdk(
            environment=self.aws.environment(),
            directory=self._project,
            output=self.folder / "cdk.out",
            on_line=report,
        )
        named = ["-c", f"models={','.join(self._names)}"] if self._names or self._scenario else []
        if self._scenario:
            settings = [f"{name}={value}" for name, value in self._scenario.fleet.items()]
            named += [argument for setting in settings for argument in ("-c", setting)]
        outputs = cdk.bootstrap_and_deploy(*self.stage.context(), *named)
        stacks, cloudformation = list(outputs), self.aws.client("cloudformation")
        raise_if_any(problem for stack in stacks for problem in resource_problems(self.aws, stack))
        values = {name: value for stack in outputs.values() for name, value in stack.items()}
        self.deployed: Deployed = Deployed(
            endpoint=values["EndpointName"],
            alias=values["EndpointAlias"],
            dashboard=values["DashboardName"],
            repository=values["RepositoryUrl"],
            build_project=values.get("BuildProjectName", ""),  # there is none without models
            resources=sum(
                len(cloudformation.list_stack_resources(StackName=stack)["StackResourceSummaries"])
                for stack in stacks
            ),
        )
        require_served(self.aws, self.deployed.endpoint)
        if not self.models and not self._scenario:
            self._names = self._built_by_default()
            self.models = tuple(self._loaded(self._names))
        return self.deployed

    def _loaded(self, names: Sequence[str]) -> list[ModelDefinition]:
        return load_builds(with_members(names, self._declarations), self._declarations)

    def _built_by_default(self) -> list[str]:
        projects = self.aws.client("codebuild").batch_get_projects(names=[self.deployed.build_project])
        variables = projects["projects"][0]["environment"]["environmentVariables"]
        names: str = next(each["value"] for each in variables if each["name"] == "FLEET_MODELS")
        return names.split()

    def build(self, report: Report) -> Results:
        """Wait for the builds that the deployment started, or run one if it started none.

        Returns the result of each model. Failed models are not served.
        """
        project = self.deployed.build_project
        failure: FleetError | None = None
        self._wait_for_runs()
        variables = {
            "FLEET_MODELS": " ".join(self._names),
            "FLEET_RESULTS": f"{self._runs()}rehearsal/results/0.json",
        }
        started = [partial(self._builds.wait, each) for each in self._builds.of(project)]
        for run in started or [partial(self._builds.run, project=project, overrides=variables)]:
            try:
                run(on_line=report)
            except FleetError as error:
                failure = error
        self._built = results = self._results()
        if failure is not None and not results.failed:
            raise failure
        failed = {result.model for result in results.failed}
        named = zip(with_members(self._names, self._declarations), self.models, strict=True)
        self.models = tuple(model for name, model in named if name not in failed)
        return results

    def _wait_for_runs(self) -> None:
        states, moment = self.aws.client("stepfunctions"), threading.Event()
        for machine in states.list_state_machines()["stateMachines"]:
            wanted = {"stateMachineArn": machine["stateMachineArn"], "statusFilter": "RUNNING"}
            while states.list_executions(**wanted)["executions"]:
                moment.wait(_LOOK_S)

    def _runs(self) -> str:
        return f"{self.deployed.repository.rstrip('/')}-builds/runs/"

    def _results(self) -> Results:
        place = Repository.parse(self._runs())
        s3 = self.aws.client("s3")
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=place.bucket, Prefix=place.prefix)
        keys = [each["Key"] for page in pages for each in page.get("Contents", [])]
        documents = {
            key: s3.get_object(Bucket=place.bucket, Key=key)["Body"].read()
            for key in keys
            if "/results/" in key
        }
        return merged(Results.from_json(text, where=key) for key, text in documents.items())

    def serve(self) -> str:
        """Start the endpoint's instance. Returns the URL for AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME."""
        self._hosting = self._open.enter_context(
            Hosting(
                self.aws,
                directory=self.folder / "hosting",
                gpu_memory=self._gpu_memory,
                disk=self._scenario.disk if self._scenario else None,
                on_s3_client=self._faults.attach,
                before_start=self._faults.admit_instance,
            )
        )
        self.aws.serve_elsewhere("sagemaker-runtime", self._hosting.url)
        self._hosting.start(self.deployed.endpoint)
        return self._hosting.url

    def exports(self) -> Mapping[str, str]:
        """Return the variables that point any AWS SDK and the AWS command line to this rehearsal."""
        serving = {"AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME": self._hosting.url} if self._hosting else {}
        return {**self.aws.exports(), **serving}

    def play(
        self, scenario: Scenario, report: Report, *, after_traffic: Callable[[], None]
    ) -> ScenarioResult:
        """Play a scenario on the served endpoint.

        `after_traffic` is called before every model is asked once more, which changes all metrics.
        """
        assert self._hosting is not None  # noqa: S101  serve() comes first
        self._set_instances(scenario.instances)
        self.aws.set_speed(scenario.speed)
        repository = Repository.parse(self.deployed.repository)
        stage = Stage(
            hosting=self._hosting,
            endpoint=self.deployed.endpoint,
            client=self._client(AsyncClient),
            s3=self.aws.client("s3"),
            bucket=repository.bucket,
            prefix=repository.prefix,
            cloudwatch=self.aws.client("cloudwatch"),
            faults=self._faults,
            say=report,
        )
        observed = play(scenario, stage)
        after_traffic()
        self._played = ScenarioResult.of(scenario, replace(observed, last=ask_again(scenario, stage)))
        return self._played

    def _set_instances(self, count: int) -> None:
        sagemaker, name = self.aws.client("sagemaker"), self.deployed.endpoint
        [variant] = sagemaker.describe_endpoint(EndpointName=name)["ProductionVariants"]
        if variant["CurrentInstanceCount"] == count:
            return
        wanted = {"VariantName": variant["VariantName"], "DesiredInstanceCount": count}
        sagemaker.update_endpoint_weights_and_capacities(
            EndpointName=name, DesiredWeightsAndCapacities=[wanted]
        )
        sagemaker.get_waiter("endpoint_in_service").wait(EndpointName=name, WaiterConfig={"Delay": 0.2})
        found = sagemaker.describe_endpoint(EndpointName=name)
        if reason := found.get("FailureReason"):
            raise FleetError.of(
                what=str(reason).splitlines()[0],
                where=f"the scenario's {count} instances",
                fix="use fewer instances",
            )

    def predictions(self, model: ModelDefinition) -> Iterator[Prediction]:
        """Invoke a model with its declared inputs, and yield each comparison."""
        yield from predict(model, self._client(Client))

    def _client(self, kind: type[C]) -> C:
        return kind(
            alias=self.deployed.alias,
            repository=self.deployed.repository,
            session=_Session(exports=self.exports()),
        )

    def inventory(self) -> Inventory:
        """Return scaling, alarms and dashboard. Writes all pending metrics first."""
        if self._hosting:
            self._hosting.flush_metrics()
        return read_inventory(self.aws, endpoint=self.deployed.endpoint, dashboard=self.deployed.dashboard)

    def document(self) -> dict[str, Any]:
        """Return what the page about this rehearsal shows. Writes all pending metrics first."""
        if self._hosting:
            self._hosting.flush_metrics()
        document = read_document(self.aws, self._hosting)
        document["models"] = [with_answers(row, self._built) for row in document["models"]]
        if self._scenario is not None:
            played = self._played.as_dict() if self._played else {"passed": None}
            name, about = self._scenario.name, self._scenario.about
            document["scenario"] = {"scenario": name, "about": about, **played}
        return document

    def close(self) -> None:
        """End every process and remove every file of this rehearsal."""
        self._open.close()
