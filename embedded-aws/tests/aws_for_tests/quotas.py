"""Other values of service quotas."""

from __future__ import annotations

import pytest

from embedded_aws.moto_gaps import service_quotas


def set_quotas(monkeypatch: pytest.MonkeyPatch, words: str, value: float) -> None:
    """Set every quota whose name contains the words."""
    listed = service_quotas._quotas
    monkeypatch.setattr(
        service_quotas,
        "_quotas",
        lambda backend, service: [
            each | {"Value": value} if words in each["QuotaName"] else each
            for each in listed(backend, service)
        ],
    )
