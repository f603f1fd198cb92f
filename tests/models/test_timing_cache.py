"""Measured times are kept from one build to the next, and never keep a build from ending well."""

from pathlib import Path

import pytest
from test_tensorrt import encoder

from tests.reported import reported
from tests.triton_models.publishing_aws import ENVIRONMENT, client, new_repository, small_aws
from triton_models.base.errors import FleetError
from triton_models.builds.build import build
from triton_models.builds.tensorrt import timing_cache
from triton_models.builds.tensorrt.timing_cache import TimingCache

NAME = "tensorrt-10.13.3.9-A10G.cache"


@pytest.fixture(autouse=True)
def said_anew():
    """Messages are said once in a process; each test begins a new one."""
    timing_cache._say.cache_clear()


@pytest.fixture
def compile_once(machine, declare, models, tmp_path):
    """Compile a plan with a timing cache; returns what trtexec found in its cache's file."""
    log = machine()
    declare("tiny", encoder())

    def compile_plan(where, **given):
        times = Path(f"{log}.times")
        times.unlink(missing_ok=True)
        build("tiny", output=tmp_path / "out", models=models, gpu="A10G", timing_cache=where, **given)
        return times.read_text() if times.exists() else ""

    return compile_plan


@pytest.fixture(scope="module")
def aws():
    with small_aws() as endpoint:
        yield endpoint


@pytest.fixture
def bucket(aws, monkeypatch):
    """The URL of a bucket that can be reached, and its client."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", aws)
    return new_repository(client(aws))


def test_what_one_build_measured_is_there_for_the_next(compile_once, tmp_path):
    folder = tmp_path / "cache"
    assert compile_once(str(folder)) == ""
    assert compile_once(str(folder)) == "measured\n"
    assert compile_once(str(folder)) == "measured\nmeasured\n"
    assert [path.name for path in folder.iterdir()] == [NAME]


def test_the_environment_names_the_place_as_well(compile_once, tmp_path, monkeypatch):
    monkeypatch.setenv("FLEET_TIMING_CACHE", str(tmp_path / "cache"))
    compile_once(None)
    assert (tmp_path / "cache" / NAME).is_file()


def test_times_of_another_gpu_or_tensorrt_are_left_aside(compile_once, tmp_path, capsys):
    folder = tmp_path / "cache"
    with TimingCache.at(str(folder)).used(tensorrt="10.13.3.9", gpu="L4") as file:
        file.write_bytes(b"times of an L4")
    (folder / "tensorrt-10.13.3.9-L4.cache").rename(folder / NAME)
    assert compile_once(str(folder)) == ""
    assert "ignored tensorrt-" in capsys.readouterr().err
    assert compile_once(str(folder)) == "measured\n"


@pytest.mark.parametrize(
    "damage", [lambda c: c[:-3], lambda c: b"", lambda c: b"\0" * 90, lambda c: c + b"x"]
)
def test_a_damaged_cache_is_left_aside_and_replaced(damage, compile_once, tmp_path):
    folder = tmp_path / "cache"
    compile_once(str(folder))
    (folder / NAME).write_bytes(damage((folder / NAME).read_bytes()))
    assert compile_once(str(folder)) == ""
    assert compile_once(str(folder)) == "measured\n"


def test_a_failed_compilation_keeps_nothing(machine, declare, models, tmp_path):
    machine(ending="exit 1")
    declare("tiny", encoder())
    with pytest.raises(FleetError):
        build(
            "tiny", output=tmp_path / "out", models=models, gpu="A10G", timing_cache=str(tmp_path / "cache")
        )
    assert not (tmp_path / "cache").exists()


def test_the_times_of_s3_are_fetched_and_kept(compile_once, bucket):
    where = f"{bucket}times/"
    assert compile_once(where) == ""
    assert compile_once(where) == "measured\n"


def test_a_bucket_that_refuses_costs_time_and_not_the_build(compile_once, aws, bucket, capsys):
    assert compile_once("s3://no-such-bucket-anywhere/times/") == ""
    said = capsys.readouterr().err
    assert f"cannot read {NAME}" in said
    assert "NoSuchBucket" in said


def test_a_folder_that_cannot_be_written_to_costs_time_and_not_the_build(compile_once, tmp_path, capsys):
    (tmp_path / "cache").write_text("a file")
    compile_once(str(tmp_path / "cache"))
    assert "cannot save" in capsys.readouterr().err


@pytest.mark.parametrize("where", ["s3://", "s3://Bad_Bucket/x", "https://example.com/x", "s3:///x"])
def test_an_address_that_is_none_is_reported_before_anything_is_built(where, tiny):
    with reported("timing-cache"):
        tiny("1 / 0", gpu="A10G", timing_cache=where)
