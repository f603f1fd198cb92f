"""Checks of forests of decision trees, for the FIL backend.

They follow src/model.h, src/shared_state.h and src/serialization.h of fil_backend at r24.03 to r26.06, and
get_config_param of rapids-triton, read 2026-11-24. The files that Treelite refuses were tried with Treelite
4.0.0 to 4.7.0 and XGBoost 1.7 to 3.2 on the same day.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from triton_models.base.errors import Problem
from triton_models.base.suggest import did_you_mean
from triton_models.check.subject import ArtifactCheck, Model, Subject, type_name
from triton_models.config.pbtxt import ModelConfig

_SOURCE = "2026-11-24: fil_backend r24.03 to r26.06 and rapids-triton; Treelite 4.0.0 to 4.7.0"

# The formats, with the files that the backend opens by default.
_FILES = {
    "xgboost": "xgboost.model",
    "xgboost_json": "xgboost.json",
    "xgboost_ubj": "xgboost.ubj",
    "lightgbm": "model.txt",
    "treelite_checkpoint": "checkpoint.tl",
}
_DEFAULT = "xgboost"
_SWITCHES = ("predict_proba", "is_classifier", "output_class", "xgboost_allow_unknown_field")
_CLASSIFIER_SINCE = "25.09"
_TENSORS = ("input__0", "output__0")

# XGBoost 3.1 and newer write it within the first bytes, after the names of the features. Treelite knows it
# since 4.6, and UBJSON since 4.3.
_CATEGORIES = b"cats"
_BEGINNING = 1 << 20
_FIRST_WITH_CATEGORIES = (4, 6)
_FIRST_WITH_UBJSON = (4, 3)


def fil_parameter(subject: Subject) -> Iterator[Problem]:
    """Check that the parameters of a forest are there and valid."""
    for model, config in _forests(subject):
        given = {name: entry.string_value for name, entry in config.parameters.items()}
        kind = given.get("model_type", _DEFAULT)
        if kind not in _FILES:
            fix = did_you_mean(kind, _FILES, otherwise="write one of them")
            yield subject.refuse(
                model,
                "parameters: model_type",
                f"model_type is {kind!r}",
                expected=f"one of {', '.join(_FILES)}",
                fix=fix,
            )
        for name in _SWITCHES:
            if given.get(name, "true") not in {"true", "false"}:
                yield subject.refuse(
                    model,
                    f"parameters: {name}",
                    f"{name} is {given[name]!r}",
                    expected="true or false, in lower case",
                    fix="write true or false",
                )
        yield from _classifier(subject, model, given)


def fil_tensor(subject: Subject) -> Iterator[Problem]:
    """Check that a forest has the input and the output that the backend asks for."""
    for model, config in _forests(subject):
        for part, name, tensors in zip(
            ("input", "output"), _TENSORS, (config.input, config.output), strict=True
        ):
            found = next((each for each in tensors if each.name == name), None)
            kind = "" if found is None else type_name(found.data_type)
            if kind != "TYPE_FP32":
                yield subject.refuse(
                    model,
                    part,
                    f"there is no {part} {name!r}" if found is None else f"{part} {name!r} is {kind}",
                    expected=f"the {part} {name!r} of TYPE_FP32",
                    why="every request fails: the names and the types are fixed",
                    fix=f'write {part} [ {{ name: "{name}" data_type: TYPE_FP32 dims: [ ... ] }} ]',
                )


def fil_xgboost(subject: Subject) -> Iterator[Problem]:
    """Check that the release's Treelite knows the format of a file of XGBoost."""
    release = subject.target.release
    if release is None:
        return
    for model, config in _forests(subject):
        kind = config.parameters["model_type"].string_value if "model_type" in config.parameters else _DEFAULT
        if kind not in {"xgboost_json", "xgboost_ubj"}:
            continue
        if kind == "xgboost_ubj" and release.treelite < _FIRST_WITH_UBJSON:
            yield _unknown(
                subject, model, f"a file in UBJSON, for release {release.name}", "release 24.09 or newer"
            )
        for version in model.versions:
            path = posixpath.join(model.path, str(version), config.default_model_filename or _FILES[kind])
            begin = subject.layout.beginning(path, _BEGINNING) if path in subject.layout.files else None
            if begin and _CATEGORIES in begin and release.treelite < _FIRST_WITH_CATEGORIES:
                place = subject.layout.place(path)
                what = f"{place} was written by XGBoost 3.1 or newer, for release {release.name}"
                yield _unknown(
                    subject, model, what, "a file of XGBoost before 3.1, or release 26.01 or newer"
                )


def _forests(subject: Subject) -> Iterator[tuple[Model, ModelConfig]]:
    return ((model, config) for model, config in subject.served() if model.backend.name == "fil")


def _classifier(subject: Subject, model: Model, given: dict[str, str]) -> Iterator[Problem]:
    """Yield the problems of the parameters without which the backend refuses a model."""
    release = subject.target.release
    name = "is_classifier" if release is None or release.name >= _CLASSIFIER_SINCE else "output_class"
    known = [each for each in ("output_class", name) if each in given]
    if not known:
        yield _missing(subject, model, name, "true for a classifier, otherwise false")
    elif given[known[0]] == "true" and not _is_number(given.get("threshold", "")):
        yield _missing(subject, model, "threshold", "a number, such as 0.5, for a classifier")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _missing(subject: Subject, model: Model, name: str, expected: str) -> Problem:
    return subject.refuse(
        model,
        "parameters",
        f"there is no valid {name}",
        expected=expected,
        why=f"the backend refuses the model: Required parameter {name} not found in config",
        fix=f'add parameters {{ key: "{name}" value: {{ string_value: "..." }} }}',
    )


def _unknown(subject: Subject, model: Model, what: str, expected: str) -> Problem:
    return subject.refuse(
        model,
        "parameters: model_type",
        what,
        expected=expected,
        why="its Treelite does not know the format, so the model does not load",
        fix="declare it as a Forest, which is built as a checkpoint that every release from 24.03 on reads",
    )


CHECKS = (
    ArtifactCheck(id="fil-parameter", source=_SOURCE, find=fil_parameter),
    ArtifactCheck(id="fil-tensor", source=_SOURCE, find=fil_tensor),
    ArtifactCheck(id="fil-xgboost", source=_SOURCE, find=fil_xgboost),
)
