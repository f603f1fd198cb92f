"""The clients reach an endpoint as boto3 does: its certificates, its proxy, and its errors."""

from __future__ import annotations

import datetime as dt
import ipaddress
import socket
import ssl
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.triton_models.scripted_server import ROW, World
from tests.triton_models.test_client_faults import LASTING, PASSING
from triton_models.base.errors import FleetError
from triton_models.client import InvocationError
from triton_models.client.failures import answered
from triton_models.client.service import Service
from triton_models.client.wire import Response

TARGET = "m-1111111111111111.tar.gz"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a certificate of 127.0.0.1 and its key."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    now = dt.datetime.now(dt.timezone.utc)
    built = (
        x509.CertificateBuilder(issuer_name=name, subject_name=name, public_key=key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=True
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path_factory.mktemp("tls") / "certificate.pem"
    pem = serialization.Encoding.PEM
    file.write_bytes(
        built.public_bytes(pem)
        + key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return file


class Tunnels:
    """A proxy that makes tunnels, forwards requests, or refuses."""

    def __init__(self, *, refuses: bool = False) -> None:
        self.asked: list[str] = []
        self._refuses = refuses
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://user:p%40ss@127.0.0.1:{self._socket.getsockname()[1]}"

    def __enter__(self) -> Tunnels:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=(self._socket.accept()[0],), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                head += client.recv(65536)
            self.asked.append(head.decode("latin-1"))
            if self._refuses:
                client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
                return
            target = head.split(b" ")[1].removeprefix(b"http://").partition(b"/")[0].decode()
            host, _, port = target.partition(":")
            with socket.create_connection((host, int(port))) as server:
                if head.startswith(b"CONNECT"):
                    client.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
                else:
                    server.sendall(head)
                back = threading.Thread(target=_pump, args=(server, client), daemon=True)
                back.start()
                _pump(client, server)
                back.join()


def _pump(source: socket.socket, to: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            to.sendall(data)
        to.shutdown(socket.SHUT_WR)


@pytest.fixture
def secure(world: World, certificate: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world whose endpoint is encrypted."""
    encrypt(world, certificate, monkeypatch)
    return world


def encrypt(world: World, certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    world.runtime.encrypt(context)
    monkeypatch.setenv("AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME", world.runtime.url)


def ask(world: World, **given: Any) -> float:
    client = world.client(session=boto3.Session(), **given)
    return float(client.invoke_target(target_model=TARGET, inputs=ROW)["Y"][0])


def test_an_encrypted_endpoint_is_trusted_with_boto3s_certificates(
    secure: World, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvocationError, match="certificate") as raised:
        ask(secure)
    assert raised.value.attempts == 1
    monkeypatch.setenv("AWS_CA_BUNDLE", str(certificate))
    assert ask(secure) == 3.0


def test_certificates_that_cannot_be_read_are_an_error(
    secure: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path / "none.pem"))
    with pytest.raises(FleetError, match="client-certificates"):
        ask(secure)
    (tmp_path / "bad.pem").write_text("no certificate")
    monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path / "bad.pem"))
    with pytest.raises(FleetError, match="client-certificates"):
        ask(secure)


@pytest.mark.parametrize("encrypted", [True, False])
def test_a_proxy_is_asked_for_a_tunnel_or_to_forward(
    encrypted: bool, world: World, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if encrypted:
        encrypt(world, certificate, monkeypatch)
    monkeypatch.setenv("AWS_CA_BUNDLE", str(certificate))
    with Tunnels() as proxy:
        monkeypatch.setenv("HTTPS_PROXY" if encrypted else "HTTP_PROXY", proxy.url)
        assert ask(world) == 3.0
        assert world.runtime.requests[0].line.startswith("POST")
    (head,) = proxy.asked
    assert head.startswith("CONNECT 127.0.0.1:" if encrypted else "POST http://127.0.0.1:")
    assert "Proxy-Authorization: Basic dXNlcjpwQHNz" in head
    assert not encrypted or "Authorization: AWS4" not in head


def test_a_proxy_that_refuses_is_an_error(
    secure: World, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_CA_BUNDLE", str(certificate))
    with Tunnels(refuses=True) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        with pytest.raises(InvocationError, match="the proxy refuses a tunnel with status 407"):
            ask(secure, attempts=1)
    assert secure.runtime.requests == []


def test_a_proxy_with_encryption_of_its_own_is_refused(
    secure: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "https://127.0.0.1:1")
    with pytest.raises(FleetError, match="client-proxy"):
        ask(secure)


ERRORS = {
    name: step
    for name, (step, _) in {**PASSING, **LASTING}.items()
    if step.sends.startswith(b"HTTP/1.1 ") and not step.closes and b" 200 " not in step.sends[:14]
}


@pytest.mark.parametrize("world", ["threads"], indirect=True)
@pytest.mark.parametrize("kind", ERRORS)
def test_an_error_is_what_boto3_makes_of_it(world: World, kind: str) -> None:
    world.runtime.otherwise = ERRORS[kind]
    client = world.session.client("sagemaker-runtime", config=Config(retries={"total_max_attempts": 1}))
    with pytest.raises(ClientError) as raised:
        client.invoke_endpoint(EndpointName="e", Body=b"")
    head, _, body = ERRORS[kind].sends.partition(b"\r\n\r\n")
    lines = [line.partition(": ") for line in head.decode().split("\r\n")[1:]]
    response = Response(
        status=int(head.split()[1]), headers={name.lower(): value for name, _, value in lines}, body=body
    )
    assert Service(world.session).failure(response) == answered(raised.value.response)
