"""The budget of a fleet: a warning before the month costs more than planned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from aws_cdk import aws_budgets as budgets
from aws_cdk import aws_sns as sns
from constructs import Construct

from triton_fleet.operations.checks import budget_destination, email_address, monthly_limit
from triton_fleet.operations.scaling.alias import FLEET_TAG
from triton_fleet.parts.arguments.tokens import known
from triton_fleet.parts.arguments.typed import typed
from triton_models.base.checks import Report

# Percent of the limit, and whether it is spent or forecast.
_WARNINGS = ((80, "ACTUAL"), (100, "ACTUAL"), (100, "FORECASTED"))


@typed
class MonthlyBudget(Construct):
    """A budget for the instances of a fleet, in USD per month.

    It warns at 80 % and at 100 % of the limit, and when the forecast is above it. It stops nothing.

    AWS counts by the tag `triton-fleet:fleet` of the endpoints, from the day on which you activate it as a
    cost allocation tag in the console of Billing. Builds and the bucket do not have the tag.

    Attributes:
        budget: The budget.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        fleet: str,
        limit_usd: float,
        topic: sns.ITopic | None = None,
        email: str | None = None,
    ) -> None:
        """Create the budget.

        Args:
            scope: The parent construct.
            construct_id: The construct's id.
            fleet: The name of the fleet, which its endpoints are tagged with.
            limit_usd: The limit per month, in USD.
            topic: The topic that gets the warnings. Its policy must allow budgets.amazonaws.com to publish,
                and so must the policy of its key.
            email: An address that gets the warnings.

        Raises:
            FleetError: No topic and no address, no valid address, or no limit above 0.
        """
        super().__init__(scope, construct_id)
        report = Report(self.node.path)
        monthly_limit(report.at("limit_usd"), known(limit_usd))
        budget_destination(report.at("topic"), given=topic is not None or email is not None)
        email_address(report.at("email"), email and known(email))
        report.raise_if_any()
        subscribers = list(_subscribers(topic, email))
        self.budget = budgets.CfnBudget(
            self,
            "Resource",
            budget=budgets.CfnBudget.BudgetDataProperty(
                budget_type="COST",
                time_unit="MONTHLY",
                budget_limit=budgets.CfnBudget.SpendProperty(amount=limit_usd, unit="USD"),
                cost_filters={"TagKeyValue": [f"user:{FLEET_TAG}${fleet}"]},
            ),
            notifications_with_subscribers=_warnings(subscribers),
        )


def _subscribers(
    topic: sns.ITopic | None, email: str | None
) -> Iterator[budgets.CfnBudget.SubscriberProperty]:
    if topic is not None:
        yield budgets.CfnBudget.SubscriberProperty(subscription_type="SNS", address=topic.topic_arn)
    if email is not None:
        yield budgets.CfnBudget.SubscriberProperty(subscription_type="EMAIL", address=email)


def _warnings(
    subscribers: Sequence[budgets.CfnBudget.SubscriberProperty],
) -> list[budgets.CfnBudget.NotificationWithSubscribersProperty]:
    return [
        budgets.CfnBudget.NotificationWithSubscribersProperty(
            notification=budgets.CfnBudget.NotificationProperty(
                comparison_operator="GREATER_THAN",
                notification_type=kind,
                threshold=percent,
                threshold_type="PERCENTAGE",
            ),
            subscribers=list(subscribers),
        )
        for percent, kind in _WARNINGS
    ]
