"""The quick reader of config.pbtxt reads a text as protobuf's own does, or leaves it to that one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.triton_models.config_strategies import messages, valid_folders
from triton_models.base.errors import FleetError
from triton_models.config.pbtxt import ModelConfig, parse_config, to_text
from triton_models.config.usual_text import read_usual

BY_HAND = """
# made by hand
name: 'net', backend: "python"
max_batch_size: 8
input [ { name: "a" data_type: TYPE_FP32 dims: [ -1, 3 ] }, { name: "b", data_type: TYPE_INT8, dims: 4 } ]
output { name: "c" data_type: TYPE_STRING dims: [1] } # the last
parameters: { key: "k" value: { string_value: "v # no comment" } }
sequence_batching { direct { minimum_slot_utilization: 0.5 } }
cc_model_filenames [ { key: "7.5" value: "t4.plan" }, { key: "8.6" value: "a10g.plan" } ]
response_cache { enable: false }
"""


def _protobufs(text: str) -> ModelConfig | None:
    try:
        return parse_config(text, where="")
    except FleetError:
        return None


@given(message=messages())
def test_what_it_reads_is_what_was_written(message: ModelConfig) -> None:
    assert read_usual(to_text(message)) in (message, None)


@given(folder=valid_folders(name="net", backend="python"))
def test_it_reads_every_usual_configuration(folder) -> None:
    if folder.config.parameters["key"].string_value == "é":
        folder.config.parameters.clear()  # written with an escape

    assert read_usual(to_text(folder.config)) == folder.config


def test_it_reads_what_people_write_by_hand() -> None:
    assert read_usual(BY_HAND) == _protobufs(BY_HAND)
    assert read_usual(BY_HAND) is not None


CHARACTERS = st.sampled_from(list("{}[]:,;#<>\"'\\\n\t -.01ex_aé\0\xa0\u0661"))


@given(data=st.data())
def test_a_damaged_text_is_never_read_in_another_way(data: st.DataObject) -> None:
    text = BY_HAND
    for _ in range(data.draw(st.integers(1, 3))):
        at, cut = data.draw(st.integers(0, len(text))), data.draw(st.integers(0, 3))
        text = text[:at] + data.draw(st.text(CHARACTERS, max_size=3)) + text[at + cut :]

    read = read_usual(text)

    assert read is None or read == _protobufs(text)


@pytest.mark.parametrize(
    "text",
    [
        'name: "a" name: "b"',
        "dynamic_batching { } sequence_batching { }",
        "max_batch_size: 010",
        "max_batch_size: 4294967296",
        "max_batch_size: \u0661",
        "max_batch_size: 4\xa0",
        "input { # }",
        "input { # }\n",
        "max_batch_size: 4 # \n }",
        "instance_group [ { }, ]",
        "response_cache [ { } ]",
        'name: "a" "b"',
        'name: "a\\n"',
        'name: "',
        "max_batch_size: 8input { }",
        "max_batch_size: 8_0",
        "max_batch_size: 8\n;",
    ],
)
def test_what_is_unusual_is_left_to_protobufs_reader(text: str) -> None:
    assert read_usual(text) is None
