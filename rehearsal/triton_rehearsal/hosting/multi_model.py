"""An instance of a multi-model endpoint, including the work of SageMaker's agent.

It fetches a model from S3 on the model's first request, lets the container load it, and unloads the least
recently used models when the container reports that its memory is full. Artifacts are immutable: an object
that changes under its key is not fetched again while a copy is on the disk.
"""

from __future__ import annotations

import hashlib
import itertools
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Container, Iterator, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from triton_rehearsal.hosting.instance import EndingError, Instance, Invoked, Setup
from triton_rehearsal.hosting.metrics import Download, Load, Unload
from triton_rehearsal.hosting.model_data import BadArtifactError, fetch
from triton_rehearsal.hosting.variant import Repository
from triton_rehearsal.triton.contract import (
    ALREADY_LOADED,
    INVOCATION_LIMIT_S,
    OUT_OF_MEMORY,
    TARGET_MODEL,
    Answer,
    MultiModelContract,
    NoAnswerError,
    invocation_path,
)

# Seconds that a request waits for a model before the platform answers that the model is not ready.
LOAD_WAIT_S = 60.0

_CLOSE_LIMIT_S = 10.0
_LIST_LIMIT_S = 2.0


class MissingArtifactError(Exception):
    """The object does not exist, or the role must not read it."""


class NotReadyError(Exception):
    """The model is still loading after the maximum waiting time of a request."""


class ContainerError(Exception):
    """The container refused a load. The error contains its answer."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.text)
        self.answer = answer


class Copies:
    """The sizes of the copies of models on a disk, in the order of their use. It changes no file."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._sizes: dict[str, int] = {}

    def use(self, name: str) -> None:
        """Make a copy the most recently used one."""
        if name in self._sizes:
            self._sizes[name] = self._sizes.pop(name)

    def add(self, name: str, size: int) -> None:
        """Add a new copy, in bytes."""
        self._sizes[name] = size

    def forget(self, name: str) -> None:
        """Forget a copy that is gone."""
        self._sizes.pop(name, None)

    @property
    def full(self) -> bool:
        """True if the copies need more than the disk has."""
        return self._limit is not None and sum(self._sizes.values()) > self._limit

    def unused(self, used: Container[str]) -> str | None:
        """Return the copy to remove first, among those that are not used; None without one."""
        return next((name for name in self._sizes if name not in used), None)


@dataclass(kw_only=True, eq=False)
class _Model:
    """A model that is loaded, loading or unloading."""

    target: str
    id: str
    users: int = 0
    last_used: int = 0
    needs_room: bool = False
    loaded: Future[None] = field(default_factory=Future)

    @property
    def ready(self) -> bool:
        return self.loaded.done()  # with the lock; one that failed is forgotten

    @property
    def idle(self) -> bool:
        return self.ready and not self.users


class MultiModelInstance(Instance):
    """A Triton server with the requested models, for each of which a request waits at most `load_wait_s`."""

    _contract: MultiModelContract
    _counts_models = True

    def __init__(
        self, setup: Setup, *, repository: Repository, s3: Any, load_wait_s: float = LOAD_WAIT_S
    ) -> None:
        self._repository, self._s3, self._load_wait_s = repository, s3, load_wait_s
        self._room = threading.Lock()
        self._models: dict[str, _Model] = {}
        self._unloading: dict[str, _Model] = {}
        self._clock = itertools.count(1)
        self._copies = Copies(setup.budget.disk)
        self._threads: set[threading.Thread] = set()
        super().__init__(setup)
        self._contract = MultiModelContract(self.server.socket)
        # As in the container, so that the parts of a path have the same meaning here.
        self._disk = self.server.directory / "opt" / "ml" / "models"
        self._disk.mkdir(parents=True)

    @property
    def loaded(self) -> list[str]:
        """The target models that can be invoked without a load, least recently used first."""
        with self._change:
            ready = [model for model in self._models.values() if model.ready]
            return [model.target for model in sorted(ready, key=lambda model: model.last_used)]

    def gpu_memory(self) -> Mapping[str, int]:
        """Return the memory of each GPU that each loaded target model has taken, in bytes."""
        taken: Mapping[str, int] = {}
        if self.server.gpu is not None:
            with suppress(FileNotFoundError):  # the instance has ended
                taken = self.server.gpu.by_model()
        return {target: taken[name] for target in self.loaded if (name := model_id(target)) in taken}

    @property
    def model_count(self) -> int:
        """The number of models that it has or loads."""
        return len(self._models)

    def requests_of(self, target: str) -> int | None:
        """Return the number of requests in progress for a model; None if the instance does not have it."""
        model = self._models.get(target)
        return None if model is None else model.users

    def responds(self) -> bool:
        """Ask the container as the platform does every few seconds; return True if it answers the ping."""
        answers = super().responds()
        if answers:
            with suppress(NoAnswerError):
                self._contract.list(limit_s=_LIST_LIMIT_S)
        return answers

    @property
    def _requests(self) -> int:
        return sum(model.users for model in self._models.values())

    def invoke(self, target: str, *, body: bytes, headers: Mapping[str, str], claimed: Any = None) -> Invoked:
        """Answer a request for a model; load the model first if necessary.

        After a NotReadyError, the load continues.
        """
        model, hit = claimed or self.claim(target)
        try:
            started = time.monotonic()
            self._wait_for(model)
            waited = None if hit else time.monotonic() - started
            answer, seconds = self._ask(model, body, headers)
            return Invoked(answer=answer, cache_hit=hit, loading_wait_s=waited, model_s=seconds)
        finally:
            self._release(model)

    async def invoke_now(self, target: str, *, body: bytes, headers: Mapping[str, str]) -> Invoked | None:
        """Answer a request for a model that is loaded; see `Instance`.

        The answer's status is 507 if the container needs room first; `invoke` makes it.
        """
        if not self._repository.keep_models:
            return None
        with self._change:
            model = self._models.get(target)
            if model is None or not model.ready or self._ending:
                return None
            self._use(model)
        try:
            sent = {TARGET_MODEL: target, **headers}
            answer, seconds = await self._invocations.invoke(
                invocation_path(model.id), body=body, headers=sent
            )
        finally:
            self._release(model)
        return Invoked(answer=answer, cache_hit=True, model_s=seconds)

    def _end(self, reason: str) -> None:
        super()._end(reason)
        with self._change:
            threads = list(self._threads)
        for thread in threads:
            thread.join(_CLOSE_LIMIT_S)
        # A download that ended after the server may have written files again.
        self.server.close()

    def claim(self, target: str) -> tuple[_Model, bool]:
        """Return the model with one more user, and True if it was ready. The first user starts its load."""
        with self._change:
            if self._ending:
                raise EndingError(target)
            model = self._models.get(target)
            hit = model is not None and model.ready
            if model is None:
                model = self._models[target] = _Model(target=target, id=model_id(target))
                thread = threading.Thread(target=self._load, args=(model,), daemon=True)
                self._threads.add(thread)
                thread.start()
            self._use(model)
            return model, hit

    def _use(self, model: _Model) -> None:
        model.users += 1
        model.last_used = next(self._clock)

    def _release(self, model: _Model) -> None:
        with self._change:
            model.users -= 1
            self._change.notify_all()
        if not self._repository.keep_models:
            self._evict(lambda other: other is model, forget=True)

    def _wait_for(self, model: _Model) -> None:
        try:
            model.loaded.result(timeout=self._load_wait_s)
        except FutureTimeoutError as error:
            if model.loaded.done():
                raise
            raise NotReadyError(model.target) from error

    def _ask(self, model: _Model, body: bytes, headers: Mapping[str, str]) -> tuple[Answer, float]:
        while True:
            started = time.monotonic()
            try:
                answer = self._contract.invoke(
                    model_id=model.id, target_model=model.target, body=body, headers=headers
                )
            except NoAnswerError as error:
                answer = self._notice_end(error)
            seconds = time.monotonic() - started
            if answer.status != OUT_OF_MEMORY:
                return answer, seconds
            with self._turn(model):
                if not self._make_room(model):
                    return answer, seconds

    def _load(self, model: _Model) -> None:
        """Fetch a model to the disk and load it into the container. Runs in its own thread."""
        error: BaseException | None = None
        try:
            with self._change:
                self._change.wait_for(lambda: model.target not in self._unloading)
            folder = self._fetch(model.target)
            self._load_into_container(model, folder)
        except BaseException as caught:  # noqa: BLE001  the waiting requests raise it
            error = caught
            self._forget(model.target)  # the object may have changed by the next request
        with self._change:
            self._threads.discard(threading.current_thread())
            if error is None:
                model.loaded.set_result(None)
            else:
                # The next request starts a new load.
                del self._models[model.target]
                model.loaded.set_exception(error)
            self._change.notify_all()

    def _fetch(self, target: str) -> Path:
        """Return the folder to load: the copy on the disk, or a new one."""
        place = self._disk / model_id(target)
        if not place.exists():
            started = time.monotonic()
            key = self._repository.key(target)
            place.mkdir()
            try:
                fetch(self._s3, self._repository.bucket, key, place / "model")
            except ClientError as error:
                raise MissingArtifactError(key) from error
            self._keep_within_disk(target)
            self._report(Download(target=target, seconds=time.monotonic() - started))
        # An artifact may contain the model itself at its top level. The container then uses the parent as the
        # repository and "model" as the directory, but only below /opt/ml/models.
        return place if (place / "model" / "config.pbtxt").is_file() else place / "model"

    def _load_into_container(self, model: _Model, folder: Path) -> None:
        answer = self._try_load(model, folder)
        if answer.status == OUT_OF_MEMORY:
            with self._turn(model):
                made_room = True
                while answer.status == OUT_OF_MEMORY and made_room:
                    # With no other model left it tries once more: another load may have been in its way.
                    made_room = self._make_room(model)
                    answer = self._try_load(model, folder)
        if not answer.ok and answer.status != ALREADY_LOADED:
            raise ContainerError(answer)

    def _try_load(self, model: _Model, folder: Path) -> Answer:
        started = time.monotonic()
        try:
            answer = self._contract.load(model_id=model.id, target_model=model.target, folder=str(folder))
        except NoAnswerError as error:
            raise ContainerError(self._notice_end(error)) from error
        if answer.ok or answer.status == ALREADY_LOADED:
            self._report(Load(target=model.target, seconds=time.monotonic() - started))
        return answer

    @contextmanager
    def _turn(self, model: _Model) -> Iterator[None]:
        """Wait until no other model makes room, so that each gets the room that it makes."""
        with self._change:
            model.needs_room = True
            self._change.notify_all()
        try:
            with self._room:
                yield
        finally:
            with self._change:
                model.needs_room = False

    def _make_room(self, model: _Model) -> bool:
        """Unload the least recently used other model, in the model's turn. Returns False if there is none."""
        with self._change:
            others: list[_Model] = []

            def decided() -> bool:
                others[:] = [other for other in self._models.values() if other is not model]
                return any(other.idle for other in others) or all(o.needs_room for o in others)

            self._change.wait_for(decided, INVOCATION_LIMIT_S)
            if not any(other.idle for other in others):
                return False
        self._evict(lambda other: other is not model)
        return True

    def _keep_within_disk(self, target: str) -> None:
        """Count a new copy, and remove copies that are not loaded until all fit, or raise if they cannot."""
        name = model_id(target)
        size = sum(path.lstat().st_size for path in (self._disk / name).rglob("*") if not path.is_dir())
        removed = []
        with self._change:
            self._copies.add(name, size)
            used = {each.id for each in (*self._models.values(), *self._unloading.values())}
            while self._copies.full and (unused := self._copies.unused(used)):
                # Under another name at once, since the next request for it begins another copy.
                removed.append((self._disk / unused).rename(self._disk / f"{unused}-{secrets.token_hex(4)}"))
                self._copies.forget(unused)
            full = self._copies.full
        for folder in removed:
            shutil.rmtree(folder, ignore_errors=True)
        if full:
            message = f"No space left on device: the model has {size} bytes"
            raise BadArtifactError(message)

    def _forget(self, target: str) -> None:
        name = model_id(target)
        shutil.rmtree(self._disk / name, ignore_errors=True)
        with self._change:
            self._copies.forget(name)

    def _evict(self, among: Callable[[_Model], bool], *, forget: bool = False) -> None:
        """Unload the least recently used idle model. Its copy on the disk stays unless `forget` is True."""
        with self._change:
            idle = [model for model in self._models.values() if model.idle and among(model)]
            if not idle:
                return
            victim = min(idle, key=lambda model: model.last_used)
            del self._models[victim.target]
            self._unloading[victim.target] = victim
        started = time.monotonic()
        try:
            self._contract.unload(model_id=victim.id, target_model=victim.target)
            self._report(Unload(target=victim.target, seconds=time.monotonic() - started))
        except NoAnswerError as error:
            self._notice_end(error)
        finally:
            if forget:
                self._forget(victim.target)
            with self._change:
                self._copies.use(victim.id)
                del self._unloading[victim.target]
                self._change.notify_all()


def model_id(target: str) -> str:
    """Return the platform's name for a target model: letters and digits, since it is part of a path."""
    return hashlib.sha256(target.encode()).hexdigest()[:32]
