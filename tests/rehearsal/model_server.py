"""A Triton server into which tests load models through SageMaker's contract."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.rehearsal.aws_for_hosting import ENVIRONMENT
from tests.rehearsal.served_models import write
from triton_rehearsal.triton.contract import Answer, MultiModelContract
from triton_rehearsal.triton.server import TritonServer


@contextmanager
def contract_of(folder: Path, **server: Any) -> Iterator[MultiModelContract]:
    """Yield the contract with a new server."""
    with (
        TritonServer(ENVIRONMENT, folder / "server", **server) as triton,
        MultiModelContract(triton.socket) as contract,
    ):
        yield contract


class ModelServer:
    """One server for all tests of a module. Each test loads its own models."""

    def __init__(self, contract: MultiModelContract, folder: Path) -> None:
        self._contract, self._folder, self._count = contract, folder, 0

    def load(self, files: Any) -> tuple[str, Answer]:
        """Load a model from its files. Returns its name on the server and the answer."""
        self._count += 1
        name = f"m{self._count}"
        root = write(files, self._folder / name)
        return name, self._contract.load(model_id=name, target_model=name, folder=str(root))

    def serve(self, *model: Any, **given: Any) -> str:
        name, answer = self.load(*model, **given)
        assert answer.ok, answer.text
        return name

    def post(self, name: str, body: bytes) -> Answer:
        return self._contract.invoke(model_id=name, target_model=name, body=body)
