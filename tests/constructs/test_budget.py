from __future__ import annotations

import pytest
from aws_cdk import Stack
from synthesised import Resources

from triton_fleet import FleetError, MonthlyBudget


def test_an_address_gets_the_warnings(stack: Stack, resources: Resources) -> None:
    MonthlyBudget(stack, "Budget", fleet="search", limit_usd=500, email="ml@example.com")
    [budget] = resources("AWS::Budgets::Budget")

    assert budget["Budget"]["BudgetLimit"] == {"Amount": 500, "Unit": "USD"}
    assert {str(each["Subscribers"]) for each in budget["NotificationsWithSubscribers"]} == {
        str([{"Address": "ml@example.com", "SubscriptionType": "EMAIL"}])
    }
    warnings = [each["Notification"] for each in budget["NotificationsWithSubscribers"]]
    assert [(each["Threshold"], each["NotificationType"]) for each in warnings] == [
        (80, "ACTUAL"),
        (100, "ACTUAL"),
        (100, "FORECASTED"),
    ]


def test_all_that_is_wrong_with_a_budget_is_named(stack: Stack) -> None:
    with pytest.raises(FleetError) as refused:
        MonthlyBudget(stack, "Budget", fleet="search", limit_usd=0)

    assert {each.rule for each in refused.value.problems} == {"monthly-limit", "budget-destination"}
