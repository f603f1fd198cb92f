"""An endpoint's alias: a name that stays, while the endpoint behind it is replaced by another."""

from __future__ import annotations

import threading
import time
from typing import Any

from triton_models.errors import FleetError

# For how long an alias is taken from memory, in seconds. Systems Manager answers 40 reads a second for an
# account by default, which is a thousand clients at this age. Read on 2026-11-21:
# https://docs.aws.amazon.com/general/latest/gr/ssm.html
ALIAS_AGE_S = 30.0


def alias_name(fleet: str) -> str:
    """The name of a fleet's alias, which is a parameter of Systems Manager."""
    return f"/triton-fleet/{fleet}/endpoint"


class Alias:
    """An alias as a client follows it; safe to use from many threads.

    Args:
        name: The parameter's name.
        ssm: A boto3 client of Systems Manager.
        age_s: For how long the endpoint is known before the alias is read again.
    """

    def __init__(self, name: str, *, ssm: Any, age_s: float = ALIAS_AGE_S) -> None:
        self.name = name
        self._ssm = ssm
        self._age_s = age_s
        self._lock = threading.Lock()
        self._endpoint: str | None = None
        self._read_at = 0.0

    def endpoint(self) -> str:
        """The name of the endpoint.

        Raises:
            FleetError: There is no such alias, or it must not be read.
        """
        with self._lock:
            if self._endpoint is None:
                return self._read()
            if time.monotonic() - self._read_at < self._age_s:
                return self._endpoint
            try:
                return self._read()
            except Exception:  # noqa: BLE001 (an alias that cannot be read now is no reason to stop serving)
                self._read_at = time.monotonic()
                return self._endpoint

    def after(self, gone: str) -> str:
        """The name of the endpoint that took the place of one; the same one if none did.

        Args:
            gone: The endpoint that does not answer any more.

        Raises:
            FleetError: As `endpoint`.
        """
        with self._lock:
            # Another thread may have found out first.
            if self._endpoint is not None and self._endpoint != gone:
                return self._endpoint
            return self._read()

    def _read(self) -> str:
        from botocore.exceptions import ClientError

        try:
            value: str = self._ssm.get_parameter(Name=self.name)["Parameter"]["Value"]
        except ClientError as error:
            code = error.response["Error"]["Code"]
            if code not in _MISTAKES:
                raise
            raise FleetError.of(
                what=_MISTAKES[code].format(name=self.name),
                where=f"the alias {self.name}",
                expected="the alias of a deployed fleet, and permission to read it",
                why=f"{code}: {error.response['Error'].get('Message', '')}",
                fix="give the name that the inference stack puts out, and the role EndpointAlias.grant_read",
                rule="alias",
            ) from None
        self._endpoint, self._read_at = value, time.monotonic()
        return value


_MISTAKES = {
    "ParameterNotFound": "there is no parameter {name}",
    "AccessDeniedException": "reading the parameter {name} is denied",
    "ValidationException": "{name!r} is no name of a parameter",
}
