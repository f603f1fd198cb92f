"""The budget of a fleet: a warning before the month costs more than planned."""

from __future__ import annotations

from aws_cdk import aws_budgets as budgets
from aws_cdk import aws_sns as sns
from constructs import Construct

from triton_fleet.operations.notifications import email_address
from triton_fleet.operations.scaling.alias import FLEET_TAG
from triton_fleet.parts.arguments.tokens import known
from triton_fleet.parts.arguments.typed import typed
from triton_models.base.checks import FROM_ARGUMENTS, Check, Report

MONTHLY_LIMIT = Check(id="monthly-limit", source=FROM_ARGUMENTS)
BUDGET_DESTINATION = Check(id="budget-destination", source=FROM_ARGUMENTS)

_Budget = budgets.CfnBudget
# Percent of the limit, and whether it is spent or forecast.
_WARNINGS = ((80, "ACTUAL"), (100, "ACTUAL"), (100, "FORECASTED"))


@typed
class MonthlyBudget(Construct):
    """A budget for the instances of a fleet, in USD per month.

    It warns at 80 % and at 100 % of the limit, and when the forecast is above it. It stops nothing.

    AWS counts by the tag `triton-fleet:fleet` of the endpoints, from the day on which you activate it as a
    cost allocation tag in the console of Billing. Builds and the bucket do not have the tag.
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
            fleet: The name of the fleet, which its endpoints are tagged with.
            limit_usd: The limit per month, in USD.
            topic: The topic that gets the warnings. Its policy must allow budgets.amazonaws.com to publish,
                and so must the policy of its key.
            email: An address that gets the warnings.
        """
        super().__init__(scope, construct_id)
        report = Report(self.node.path)
        monthly_limit(report.at("limit_usd"), known(limit_usd))
        if topic is None and email is None:
            report.at("topic")(
                BUDGET_DESTINATION,
                "a budget without a topic and without an address",
                fix="give alarm_email or alarm_topic, or remove the budget",
                why="no one would get its warnings",
            )
        email_address(report.at("email"), email and known(email))
        report.raise_if_any()
        subscribers = [
            _Budget.SubscriberProperty(subscription_type=kind, address=address)
            for kind, address in (("SNS", topic.topic_arn if topic else None), ("EMAIL", email))
            if address is not None
        ]
        self.budget = _Budget(
            self,
            "Resource",
            budget=_Budget.BudgetDataProperty(
                budget_type="COST",
                time_unit="MONTHLY",
                budget_limit=_Budget.SpendProperty(amount=limit_usd, unit="USD"),
                cost_filters={"TagKeyValue": [f"user:{FLEET_TAG}${fleet}"]},
            ),
            notifications_with_subscribers=[
                _Budget.NotificationWithSubscribersProperty(
                    notification=_Budget.NotificationProperty(
                        comparison_operator="GREATER_THAN",
                        notification_type=kind,
                        threshold=percent,
                        threshold_type="PERCENTAGE",
                    ),
                    subscribers=subscribers,
                )
                for percent, kind in _WARNINGS
            ],
        )


def monthly_limit(report: Report, usd: float | None) -> None:
    """Report problems with the limit of a budget; None is no limit, or none known yet."""
    if usd is None or usd > 0:
        return
    report(
        MONTHLY_LIMIT,
        f"the limit is {usd:g}",
        fix="give what the fleet may cost per month in USD, a number above 0, or omit it",
        why="AWS refuses the budget",
    )
