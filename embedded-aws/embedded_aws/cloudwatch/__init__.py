"""CloudWatch's metrics: samples become statistics, metric math and alarm states."""
