"""Invokes the models behind an endpoint by their names."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from triton_models.alias import ALIAS_AGE_S, Alias, Aliased
from triton_models.errors import FleetError, Problem, raise_if_any
from triton_models.manifest import Repository
from triton_models.payload import PAYLOAD_LIMIT
from triton_models.targets import ArtifactTarget

if TYPE_CHECKING:
    import numpy as np

    from triton_models.publishing.preflight import Fit
    from triton_models.publishing.stored_manifest import StoredManifest

Tensors = Mapping[str, "np.ndarray[Any, Any]"]
_Tensor = tuple[str, "np.ndarray[Any, Any]", str]
Content = Literal["binary", "json"]

BINARY_TYPE = "application/vnd.sagemaker-triton.binary+json;json-header-size="
JSON_TYPE = "application/json"

# SageMaker answers within 60 seconds; its documentation asks for a socket time-out of 70.
READ_TIMEOUT_S = 70

# A model that is not loaded within 60 seconds goes on loading for 360; the SDK's retries end long before.
READY_LIMIT_S = 360.0
_FIRST_WAIT_S, _LONGEST_WAIT_S = 1.0, 30.0

# How long a name's artifact is taken from memory, in seconds.
MANIFEST_AGE_S = 30.0

_NOT_READY = "ModelNotReadyException"


class Client:
    """A client of one endpoint, or of whichever an alias names; safe to use from many threads.

    A model's name is resolved for the target of the endpoint that is called: `ModelRecord.on` says how. An
    alias names endpoint and target together. Of an endpoint without an alias the target is an argument; while
    each name stands for one artifact it is not needed, and what a name stood for last is kept until then.

    Args:
        endpoint_name: The endpoint. Either this or an alias.
        alias: A fleet's alias, such as /triton-fleet/TritonFleet/endpoint. The client follows it: when the
            fleet moves to another endpoint, requests go there from then on, and one that comes too late for
            the old endpoint is sent again at once.
        target: The target of `endpoint_name`, such as sm86-trt10.13.3; an alias names its own.
        repository: The model repository behind it, such as s3://bucket/models/.
        session: A boto3 session; the default one if None.
        ready_limit_s: How long to wait for a model that is not loaded yet.
        manifest_age_s: For how long a model's name is known before the manifest is read again. A new
            version reaches this client after at most that time; longer while the manifest cannot be read.
        alias_age_s: For how long the alias' endpoint is known before the alias is read again.
        wait: Called with the seconds to wait before asking again.

    Raises:
        FleetError: The repository is not such a URL, the target is no target, AWS is not configured, or not
            exactly one of endpoint and alias is given.
    """

    def __init__(
        self,
        *,
        endpoint_name: str | None = None,
        alias: str | None = None,
        target: str | None = None,
        repository: str,
        session: Any = None,
        ready_limit_s: float = READY_LIMIT_S,
        manifest_age_s: float = MANIFEST_AGE_S,
        alias_age_s: float = ALIAS_AGE_S,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        import boto3
        from botocore.config import Config

        from triton_models.publishing.s3 import aws_errors

        raise_if_any(_either(endpoint_name, alias, target))
        self._fixed = Aliased(
            endpoint=endpoint_name or "", target=ArtifactTarget.parse(target) if target else None
        )
        self.repository = Repository.parse(repository)
        config = Config(
            read_timeout=READ_TIMEOUT_S,
            retries={"mode": "standard", "total_max_attempts": 3},
            max_pool_connections=64,
        )
        with aws_errors(self.repository.url):
            self._session = session = session or boto3.Session()
            self._runtime = session.client("sagemaker-runtime", config=config)
            self._s3 = session.client("s3")
            self._alias = Alias(alias, ssm=session.client("ssm"), age_s=alias_age_s) if alias else None
        self._ready_limit_s = ready_limit_s
        self._manifest_age_s = manifest_age_s
        self._wait = wait
        self._lock = threading.Lock()
        self._stored: StoredManifest | None = None
        self._read_at = 0.0
        self._last: dict[str, str] = {}

    @property
    def endpoint_name(self) -> str:
        """The endpoint that requests go to now.

        Raises:
            FleetError: There is no such alias, or it must not be read.
        """
        return self._serving().endpoint

    def _serving(self) -> Aliased:
        return self._alias.names() if self._alias else self._fixed

    def target_model(self, model: str) -> str:
        """The artifact that a model's name stands for on the endpoint that requests go to now.

        Raises:
            FleetError: No model of the repository has that name, it has no artifact for the endpoint's
                target, or the manifest cannot be read.
        """
        return self._artifact(model, self._serving().target)

    def _artifact(self, model: str, target: ArtifactTarget | None) -> str:
        with self._lock:
            age = time.monotonic() - self._read_at
            stored = self._stored
            if stored is None or not stored.manifest.knows(model, target):
                stored = self._read_manifest()
            elif age >= self._manifest_age_s:
                try:
                    stored = self._read_manifest()
                except FleetError:  # a manifest that cannot be read now is no reason to stop serving
                    self._read_at = time.monotonic()
            if target is not None:
                return stored.manifest.target_model(model, target)
            if stored.manifest.knows(model, None) or model not in self._last:
                self._last[model] = stored.manifest.target_model(model)
            return self._last[model]

    def _read_manifest(self) -> StoredManifest:
        from triton_models.publishing.s3 import aws_errors
        from triton_models.publishing.stored_manifest import read

        with aws_errors(self.repository.url):
            self._stored = read(self.repository, self._s3, known=self._stored)
        self._read_at = time.monotonic()
        return self._stored

    def preflight(self, models: Sequence[str] = ()) -> Fit:
        """Compare what the models were built for with the endpoint, before the first request meets an error.

        For deployments: it asks SageMaker what the endpoint is, which an application's role need not be
        allowed (sagemaker:DescribeEndpoint, DescribeEndpointConfig and DescribeModel).

        Args:
            models: Only these; all of the repository if empty.

        Returns:
            The models that were looked at.

        Raises:
            FleetError: Artifacts that the endpoint would refuse, all of them; no such model or endpoint, or
                AWS refuses.
        """
        from triton_models.publishing.preflight import preflight
        from triton_models.publishing.s3 import aws_errors
        from triton_models.publishing.serving import deployed

        endpoint = self.endpoint_name
        with aws_errors(f"endpoint {endpoint}"):
            serving = deployed(endpoint, self._session.client("sagemaker"))
        with self._lock:
            manifest = self._read_manifest().manifest
        return preflight(manifest, serving, models=models)

    def infer(
        self,
        *,
        model: str,
        inputs: Tensors,
        outputs: Sequence[str] | None = None,
        content: Content = "binary",
    ) -> dict[str, np.ndarray[Any, Any]]:
        """Ask a model by its name.

        Args:
            model: The model's name in the repository.
            inputs: A tensor for each of the model's inputs, with the batch as first dimension where the
                model has one. Text is an array of str or of bytes.
            outputs: The outputs to return; all by default.
            content: How tensors travel: "binary", or "json", which is several times larger and slower.

        Returns:
            The outputs by name. Text comes back as arrays of bytes.

        Raises:
            FleetError: There is no such model, endpoint or alias, the inputs do not fit it, or the request
                is longer than the API takes.
            botocore.exceptions.ClientError: The endpoint failed.
        """
        return self._ask(model, artifact=None, inputs=inputs, outputs=outputs, content=content)

    def invoke_target(
        self,
        *,
        target_model: str,
        inputs: Tensors,
        outputs: Sequence[str] | None = None,
        content: Content = "binary",
    ) -> dict[str, np.ndarray[Any, Any]]:
        """Ask a certain artifact, whatever the names stand for; otherwise as `infer`."""
        return self._ask(target_model, artifact=target_model, inputs=inputs, outputs=outputs, content=content)

    def _ask(
        self,
        model: str,
        *,
        artifact: str | None,
        inputs: Tensors,
        outputs: Sequence[str] | None,
        content: Content,
    ) -> dict[str, np.ndarray[Any, Any]]:
        if artifact is None:
            self.target_model(model)  # an unknown name is found before anything is encoded
        where = f"a request for {model} of endpoint {self.endpoint_name}"
        body, content_type = encode(inputs, outputs=outputs, content=content, where=where)
        if len(body) > PAYLOAD_LIMIT:
            raise FleetError.of(
                what=f"the request has {len(body)} bytes",
                where=where,
                expected=f"at most {PAYLOAD_LIMIT} bytes",
                why="InvokeEndpoint refuses longer requests",
                fix="send fewer rows at a time" + (', or content="binary"' if content == "json" else ""),
                rule="payload",
            )
        answer = self._invoke(model, artifact, {"ContentType": content_type, "Body": body}, where)
        return decode(answer["Body"].read(), answer["ContentType"])

    def _invoke(self, model: str, artifact: str | None, request: Mapping[str, Any], where: str) -> Any:
        from botocore.exceptions import ClientError

        for seconds in (*waits(self._ready_limit_s), None):
            try:
                return self._send(model, artifact, request)
            except ClientError as error:
                if error.response["Error"]["Code"] != _NOT_READY or seconds is None:
                    problem = _mistake(error.response, where)
                    if problem is None:
                        raise
                    raise FleetError([problem]) from error
                self._wait(seconds)
        raise AssertionError  # the last wait is None

    def _send(self, model: str, artifact: str | None, request: Mapping[str, Any]) -> Any:
        """Send a request to the endpoint; to the one after it, if it was removed meanwhile.

        The name is resolved for the very endpoint that gets the request.
        """
        from botocore.exceptions import ClientError

        def send(to: Aliased) -> Any:
            name = artifact or self._artifact(model, to.target)
            return self._runtime.invoke_endpoint(EndpointName=to.endpoint, TargetModel=name, **request)

        serving = self._serving()
        try:
            return send(serving)
        except ClientError as error:
            if self._alias is None or not _about_the_endpoint(error.response):
                raise
            follower = self._alias.after(serving.endpoint)
            if follower.endpoint == serving.endpoint:
                raise
            return send(follower)


def _either(endpoint_name: str | None, alias: str | None, target: str | None) -> Iterator[Problem]:
    if alias and target and not endpoint_name:
        yield Problem(
            what="both an alias and a target",
            where="the arguments of Client",
            expected="a target with endpoint_name only",
            why="an alias names the target of its endpoint",
            fix="leave the target out",
            rule="client-endpoint",
        )
    if bool(endpoint_name) != bool(alias):
        return
    yield Problem(
        what="both an endpoint's name and an alias" if alias else "neither an endpoint's name nor an alias",
        where="the arguments of Client",
        expected='one of alias="/triton-fleet/TritonFleet/endpoint", endpoint_name="Search-g5-2xlarge-25-09"',
        why="requests go to one endpoint",
        fix="give the alias, which stays when the release or the GPU changes",
        rule="client-endpoint",
    )


def _about_the_endpoint(response: Mapping[str, Any]) -> bool:
    """Whether an error is about the endpoint itself, such as "Endpoint x of account y not found."."""
    code, message = response["Error"]["Code"], str(response["Error"].get("Message", ""))
    return bool(code == "ValidationError" and message.startswith("Endpoint "))


def waits(limit_s: float) -> Iterator[float]:
    """Growing waits, in seconds, that together take the limit."""
    wait = _FIRST_WAIT_S
    while limit_s > 0:
        yield min(wait, limit_s)
        limit_s -= wait
        wait = min(2 * wait, _LONGEST_WAIT_S)


def encode(
    inputs: Tensors, *, outputs: Sequence[str] | None, content: Content, where: str = "a request"
) -> tuple[bytes, str]:
    """A request's body and content type.

    Raises:
        FleetError: An input's element type has no counterpart in Triton; names every such input.
    """
    from tritonclient.utils import np_to_triton_dtype  # type: ignore[import-untyped]

    arrays = {name: _with_bytes(given) for name, given in inputs.items()}
    types = {
        name: None if array is None else np_to_triton_dtype(array.dtype) for name, array in arrays.items()
    }
    raise_if_any(_no_datatype(name, inputs[name], where) for name, found in types.items() if found is None)
    tensors = [(name, array, str(types[name])) for name, array in arrays.items() if array is not None]
    return _encode_binary(tensors, outputs) if content == "binary" else _encode_json(tensors, outputs)


def _encode_binary(tensors: list[_Tensor], outputs: Sequence[str] | None) -> tuple[bytes, str]:
    from tritonclient.http import (  # type: ignore[import-untyped]
        InferenceServerClient,
        InferInput,
        InferRequestedOutput,
    )

    prepared = []
    for name, array, datatype in tensors:
        prepared.append(InferInput(name, list(array.shape), datatype))
        prepared[-1].set_data_from_numpy(array)
    # With no outputs named, the library asks for all of them in binary.
    wanted = [InferRequestedOutput(name) for name in outputs] if outputs else None
    body, header = InferenceServerClient.generate_request_body(prepared, outputs=wanted)
    return body, JSON_TYPE if header is None else f"{BINARY_TYPE}{header}"


def _encode_json(tensors: list[_Tensor], outputs: Sequence[str] | None) -> tuple[bytes, str]:
    document: dict[str, Any] = {
        "inputs": [
            {"name": name, "shape": list(array.shape), "datatype": datatype, "data": _plain(array)}
            for name, array, datatype in tensors
        ]
    }
    if outputs:
        document["outputs"] = [{"name": name} for name in outputs]
    return json.dumps(document).encode(), JSON_TYPE


def _plain(array: np.ndarray[Any, Any]) -> list[Any]:
    values: list[Any] = array.ravel().tolist()
    return [value.decode() if isinstance(value, bytes) else value for value in values]


def decode(body: bytes, content_type: str) -> dict[str, np.ndarray[Any, Any]]:
    """The tensors of a response."""
    from tritonclient.http import InferenceServerClient

    header = int(content_type.removeprefix(BINARY_TYPE)) if content_type.startswith(BINARY_TYPE) else None
    result = InferenceServerClient.parse_response_body(body, header_length=header)
    names = [output["name"] for output in result.get_response()["outputs"]]
    return {name: result.as_numpy(name) for name in names}


def _with_bytes(given: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
    """Text as an array of bytes objects, which is what tensors of type BYTES hold; None for other objects."""
    import numpy as np

    array = np.asarray(given)
    if array.dtype.kind not in "USO":
        return array
    entries = [entry.encode() if isinstance(entry, str) else entry for entry in array.ravel().tolist()]
    if not all(isinstance(entry, bytes) for entry in entries):
        return None
    flat = np.empty(len(entries), dtype=np.object_)
    flat[:] = entries
    return flat.reshape(array.shape)


def _no_datatype(name: str, given: np.ndarray[Any, Any], where: str) -> Problem:
    import numpy as np

    return Problem(
        what=f"input {name!r} has elements of type {np.asarray(given).dtype}",
        where=where,
        expected="bool, int8 to int64, uint8 to uint64, float16 to float64, or text",
        why="Triton has no such data type",
        fix="convert it with .astype()",
        rule="datatype",
    )


def _mistake(response: Mapping[str, Any], where: str) -> Problem | None:
    """The caller's mistake in an error of the API; None if it is nobody's, or the endpoint's."""
    code, message = response["Error"]["Code"], response["Error"].get("Message", "")
    if code == "ValidationError":
        return Problem(
            what=message,
            where=where,
            expected="a deployed multi-model endpoint, and an artifact in the repository behind it",
            fix="compare the endpoint's name and the repository with the stacks' outputs",
            rule="invoke",
        )
    client_error = 400
    if code == "ModelError" and response.get("OriginalStatusCode") == client_error:
        return Problem(
            what=response.get("OriginalMessage") or message,
            where=where,
            expected="a model that loads, and inputs that fit its config.pbtxt",
            fix="correct the inputs, or the model",
            rule="invoke",
        )
    return None
