from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import triton_models
import triton_models.cli.main as cli
from triton_models.cli.main import VERBS, main

SOURCE = Path(triton_models.__file__).parents[1]
HEAVY = {"torch", "onnx", "boto3", "botocore", "google", "numpy", "rich", "tritonclient", "triton_rehearsal"}


def _python(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python where only model_builds/ is, as in the build job."""
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=SOURCE,
        env={"PYTHONPATH": str(SOURCE), "PATH": os.environ["PATH"]},
    )


def test_help_lists_every_verb_and_imports_nothing_heavy() -> None:
    code = (
        "import runpy, sys\n"
        "sys.argv = ['fleet', '--help']\n"
        "try: runpy.run_module('triton_models', run_name='__main__')\n"
        "except SystemExit: pass\n"
        "print('|'.join(sys.modules))\n"
    )

    *shown, modules = _python("-c", code).stdout.splitlines()

    assert shown[0].startswith("usage: fleet")
    assert all(any(line.strip().startswith(verb) for line in shown) for verb in VERBS)
    assert {name.partition(".")[0] for name in modules.split("|")} & HEAVY == set()


def test_the_help_of_every_verb_needs_no_package() -> None:
    code = (
        "import sys\n"
        f"sys.path += {[str(SOURCE.parent / name) for name in ('rehearsal', 'reporting')]}\n"
        "from triton_models.cli.main import VERBS, main\n"
        "for verb in VERBS:\n"
        "    try: main([verb, '--help'])\n"
        "    except SystemExit: pass\n"
    )

    shown = _python("-S", "-c", code)  # without site-packages

    assert shown.stderr == ""
    assert shown.stdout.count("usage: fleet ") == len(VERBS)


@pytest.mark.parametrize(("given", "meant"), [("chek", "check"), ("publsh", "publish"), ("Pack", "pack")])
def test_an_unknown_verb_is_answered_with_a_close_one(given: str, meant: str, capsys) -> None:
    with pytest.raises(SystemExit) as caught:
        main([given])

    assert caught.value.code == 2
    assert f"did you mean {meant}?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ([], "usage: fleet"),
        (["pack", "x"], "usage: fleet pack "),
        (["init", "folder", "--name", "X", "minilm"], "usage: fleet init "),
        (["build", "x", "--frobnicate"], "usage: fleet build "),
        *(
            ([*verb.split(), given], f"argument {verb.split()[-1]}: {given!r}: expected")
            for verb, given in (
                ("compare resnet50 --requests", "0"),
                ("compare resnet50 --cold-starts", "1.5"),
                ("diff --models-per-build", "many"),
                ("pack build/resnet50 -o dist --copies", "-1"),
                ("build minilm --compile-timeout", "nan"),
                ("build minilm --compile-timeout", "soon"),
                ("deliver minilm --model-timeout", "inf"),
                ("deliver minilm --model-timeout", "0"),
            )
        ),
    ],
    ids=str,
)
def test_wrong_usage_exits_with_2_and_shows_what_is_wrong(arguments: list[str], shown: str, capsys) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)

    assert caught.value.code == 2
    assert shown in capsys.readouterr().err


def test_a_users_mistake_is_an_error_without_a_traceback_and_a_document_on_request(
    tmp_path: Path, capsys
) -> None:
    command = ["pack", str(tmp_path / "nothing"), "-o", str(tmp_path / "out")]

    assert main(command) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"error: the file or directory '{tmp_path / 'nothing'}'")
    assert "Traceback" not in printed.err

    assert main([*command, "--json"]) == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out)["error"][0]["rule"] == "unreadable"
    assert printed.err == ""


def test_control_characters_of_what_was_given_do_not_reach_the_terminal(tmp_path: Path, capsys) -> None:
    assert main(["check", str(tmp_path / "\x1b]0;owned\x07\x9b\u202e")]) == 1

    printed = "".join(capsys.readouterr())
    assert "owned" in printed
    assert not set(printed) & set("\x1b\x07\x9b\u202e")


@pytest.fixture
def no_account(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment without an account; what a verb sets in it is removed again."""
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def test_profile_and_region_reach_the_sdk_and_outrank_the_environment(
    no_account: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "someone")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setattr(cli, "_run", lambda _: _Done())

    assert main(["history"]) == 0
    assert os.environ["AWS_DEFAULT_REGION"] == "us-east-1"  # boto3 does not read what the CDK reads

    assert main(["history", "--profile", "mine", "--region", "eu-west-1"]) == 0
    assert (os.environ["AWS_PROFILE"], os.environ["AWS_DEFAULT_REGION"]) == ("mine", "eu-west-1")
    assert "AWS_ACCESS_KEY_ID" not in os.environ


class _Done:
    exit_code = 0

    def as_dict(self) -> dict[str, object]:
        return {}

    def lines(self) -> list[str]:
        return []


def test_an_interrupt_exits_with_130_and_a_bug_is_not_dressed_up_as_a_users_mistake(
    monkeypatch, capsys
) -> None:
    ends = iter([KeyboardInterrupt(), ValueError("a bug")])

    def function(_: object) -> _Done:
        raise next(ends)

    monkeypatch.setattr(cli, "_run", function)

    assert main(["check", "x"]) == 130
    assert capsys.readouterr().err == ""
    with pytest.raises(ValueError, match="a bug"):
        main(["check", "x"])


def test_a_reader_that_leaves_early_is_no_traceback(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "triton_models", "check", *[str(tmp_path / "nothing")] * 20000]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"PYTHONPATH": str(SOURCE), "PATH": os.environ["PATH"]},
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()

    assert said == b""
    assert process.returncode == 141


def test_a_verb_that_the_build_job_lacks_says_so() -> None:
    run = _python("-S", "-m", "triton_models", "rehearse")  # without site-packages there is no rehearsal

    assert run.returncode == 1
    assert run.stderr.startswith("error: the package 'triton_rehearsal' is not installed")
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize(("verb", "missing"), [("rehearse", "numpy"), ("build", "google.protobuf")])
def test_an_extra_that_includes_the_others_is_named_at_once(
    verb: str, missing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def load(_: str) -> None:
        raise ModuleNotFoundError(name=missing)

    monkeypatch.setattr(importlib, "import_module", load)
    assert main([verb] + ["net"] * (verb == "build")) == 1
    assert f"pip install 'triton-fleet[{verb}]'" in capsys.readouterr().err


def test_a_wrong_aws_configuration_is_a_users_mistake_and_a_missing_module_of_ours_a_bug(
    no_account: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config").write_text("[default]\nregion =\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    assert main(["history", "--repository", "s3://bucket/models/"]) == 1
    assert "error: the AWS configuration is invalid" in capsys.readouterr().err

    monkeypatch.setitem(sys.modules, "triton_models.check.check", None)
    with pytest.raises(ModuleNotFoundError):
        main(["check", "x"])


@pytest.mark.parametrize(("given", "then"), [(None, "1"), ("0", "0")])
def test_a_command_runs_models_without_telemetry_unless_the_user_wants_it(
    given: str | None, then: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORT_DISABLE_TELEMETRY", given or "")
    if given is None:
        monkeypatch.delenv("ORT_DISABLE_TELEMETRY")

    main(["check", "absent"])

    assert os.environ["ORT_DISABLE_TELEMETRY"] == then
