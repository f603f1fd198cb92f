"""SageMaker's runtime as boto3 is configured for it: its address, credentials, proxies and certificates."""

from __future__ import annotations

import hashlib
import ssl
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any
from urllib.parse import quote, urlsplit

from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.encoding import Buffer
from triton_models.client.failures import Failure, answered
from triton_models.client.signing import Signer
from triton_models.client.wire import Response, Route

PROXY = Check(id="client-proxy", source=FROM_ARGUMENTS)
TARGET_MODEL = Check(id="client-target-model", source=FROM_ARGUMENTS)
CERTIFICATES = Check(id="client-certificates", source=FROM_ARGUMENTS)

_OPERATION = "InvokeEndpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request's body in buffers, with their digest, which takes the time of reading them."""

    buffers: Sequence[Buffer]
    content_type: str

    @property
    def size(self) -> int:
        """The number of bytes."""
        return sum(map(len, self.buffers))

    def digest(self) -> str:
        """Return the SHA-256 of the body."""
        digest = hashlib.sha256()
        for buffer in self.buffers:
            digest.update(buffer)
        return digest.hexdigest()


def _tls(certificates: str | None) -> ssl.SSLContext:
    """Return the context of encrypted connections, which trusts a file's certificates; all, without one."""
    try:
        context = ssl.create_default_context(cafile=certificates)
    except OSError as error:
        raise CERTIFICATES.error(
            what=f"{certificates} cannot be read: {error}",
            where="the variable AWS_CA_BUNDLE, or ca_bundle in ~/.aws/config",
            fix="name a file with the certificates of authorities, in PEM, or remove it",
        ) from None
    if not certificates:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


class Service:
    """Addresses and signs requests, and reads errors; safe to use from many threads."""

    def __init__(self, session: Any) -> None:
        import boto3

        client = session.client("sagemaker-runtime")
        self._session, self._client = session, client
        self._credentials: Any = None
        self._finding = threading.Lock()
        self._url = urlsplit(client.meta.endpoint_url)
        self._agent = f"triton-fleet boto3/{boto3.__version__}"
        self._signer = Signer(region=client.meta.region_name, service=client.meta.service_model.signing_name)

    @property
    def has_credentials(self) -> bool:
        """False if they have to be fetched, which may take long."""
        if self._credentials is None:
            return False
        needed = getattr(self._credentials, "refresh_needed", None)
        return needed is None or not needed()

    def _frozen(self) -> Any:
        from botocore.exceptions import NoCredentialsError

        if self._credentials is None:
            with self._finding:  # sessions are not safe for threads
                self._credentials = self._session.get_credentials()
        if self._credentials is None:
            raise NoCredentialsError
        return self._credentials.get_frozen_credentials()

    def signed(
        self, request: Request, *, endpoint: str, artifact: str, digest: str
    ) -> tuple[str, dict[str, str]]:
        """Return the path and the headers of a request to an artifact.

        Raises:
            BotoCoreError: There are no credentials, or they cannot be fetched.
            FleetError: The artifact's name cannot be sent.
        """
        if not (artifact and artifact.isascii() and artifact.isprintable()):
            raise TARGET_MODEL.error(
                what=f"{artifact!r} cannot be a target model",
                where=f"a request of endpoint {endpoint}",
                why="it is a header of the request",
                fix="give the file name of an artifact in the repository",
            )
        path = f"{self._url.path.rstrip('/')}/endpoints/{quote(endpoint, safe='-._~')}/invocations"
        headers = self._signer.signed(
            {"Content-Type": request.content_type, "X-Amzn-SageMaker-Target-Model": artifact},
            host=self._url.netloc,
            path=path,
            digest=digest,
            credentials=self._frozen(),
            at=datetime.now(timezone.utc),
        )
        return path, {**headers, "User-Agent": self._agent, "Content-Length": str(request.size)}

    @property
    def route(self) -> Route:
        """How to reach the service, with the proxy and the certificates of boto3."""
        from botocore.httpsession import get_cert_path

        # botocore has no public names for them.
        http = self._client._endpoint.http_session
        proxy = http._proxy_config.proxy_url_for(self._url.geturl())
        if proxy and urlsplit(proxy).scheme != "http":
            raise PROXY.error(
                what=f"the proxy {urlsplit(proxy).hostname} is reached with {urlsplit(proxy).scheme}",
                where="the variable HTTPS_PROXY, or HTTP_PROXY",
                why="the connection to the endpoint is encrypted in any case",
                fix="name the proxy with http://",
            )
        tls = None
        if self._url.scheme == "https":
            tls = _tls(get_cert_path(http._verify) or None)
        return Route(server=self._url, tls=tls, proxy=urlsplit(proxy) if proxy else None)

    def failure(self, response: Response) -> Failure:
        """Return the failure of a response that is an error, read as botocore reads it."""
        from botocore.parsers import create_parser

        model = self._client.meta.service_model
        parser = create_parser(model.resolved_protocol)
        given = {"status_code": response.status, "headers": response.headers, "body": bytes(response.body)}
        parsed = parser.parse(given, model.operation_model(_OPERATION).output_shape)
        shape = model.shape_for_error_code(str(parsed.get("Error", {}).get("Code")))
        if shape is not None:
            parsed.update(parser.parse(given, shape))
        return answered(parsed)
