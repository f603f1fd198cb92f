"""Removal of private data of an account or a machine from a transcript."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from triton_models.facts.releases import IMAGE_ACCOUNTS

# The accounts of AWS's own registries are public, and show which image was pulled.
_PUBLIC_ACCOUNTS = frozenset(IMAGE_ACCOUNTS.values())
_ARN = re.compile(r"\barn:(aws[a-z-]*):([a-z0-9-]+):[^\s\"',)\]}]*")
_ACCOUNT = re.compile(r"(?<![\dA-Za-z])\d{12}(?![\dA-Za-z])")
_ACCESS_KEY = re.compile(r"\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}\b")
_UUID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
# Four numbers alone are more often a version of TensorRT than an address.
_ADDRESS = re.compile(
    r"\bip(?:-\d{1,3}){4}\b|(?<=//)\d{1,3}(?:\.\d{1,3}){3}\b|\b\d{1,3}(?:\.\d{1,3}){3}(?=:\d)"
)
_OWN_ADDRESS = "127.0.0.1"
_HOME = re.compile(r"/(?:home|Users)/[^/\s\"']+")


def scrub(value: Any, names: Mapping[str, str] | None = None) -> Any:
    """Remove account ids, ARNs, access keys, request ids, addresses and home folders from a JSON-ready value.

    Args:
        value: Any JSON-ready value; keys of objects are scrubbed as well.
        names: Private names, such as a bucket's, with their placeholders, such as "<bucket>". Empty names are
            ignored.
    """
    if isinstance(value, str):
        return _scrub_text(value, names or {})
    if isinstance(value, Mapping):
        return {scrub(str(key), names): scrub(each, names) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [scrub(each, names) for each in value]
    return value


def _scrub_text(text: str, names: Mapping[str, str]) -> str:
    for name in sorted(filter(None, names), key=len, reverse=True):
        text = text.replace(name, names[name])
    text = _ARN.sub(r"<arn of \2>", text)
    text = _ACCOUNT.sub(lambda found: found[0] if found[0] in _PUBLIC_ACCOUNTS else "<account>", text)
    text = _ACCESS_KEY.sub("<access key>", text)
    text = _UUID.sub("<id>", text)
    text = _ADDRESS.sub(lambda found: found[0] if found[0] == _OWN_ADDRESS else "<address>", text)
    return _HOME.sub("<home>", text)
