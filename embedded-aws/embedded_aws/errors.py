"""Errors of the embedded AWS itself. Errors of a service reach the caller as AWS sends them."""

from __future__ import annotations


class EmbeddedAwsError(Exception):
    """The base class of all these errors."""


class PortError(EmbeddedAwsError):
    """The port is taken or not allowed."""


class StackNotFoundError(EmbeddedAwsError):
    """No stack has the given name."""


class LaunchError(EmbeddedAwsError):
    """A host could not start the instances of an endpoint. Its message becomes part of the failure reason."""


class MotoChangedError(EmbeddedAwsError):
    """The installed moto differs where this package changes it."""
