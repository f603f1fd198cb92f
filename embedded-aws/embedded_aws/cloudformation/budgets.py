"""AWS::Budgets::Budget."""

# ruff: noqa: ARG002 (a type's verbs all take the same arguments, whether or not it needs them)

from __future__ import annotations

from embedded_aws.cloudformation.request import api_request
from embedded_aws.cloudformation.resource import Call, Identity, Properties, PutType

_NAME_LIMIT = 100


class Budget(PutType):
    """A budget with its notifications. Its id is its name."""

    name = "AWS::Budgets::Budget"

    def put(self, call: Call, physical_id: str | None, properties: Properties) -> Identity:
        """Create the budget; moto has no call that changes one, so the old one is replaced."""
        client = call.client("budgets")
        name = physical_id or properties["Budget"].get("BudgetName") or call.unique_name(limit=_NAME_LIMIT)
        request = {**properties, "Budget": {**properties["Budget"], "BudgetName": name}}
        if physical_id is not None:
            client.delete_budget(AccountId=call.account, BudgetName=physical_id)
        client.create_budget(AccountId=call.account, **api_request(client, "CreateBudget", request))
        return Identity(physical_id=name)

    def delete(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Delete the budget."""
        call.client("budgets").delete_budget(AccountId=call.account, BudgetName=identity.physical_id)

    def confirm(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Read the budget."""
        call.client("budgets").describe_budget(AccountId=call.account, BudgetName=identity.physical_id)
