"""moto's CloudFormation API on top of the engine: stacks and change sets with CloudFormation's outcomes.

moto's gaps:
- It registers exports when a stack is created, but not when a change set is executed. The CDK command line
  deploys with change sets, so `Fn::ImportValue` fails in the next stack.
- It finds a change set by its name alone, and the CDK gives the change sets of all stacks the same name.
- A resource that fails answers HTTP 500. CloudFormation records an event with the reason and rolls back.
- It deletes an export that another stack imports.
- It reads an unquoted date in YAML as a date, where CloudFormation takes a string.
- It validates templates with cfn-lint, whose words it answers as the id of a stack.
- It lacks `Fn::GetStackOutput`, and a change set's DisableRollback: `cdk deploy --no-rollback`.
- It lacks CancelUpdateStack, ContinueUpdateRollback and UpdateTerminationProtection.
- `UsePreviousValue` of a parameter that names a Systems Manager parameter passes on the looked-up value as if
  it were the name.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from graphlib import CycleError
from typing import Any

import moto.cloudformation.models
import moto.cloudformation.parsing
import moto.cloudformation.responses
from botocore.exceptions import BotoCoreError, ClientError
from moto.cloudformation.exceptions import AlreadyExistsException, ValidationError
from moto.cloudformation.models import ChangeSet, CloudFormationBackend, Event, Stack
from moto.cloudformation.parsing import Export
from moto.cloudformation.responses import CloudFormationResponse
from moto.cloudformation.utils import generate_stack_id
from moto.core.exceptions import ServiceException
from moto.core.responses import ActionResult, EmptyResult

from embedded_aws import clients
from embedded_aws.cloudformation.catalogue import is_supported, resource_type
from embedded_aws.cloudformation.engine import Deployment, DeploymentError, StackResources, reason_of
from embedded_aws.cloudformation.functions import evaluate, in_order, text, values_of
from embedded_aws.cloudformation.resource import Call
from embedded_aws.cloudformation.template import check, check_created, given_parameters, read
from embedded_aws.errors import StackNotFoundError
from embedded_aws.moto_gaps import patch

_log = logging.getLogger(__name__)

# Answers the API call that began an operation.
Answer = Callable[[], None]


class ChangeSetNotFoundError(ServiceException):
    """The error that the CDK command line waits for after it has deleted a change set."""

    code = "ChangeSetNotFound"

    def __init__(self, name: str) -> None:
        super().__init__(f"ChangeSet [{name}] does not exist")


# Clients look again only after several seconds: the CDK command line after five.
_PATIENCE_S = 4.0

_running: set[threading.Thread] = set()


def join() -> None:
    for thread in list(_running):
        thread.join()


def _operate(work: Callable[[Answer], None]) -> None:
    """Run a stack operation. Returns when it is done, or when it asks to answer the API call.

    CloudFormation answers at once and continues. Here a call returns when the operation is done, after some
    tenths of a second, so that clients need not poll, unless a resource waits longer for something outside,
    such as a custom resource for its function.
    """
    answered, failures = threading.Event(), list[Exception]()

    def run() -> None:
        try:
            work(answered.set)
        except Exception as error:  # noqa: BLE001 (the caller gets it)
            if answered.is_set():
                _log.error("a stack operation of the embedded AWS failed", exc_info=error)
            failures.append(error)
        finally:
            answered.set()
            _running.discard(thread)

    thread = threading.Thread(target=run, name="stack-operation", daemon=True)
    _running.add(thread)
    thread.start()
    answered.wait()
    thread.join(_PATIENCE_S)
    if failures:
        raise failures[0]


def _call(stack: Stack, logical_id: str, answer: Answer = lambda: None) -> Call:
    return Call(
        canceled=lambda: getattr(stack, "canceled", False),
        client=lambda service: clients.client(service, stack.region_name),
        account=stack.account_id,
        region=stack.region_name,
        stack_id=stack.stack_id,
        stack_name=stack.name,
        logical_id=logical_id,
        answer=answer,
    )


def resources_of(stack: Stack) -> StackResources:
    resources: Any = stack.resource_map  # which a patch below makes so
    found: StackResources = resources
    return found


def missing(account: str, region: str, name: str) -> Iterator[tuple[str, str, str]]:
    """Yield the logical id and the type of each resource of a stack that does not exist, with the reason."""
    backend = moto.cloudformation.models.cloudformation_backends[account][region]
    try:
        stack = backend.get_stack(name)
    except ValidationError:
        names = ", ".join(sorted(stack.name for stack in backend.stacks.values())) or "none"
        msg = f"there is no stack {name!r} in {region}; deployed stacks: {names}"
        raise StackNotFoundError(msg) from None
    resources = resources_of(stack)
    for logical_id, declared in resources.declared.items():
        found = resources.deployed.get(logical_id)
        if found is None or found.identity is None or not found.physical_resource_id:
            yield logical_id, declared["Type"], "the stack does not have it, or without a physical id"
            continue
        try:
            found.kind.confirm(_call(stack, logical_id), found.identity, found.properties)
        except (BotoCoreError, ClientError, LookupError) as error:
            reason = f"its service does not know {found.physical_resource_id}: {error}"
            yield logical_id, declared["Type"], reason


def _record(stack: Any, status: str, reason: str | None = None) -> None:
    stack.status = status
    stack.stack_status_reason = reason
    stack._add_stack_event(status, resource_status_reason=reason)


def _journal(stack: Stack) -> Callable[[str, str, str, str, str | None], None]:
    def note(logical_id: str, type_name: str, physical_id: str, status: str, reason: str | None) -> None:
        stack.events.append(
            Event(
                stack_id=stack.stack_id,
                stack_name=stack.name,
                logical_resource_id=logical_id,
                physical_resource_id=physical_id,
                resource_type=type_name,
                resource_status=status,
                resource_status_reason=reason,
                resource_properties=None,
            )
        )

    return note


def _deployment(stack: Stack, answer: Answer) -> Deployment:
    return Deployment(
        resources_of(stack),
        types=resource_type,
        call=lambda logical_id: _call(stack, logical_id, answer),
        journal=_journal(stack),
    )


def _deploy(  # noqa: PLR0917 (an operation needs them all)
    backend: CloudFormationBackend,
    stack: Stack,
    template: Any,
    parameters: Mapping[str, Any],
    verb: str,
    answer: Answer,
    *,
    keep: bool = False,
) -> None:
    """Create or update a stack. After a failure it rolls back, unless `keep` is set."""
    made: Any = stack
    before = (stack.template, dict(stack.parameters))
    former = dict(stack.template_dict)
    _record(stack, f"{verb}_IN_PROGRESS", "User Initiated")
    made.canceled = False
    deployment = _deployment(stack, answer)
    try:
        _read(backend, stack, template, parameters)
        deployment.apply(former)
        _publish(backend, stack)
    except Exception as error:  # noqa: BLE001 (the stack shows the reason)
        reason = reason_of(error)
        if keep and deployment.stay():
            _record(stack, f"{verb}_FAILED", reason)
            return
        made.canceled = False
        if verb == "UPDATE":
            made.rollback = partial(_roll_back_update, backend, stack, deployment, before, reason)
            made.rollback()
        else:
            _roll_back_creation(stack, deployment, reason)
        return
    if verb == "UPDATE":
        _record(stack, "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS")
        # As in CloudFormation, the update is complete even if an old resource could not be removed.
        deployment.clean_up()
    _record(stack, f"{verb}_COMPLETE")


def _roll_back_creation(stack: Stack, deployment: Deployment, reason: str) -> None:
    _record(stack, "ROLLBACK_IN_PROGRESS", reason)
    left = deployment.remove_created()
    if left:
        _record(stack, "ROLLBACK_FAILED", f"The following resource(s) failed to delete: [{', '.join(left)}].")
    else:
        _record(stack, "ROLLBACK_COMPLETE", reason)


def _roll_back_update(  # noqa: PLR0917 (an operation needs them all)
    backend: CloudFormationBackend,
    stack: Stack,
    deployment: Deployment,
    before: tuple[Any, Mapping[str, Any]],
    reason: str,
    skip: Collection[str] = (),
) -> None:
    """Update everything back, then delete what was created; stop if a resource cannot be updated back."""
    _record(stack, "UPDATE_ROLLBACK_IN_PROGRESS", reason)
    failed = deployment.revert(skip=skip)
    if failed:
        text = f"The following resource(s) failed to update: [{failed}]. {reason}"
        _record(stack, "UPDATE_ROLLBACK_FAILED", text)
        return
    _record(stack, "UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS", reason)
    deployment.remove_created()
    _read(backend, stack, *before)
    _record(stack, "UPDATE_ROLLBACK_COMPLETE", reason)


@patch.adds(CloudFormationResponse, "cancel_update_stack")
def _cancel_update_stack(self: CloudFormationResponse) -> ActionResult:
    stack: Any = self.cloudformation_backend.get_stack(self._get_param("StackName"))
    if str(stack.status) != "UPDATE_IN_PROGRESS":
        raise ValidationError(message="CancelUpdateStack cannot be called from current stack status")
    stack.canceled = True
    return EmptyResult()


@patch.adds(CloudFormationResponse, "continue_update_rollback")
def _continue_update_rollback(self: CloudFormationResponse) -> ActionResult:
    stack: Any = self.cloudformation_backend.get_stack(self._get_param("StackName"))
    if str(stack.status) != "UPDATE_ROLLBACK_FAILED":
        msg = f"Stack:{stack.stack_id} is in {stack.status} state and can not continue update rollback."
        raise ValidationError(message=msg)
    skipped = self._get_param("ResourcesToSkip") or []
    _operate(lambda _: stack.rollback(skip=skipped))
    return EmptyResult()


@patch.adds(CloudFormationResponse, "update_termination_protection")
def _update_termination_protection(self: CloudFormationResponse) -> ActionResult:
    stack: Any = self.cloudformation_backend.get_stack(self._get_param("StackName"))
    stack.enable_termination_protection = self._get_bool_param("EnableTerminationProtection")
    return ActionResult({"StackId": stack.stack_id})


def _read(backend: CloudFormationBackend, stack: Stack, template: Any, parameters: Mapping[str, Any]) -> None:
    stack.template = template
    stack.template_dict = stack.parse_template(template) if template else {}
    stack.description = stack.template_dict.get("Description")
    stack.parameters = dict(parameters)
    resources = resources_of(stack)
    resources.cross_stack_resources = backend.exports
    resources.read(stack.template_dict, parameters)


def _check(backend: CloudFormationBackend, name: str, template: Any, parameters: Mapping[str, Any]) -> None:
    """Refuse a template that can never be deployed, before its stack changes."""
    resources = StackResources(
        stack_id="",
        stack_name=name,
        parameters={},
        tags={},
        account_id=backend.account_id,
        region_name=backend.region_name,
        template={},
        cross_stack_resources=backend.exports,
    )
    try:
        declared = read(template)
        check(declared)
        resources.read(declared, parameters)
        conditions = resources.lazy_condition_map
        check_created(declared, {name: conditions[name] for name in conditions})
        types = {resource["Type"] for resource in resources.declared.values()}
    except ServiceException:
        raise
    except Exception as error:
        raise ValidationError(message=f"Template format error: {reason_of(error)}") from error
    unknown = sorted(name for name in types if not is_supported(name))
    if unknown:
        msg = f"Template format error: Unrecognized resource types: [{', '.join(unknown)}]. "
        raise ValidationError(message=f"{msg}This is the embedded AWS, which supports fewer types than AWS.")
    try:
        in_order(resources.declared, resources.declared)
    except CycleError as error:
        names = ", ".join(sorted(set(error.args[1])))
        raise ValidationError(message=f"Circular dependency between resources: [{names}]") from error


def _publish(backend: CloudFormationBackend, stack: Any) -> None:
    outputs = _resolved_outputs(stack)
    exports = {
        output["ExportName"]: Export(stack.stack_id, output["ExportName"], output["OutputValue"])
        for output in outputs
        if output["ExportName"]
    }
    for name, export in backend.exports.items():
        ours = export.exporting_stack_id == stack.stack_id
        if name in exports and not ours:
            msg = f"Export with name {name} is already exported by stack {export.exporting_stack_id}"
            raise DeploymentError(msg)
        changed = name not in exports or exports[name].value != export.value
        if ours and changed and (users := list(_importers(backend, name))):
            verb = "update" if name in exports else "delete"
            raise DeploymentError(f"Cannot {verb} export {name} as it is in use by {', '.join(users)}.")
    _withdraw(backend, stack)
    backend.exports.update(exports)
    stack.settled_outputs = outputs


def _resolved_outputs(stack: Stack) -> list[dict[str, Any]]:
    resources = resources_of(stack)
    return [
        {
            "OutputKey": key,
            "OutputValue": text(resources.resolve(output["Value"])),
            "Description": output.get("Description"),
            "ExportName": resources.resolve(output["Export"]["Name"]) if "Export" in output else None,
        }
        for key, output in stack.template_dict.get("Outputs", {}).items()
        if "Condition" not in output or resources.lazy_condition_map[output["Condition"]]
    ]


def _exported(backend: CloudFormationBackend, stack: Stack) -> list[str]:
    return [name for name, found in backend.exports.items() if found.exporting_stack_id == stack.stack_id]


def _withdraw(backend: CloudFormationBackend, stack: Stack) -> None:
    for name in _exported(backend, stack):
        del backend.exports[name]


def _importers(backend: CloudFormationBackend, export: str) -> Iterator[str]:
    for stack in backend.stacks.values():
        names = values_of("Fn::ImportValue", stack.template_dict)
        if export in (resources_of(stack).resolve(name) for name in names):
            yield stack.name


@patch.replaces(CloudFormationBackend, "create_stack")
def _create_stack(
    self: CloudFormationBackend, name: str, template: str, parameters: dict[str, Any], **options: Any
) -> Stack:
    if any(stack.name == name for stack in self.stacks.values()):
        raise AlreadyExistsException(f"Stack {name} already exists")
    _check(self, name, template, parameters)
    stack_id = generate_stack_id(name, self.region_name, self.account_id)
    make: Any = Stack
    stack: Stack = make(
        stack_id=stack_id,
        name=name,
        template={},
        parameters={},
        account_id=self.account_id,
        region_name=self.region_name,
        **options,
    )
    self.stacks[stack_id] = stack
    _operate(lambda answer: _deploy(self, stack, template, parameters, "CREATE", answer))
    return stack


@patch.replaces(CloudFormationBackend, "update_stack")
def _update_stack(  # noqa: PLR0917 (moto calls it so)
    self: CloudFormationBackend,
    name: str,
    template: str,
    role_arn: str | None,
    parameters: list[dict[str, Any]],
    tags: dict[str, str] | None,
) -> Stack:
    stack: Stack = self.get_stack(name)
    _refuse_busy(stack, "updated")
    previous = _given_parameters(stack)
    resolved = {
        each["ParameterKey"]: previous.get(each["ParameterKey"])
        if each.get("UsePreviousValue")
        else each["ParameterValue"]
        for each in parameters
    }
    changed = given_parameters(stack.template_dict.get("Parameters", {}), resolved) != previous
    if stack.has_template(template) and not changed and tags in (None, stack.tags):
        raise ValidationError(message="No updates are to be performed.")
    _check(self, name, template, resolved)
    stack.role_arn = role_arn
    stack.tags = stack.tags if tags is None else tags
    _operate(lambda answer: _deploy(self, stack, template, resolved, "UPDATE", answer))
    return stack


@patch.replaces(CloudFormationBackend, "delete_stack")
def _delete_stack(self: CloudFormationBackend, name_or_stack_id: str) -> None:
    found = [stack for stack in self.stacks.values() if name_or_stack_id in (stack.name, stack.stack_id)]
    for stack in found:
        if stack.enable_termination_protection:
            msg = f"Stack [{stack.name}] cannot be deleted while TerminationProtection is enabled"
            raise ValidationError(message=msg)
        for name in _exported(self, stack):
            if users := [user for user in _importers(self, name) if user != stack.name]:
                msg = f"Export {name} cannot be deleted as it is in use by {', '.join(users)}"
                raise ValidationError(message=msg)
        _refuse_busy(stack, "deleted")
        _operate(partial(_delete, self, stack))


def _delete(backend: CloudFormationBackend, stack: Stack, answer: Answer) -> None:
    _record(stack, "DELETE_IN_PROGRESS", "User Initiated")
    try:
        failures = _deployment(stack, answer).delete_all(stack.template_dict)
    except Exception as error:  # noqa: BLE001 (the stack shows the reason)
        failures = [reason_of(error)]
    if failures:
        _record(stack, "DELETE_FAILED", "; ".join(failures))
        return
    _withdraw(backend, stack)
    _record(stack, "DELETE_COMPLETE")
    del backend.stacks[stack.stack_id]
    backend.deleted_stacks[stack.stack_id] = stack


def _refuse_busy(stack: Stack, verb: str) -> None:
    """Refuse an operation while another one runs, and an update while a rollback has to be continued.

    CloudFormation would cancel a creation for a deletion.
    """
    status = str(stack.status)
    busy = status.endswith("_IN_PROGRESS") and not status.startswith("REVIEW_")
    if busy or (status == "UPDATE_ROLLBACK_FAILED" and verb == "updated"):
        raise ValidationError(message=f"Stack:{stack.stack_id} is in {status} state and can not be {verb}.")


def _given_parameters(self: Stack) -> dict[str, Any]:
    return given_parameters(self.template_dict.get("Parameters", {}), self.parameters)


def _shown_parameters(self: Stack) -> list[dict[str, str]]:
    declared, resolved = self.template_dict.get("Parameters", {}), resources_of(self).resolved_parameters
    shown = []
    for name, value in _given_parameters(self).items():
        hidden = text(declared[name].get("NoEcho", False)) == "true"
        shown.append({"ParameterKey": name, "ParameterValue": "****" if hidden else value})
        if value != resolved.get(name) and declared[name]["Type"].startswith("AWS::SSM::Parameter::Value"):
            found = resolved[name]
            shown[-1]["ResolvedValue"] = ",".join(found) if isinstance(found, list) else found
    return shown


def _find_change_set(backend: CloudFormationBackend, name: str, stack: str | None) -> ChangeSet | None:
    """Return the newest change set with a name or id, in a stack if one is given; None if there is none."""
    for change_set in reversed(backend.change_sets.values()):
        if change_set.change_set_id == name:
            return change_set
        if change_set.change_set_name == name and stack in (None, change_set.stack_name, change_set.stack_id):
            return change_set
    return None


_moto_create_change_set = CloudFormationBackend.create_change_set


@patch.replaces(CloudFormationBackend, "create_change_set")
def _create_change_set(
    self: CloudFormationBackend, stack_name: str, *, template: str, parameters: dict[str, str], **options: Any
) -> tuple[str, str]:
    _check(self, stack_name, template, parameters)
    return _moto_create_change_set(self, stack_name, template=template, parameters=parameters, **options)


@patch.replaces(CloudFormationResponse, "execute_change_set")
def _execute_change_set(self: CloudFormationResponse) -> ActionResult:
    backend, change_set = self.cloudformation_backend, _asked_change_set(self)
    keep = bool(self._get_bool_param("DisableRollback"))
    stack = backend.stacks[change_set.stack_id]
    _refuse_busy(stack, "updated")
    stack.tags = change_set.tags or stack.tags
    stack.role_arn = change_set.role_arn

    def execute(answer: Answer) -> None:
        change_set.execution_status = "EXECUTE_IN_PROGRESS"
        verb = change_set.change_set_type
        given = change_set.parameters
        _deploy(backend, stack, change_set.template, given, verb, answer, keep=keep)
        change_set.execution_status = "EXECUTE_COMPLETE"

    _operate(execute)
    return EmptyResult()


def _asked_change_set(self: CloudFormationResponse) -> ChangeSet:
    name = self._get_param("ChangeSetName")
    found = _find_change_set(self.cloudformation_backend, name, self._get_param("StackName"))
    if found is None:
        raise ChangeSetNotFoundError(name)
    return found


@patch.replaces(CloudFormationResponse, "describe_change_set")
def _describe_change_set(self: CloudFormationResponse) -> ActionResult:
    return ActionResult(_asked_change_set(self))


@patch.replaces(CloudFormationResponse, "delete_change_set")
def _delete_change_set(self: CloudFormationResponse) -> ActionResult:
    backend = self.cloudformation_backend
    found = _find_change_set(backend, self._get_param("ChangeSetName"), self._get_param("StackName"))
    if found is not None:
        del backend.change_sets[found.change_set_id]
    return EmptyResult()


@patch.replaces(CloudFormationResponse, "list_change_sets")
def _list_change_sets(self: CloudFormationResponse) -> ActionResult:
    backend = self.cloudformation_backend
    stack = backend.get_stack(self._get_param("StackName"))
    found = [each for each in backend.change_sets.values() if each.stack_id == stack.stack_id]
    return ActionResult({"Summaries": found})


@patch.replaces(CloudFormationResponse, "validate_template")
def _validate_template(self: CloudFormationResponse) -> ActionResult:
    url = self._get_param("TemplateURL")
    template = read(self._get_stack_from_s3_url(url) if url else self._get_param("TemplateBody"))
    check(template)
    parameters = [
        {
            "ParameterKey": name,
            "DefaultValue": text(parameter["Default"]) if "Default" in parameter else None,
            "NoEcho": text(parameter.get("NoEcho", False)) == "true",
            "Description": parameter.get("Description"),
        }
        for name, parameter in template.get("Parameters", {}).items()
    ]
    return ActionResult({"Description": template.get("Description"), "Parameters": parameters})


_moto_summary = moto.cloudformation.responses.get_template_summary_response_from_template


@patch.replaces(moto.cloudformation.responses, "get_template_summary_response_from_template")
def _summary(body: str) -> Mapping[str, Any]:
    return _moto_summary(json.dumps(read(body)))


patch.replace(moto.cloudformation.models, ResourceMap=StackResources)
patch.replace(moto.cloudformation.parsing, clean_json=evaluate)
patch.replace(
    Stack,
    # Those of the last completed operation: a deleted stack still shows them.
    outputs=property(lambda self: getattr(self, "settled_outputs", None) or None),
    parameter_list=property(_shown_parameters),
    parse_template=staticmethod(read),
    stack_parameters=property(_given_parameters),
)
