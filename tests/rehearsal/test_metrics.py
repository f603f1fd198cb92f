"""Hosting's events arrive in CloudWatch in SageMaker's form."""

import threading

import pytest

from aws_for_tests.fixture import Clock, clock_is
from tests.rehearsal.aws_for_hosting import moto_aws
from tests.rehearsal.served_models import python_model, tarball
from triton_rehearsal.hosting.metrics import METRICS, Invocation, Load, MetricsPublisher, Source
from triton_rehearsal.hosting.service import Hosting

SOURCE = Source(endpoint="prices", variant="AllTraffic")
ANSWERED = {"status": 200, "instances": 2, "model_s": 0.004, "overhead_s": 0.001, "cache_hit": True}


@pytest.fixture(scope="module")
def aws():
    with moto_aws() as aws:
        yield aws


def statistics(aws, endpoint, name):
    """Return a metric's SampleCount, Sum and unit; None without data."""
    found = aws.statistics(endpoint, name, namespace=METRICS[name].namespace)
    return (found["SampleCount"], found["Sum"], found["Unit"]) if found else None


def test_an_answered_request_counts_once_and_shares_its_count_among_the_instances():
    samples = Invocation(**ANSWERED).samples()
    assert samples == {
        "Invocations": 1.0,
        "InvocationsPerInstance": 0.5,
        "Invocation4XXErrors": 0.0,
        "Invocation5XXErrors": 0.0,
        "InvocationModelErrors": 0.0,
        "ModelCacheHit": 1.0,
        "ModelLatency": 4000.0,
        "OverheadLatency": 1000.0,
    }


@pytest.mark.parametrize(
    ("given", "changed"),
    [
        (
            {"cache_hit": False, "loading_wait_s": 1.5},
            {"ModelCacheHit": 0.0, "ModelLoadingWaitTime": 1500000.0},
        ),
        ({"status": 400}, {"Invocation4XXErrors": 1.0, "InvocationModelErrors": 1.0}),
        ({"status": 507}, {"Invocation5XXErrors": 1.0, "InvocationModelErrors": 1.0}),
        ({"status": 0}, {"InvocationModelErrors": 1.0}),
        ({"model_s": None}, {"ModelLatency": None, "OverheadLatency": None}),
    ],
    ids=["a wait for the model", "a client's error", "a server's error", "no answer", "no load"],
)
def test_a_request_changes_the_metrics_of_its_kind(given, changed):
    samples = {**Invocation(**ANSWERED).samples(), **changed}
    wanted = {name: value for name, value in samples.items() if value is not None}
    assert Invocation(**{**ANSWERED, **given}).samples() == wanted


def test_the_usage_of_every_minute_is_reported_early_in_it():
    fast = Clock(speed=60.0, began=0.0)
    reported, twice = [], threading.Event()

    def usage():
        reported.append(fast.time())
        if len(reported) == 2:
            twice.set()
        return []

    with clock_is(fast):
        publisher = MetricsPublisher(Broken(), usage=usage)
        assert twice.wait(60.0)
        publisher.close()
    assert 15 <= reported[0] < 60
    assert 75 <= reported[1] < 120


class Recording:
    """A CloudWatch that keeps what it gets."""

    def __init__(self):
        self.sent = []

    def put_metric_data(self, MetricData, **_):  # noqa: N803
        self.sent.extend(MetricData)


def data_of(events):
    """Return the metric data of invocations, one for each of the changes."""
    cloudwatch = Recording()
    publisher = MetricsPublisher(cloudwatch, usage=list)
    for changes in events:
        publisher.add(SOURCE, Invocation(**{**ANSWERED, **changes}))
    publisher.close()
    return cloudwatch.sent


def test_the_requests_of_a_second_are_one_datum_per_metric_however_many():
    sent = data_of([{}] * 1000)
    seconds = {each["Timestamp"] for each in sent}
    assert len(sent) <= len(seconds) * 2 * len(Invocation(**ANSWERED).samples())
    assert sum(sum(each["Counts"]) for each in sent if each["MetricName"] == "Invocations") == 1000


def test_the_times_of_a_second_keep_their_number_sum_and_extremes_in_a_datum_of_150_values():
    sent = data_of({"model_s": number / 1e6} for number in range(1, 2001))
    latencies = [each for each in sent if each["MetricName"] == "ModelLatency"]
    values = [value for each in latencies for value in each["Values"]]
    assert all(len(each["Values"]) <= 150 for each in latencies)
    assert (min(values), max(values)) == (1.0, 2000.0)
    assert sum(sum(each["Counts"]) for each in latencies) == 2000
    total = sum(v * n for each in latencies for v, n in zip(each["Values"], each["Counts"], strict=True))
    assert total == pytest.approx(2000 * 2001 / 2)


class Broken:
    """A CloudWatch that does not answer."""

    def put_metric_data(self, **_):
        raise ConnectionError


def test_a_lost_metric_does_not_stop_the_next(caplog):
    publisher = MetricsPublisher(Broken(), usage=list)
    publisher.add(SOURCE, Load(target="m", seconds=1.0))
    publisher.flush()
    publisher.add(SOURCE, Load(target="m", seconds=1.0))
    publisher.flush()
    publisher.close()
    assert len(caplog.records) == 2


def test_a_served_endpoint_reports_every_metric_but_unloading(aws, tmp_path):
    bucket = aws.bucket()
    endpoint = aws.endpoint(aws.endpoint_config(bucket, instances=2))
    aws.upload(bucket, "models/m.tar.gz", tarball(python_model()))
    body = b'{"inputs":[{"name":"X","shape":[1,1],"datatype":"FP32","data":[1]}]}'
    with Hosting(aws, directory=tmp_path) as hosting:
        hosting.start(endpoint)  # both instances count from the first request on
        runtime = aws.client("sagemaker-runtime", url=hosting.url)
        for _ in range(2):
            runtime.invoke_endpoint(EndpointName=endpoint, TargetModel="m.tar.gz", Body=body)
        hosting.flush_metrics()
        found = {name for name in METRICS if statistics(aws, endpoint, name)}
    assert found == set(METRICS) - {"ModelUnloadingTime"}
    assert statistics(aws, endpoint, "ModelLatency")[::2] == (2, "Microseconds")
    assert statistics(aws, endpoint, "ModelCacheHit") == (2, 1.0, "None")
    assert statistics(aws, endpoint, "InvocationsPerInstance")[1] == 1.0
    assert statistics(aws, endpoint, "LoadedModelCount")[1] == 1.0
    assert statistics(aws, endpoint, "MemoryUtilization")[1] > 0
