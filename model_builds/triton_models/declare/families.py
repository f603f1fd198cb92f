"""Families: one network with the weights of many members, such as one fine-tuned for each tenant.

The members are those of a list, which is read when they are built. Synthesis and pull requests check the
family's sample, and so take the same time for one member and for ten thousand.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from triton_models.base.checks import FROM_ARGUMENTS, Check, Report
from triton_models.base.matching import advice, fits, with_kind
from triton_models.base.suggest import did_you_mean
from triton_models.declare.declaration import NAME_RULE, ModelDefinition, is_name
from triton_models.declare.mistakes import Mistake, field_types
from triton_models.declare.weights import ARCHIVES, SIDE_FILE, LocalWeights, S3Weights, Weights, weights_at

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

FAMILY_MEMBERS = Check(id="family-members", source=FROM_ARGUMENTS)
FAMILY_LIST = Check(id="family-list", source=FROM_ARGUMENTS)
FAMILY_CHANGED = Check(id="family-changed", source=FROM_ARGUMENTS)
UNKNOWN_MEMBER = Check(id="unknown-member", source=FROM_ARGUMENTS)

_S3 = "s3://"
_LISTS = (".csv", ".jsonl")
_MOST_MISTAKES = 20

Parameters = TypeVar("Parameters")


@dataclass(frozen=True, slots=True, kw_only=True)
class Member(Generic[Parameters]):
    """A member of a family: its weights, and what else differs from the others.

    Attributes:
        name: Its name in the list; empty for the sample.
        family: The family's name, which the family itself fills in.
        weights: Its weights.
        parameters: An instance of the family's class of parameters; None if the family has none.
    """

    name: str = ""
    weights: Weights
    parameters: Parameters
    family: str = ""

    @property
    def model(self) -> str:
        """The name of its model: `<family>_<name>`, and the family's for the sample."""
        return f"{self.family}_{self.name}" if self.name else self.family


@dataclass(frozen=True, slots=True, kw_only=True)
class Family(Generic[Parameters]):
    """Many models of one network: BUILD in a build.py, instead of a ModelDefinition.

    Each member is a model of its own, with its own artifacts, history and rollback. The commands call it
    `<family>:<member>`, and applications `<family>_<member>`. Its graph is exported once, and gets the
    weights of each member.

    ```python
    Family(
        name="tenants",
        members="s3://bucket/tenants/",
        model=model,
        sample=Member(weights=RandomWeights(seed=1), parameters=None),
    )
    ```

    Attributes:
        name: The name of the folder.
        members: Where the members are listed. A prefix in S3, `s3://bucket/prefix/`: each object under it is
            a member, named by its key without the extension, and each folder one with the weights in it.
            Or a file next to build.py or in S3: .csv with a header, or .jsonl. Each line has the `name` of a
            member, the address of its `weights` as `weights_at` reads it (a path starts at build.py; without
            one, the sample's weights), and a column for each parameter that differs from its default. Or a
            function that returns members, such as those of a query of your registry.
        model: Returns the declaration of a member. Give the member to its functions with functools.partial.
        sample: A member without a name, which stands for all where none can be listed: `cdk synth` and
            `fleet build <family>` use it.
        parameters: The frozen dataclass of what differs between members beyond their weights, such as the
            number of classes; None if nothing does.
        digest: The digest of the list. A build fails if it differs; the error has the digest to write here.
            Without it, a build takes the members that are listed.
    """

    name: str
    members: str | Callable[[], Iterable[Any]]
    model: Callable[[Any], ModelDefinition]
    sample: Member[Any]
    parameters: type[Any] | None = None
    digest: str | None = None

    def mistakes(self) -> Iterator[Mistake]:
        """Yield the mistakes in fields that are wrong only together."""
        members = self.members
        if isinstance(members, str) and not (
            members.endswith(_LISTS) or (members.startswith(_S3) and members.endswith("/"))
        ):
            fix = f"name a file that ends with {' or '.join(_LISTS)}, or a prefix, s3://bucket/prefix/"
            yield Mistake("members", f"members are listed at {members!r}", fix=fix)
        if self.parameters is not None and not is_dataclass(self.parameters):
            fix = "write @dataclass(frozen=True) before the class, and its fields with their types"
            yield Mistake("parameters", f"parameters is {with_kind(self.parameters)}", fix=fix)
        elif not isinstance(self.sample.parameters, self.parameters or type(None)):
            wanted = f"{self.parameters.__name__}(...)" if self.parameters else "None"
            what = f"the sample's parameters are {with_kind(self.sample.parameters)}"
            yield Mistake("sample", what, fix=f"give {wanted}, as parameters says")
        if self.sample.name:
            yield Mistake("sample", f"the sample is called {self.sample.name!r}", fix="remove its name")

    @property
    def objects(self) -> tuple[str, ...]:
        """The address in S3 where the members are listed, if they are."""
        members = self.members
        return (members,) if isinstance(members, str) and members.startswith(_S3) else ()

    def definition(self, member: Member[Any]) -> ModelDefinition:
        """Return the declaration of a member, whose name is checked.

        Raises:
            FleetError: The family's `model` returned something else, or a declaration of another name.
        """
        member = replace(member, family=self.name)
        made = self.model(member)
        where = f"model() of the family {self.name!r}"
        if isinstance(made, Family):
            fix = "return the ModelDefinition of the member: a family has no families"
            raise FAMILY_MEMBERS.error(what=f"it returned the family {made.name!r}", where=where, fix=fix)
        if not isinstance(made, ModelDefinition):
            raise FAMILY_MEMBERS.error(
                what=f"it returned {with_kind(made)}", where=where, fix="return a ModelDefinition"
            )
        if made.name != member.model:
            what = f"it returned a model called {made.name!r} for {member.name or 'the sample'!r}"
            raise FAMILY_MEMBERS.error(what=what, where=where, fix="write name=member.model")
        return made

    def listed(self, folder: Path, s3: S3Client | None = None) -> Mapping[str, Member[Any]]:
        """Read the list, and return its members by name.

        Args:
            folder: The folder of build.py.
            s3: A client for lists in S3; by default one of this machine's configuration.

        Raises:
            FleetError: The list cannot be read, has another digest, or has mistakes: all of them, with their
                lines.
        """
        report = Report(f"the members of {self.name!r}")
        if callable(self.members):
            text, found = "", [(each.name, each) for each in self.members()]
            text = "\n".join(f"{name} {member}" for name, member in sorted(found))
        elif self.members.endswith("/"):
            text, found = _under(self.members, s3 or _client(), self.sample)
        else:
            text = _text(self.members, folder, s3)
            found = list(self._rows(report, self.members, text, folder))
        self._check_digest(text)
        _check_names(report, [name for name, _ in found])
        found_wrong = report.problems
        if len(found_wrong) > _MOST_MISTAKES:
            more = f"{len(found_wrong) - _MOST_MISTAKES} more mistakes in the list"
            report = Report(report.where)
            report.add(found_wrong[:_MOST_MISTAKES])
            report(FAMILY_MEMBERS, more, fix="correct these first")
        report.raise_if_any()
        return {name: replace(member, name=name, family=self.name) for name, member in found}

    def _check_digest(self, text: str) -> None:
        now = hashlib.sha256(text.encode()).hexdigest()
        if self.digest is not None and self.digest != now:
            raise FAMILY_CHANGED.error(
                what=f"the list of the members has the digest {now}, not {self.digest}",
                where=f"the members of {self.name!r}",
                why="a member came, went or changed since the digest was written",
                fix=f'if the list is right, write digest="{now}"',
            )

    def _rows(self, report: Report, place: str, text: str, folder: Path) -> Iterator[tuple[str, Member[Any]]]:
        for number, row in _lines(report, place, text):
            at = report.at(f"line {number}")
            known = ("name", "weights", *self._types())
            for column in row.keys() - set(known):
                fix = did_you_mean(str(column), known, otherwise=f"use {', '.join(known)}")
                at(FAMILY_MEMBERS, f"a column {column!r}", fix=fix)
            name, address = row.get("name"), row.get("weights") or None
            if not isinstance(name, str) or not (address is None or isinstance(address, str)):
                at(FAMILY_MEMBERS, f"name {name!r}, weights {address!r}", fix="give a name, and an address")
                continue
            weights = weights_at(address, otherwise=self.sample.weights)
            if address and isinstance(weights, LocalWeights):
                weights = LocalWeights(path=str(folder / address))
            for mistake in weights.mistakes() if hasattr(weights, "mistakes") else ():
                at(FAMILY_MEMBERS, f"{name}: {mistake.what}", fix=mistake.fix)
            parameters = self._parameters(at, name, row)
            yield name, Member(name=name, weights=weights, parameters=parameters)

    def _types(self) -> Mapping[str, Any]:
        owner: Any = self.parameters
        return field_types(owner) if owner else {}

    def _parameters(self, report: Report, name: str, row: Mapping[str, Any]) -> Any:
        if self.parameters is None:
            return None
        given: dict[str, Any] = {}
        for each in fields(self.parameters):
            wanted = self._types()[each.name]
            value = _value(row.get(each.name), wanted)
            if value is not None and fits(value, wanted):
                given[each.name] = value
            elif value is not None:
                what = f"{name}: {each.name} is {with_kind(value)}"
                report(FAMILY_MEMBERS, what, fix=advice(value, wanted))
                return None
            elif each.default is MISSING and each.default_factory is MISSING:
                report(
                    FAMILY_MEMBERS, f"{name}: no {each.name}", fix=f"give {each.name}, which has no default"
                )
                return None
        return self.parameters(**given)


def _value(value: Any, wanted: Any) -> Any:
    """Return a value of a list; of CSV, which has only text, the JSON in it unless the text fits."""
    if not isinstance(value, str) or not value or fits(value, wanted):
        return value if value != "" else None
    with contextlib.suppress(ValueError):
        return json.loads(value.lower() if value in {"True", "False"} else value)
    return value


def _lines(report: Report, place: str, text: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    if place.endswith(".csv"):
        reader = csv.DictReader(io.StringIO(text), restkey="", strict=True)
        try:
            for cells in reader:
                yield reader.line_num, {name: value for name, value in cells.items() if value is not None}
        except csv.Error as error:
            report.at(f"line {reader.line_num}")(FAMILY_MEMBERS, f"not CSV: {error}", fix="correct the line")
        return
    for number, line in enumerate(text.splitlines(), start=1):
        row: Any = None
        try:
            row = json.loads(line) if line.strip() else None
        except ValueError as error:
            report.at(f"line {number}")(FAMILY_MEMBERS, f"not JSON: {error}", fix="write one object per line")
            continue
        if isinstance(row, dict):
            yield number, row
        elif line.strip():
            report.at(f"line {number}")(FAMILY_MEMBERS, f"{line[:40]!r}", fix='write {"name": ...}')


def _check_names(report: Report, names: Sequence[str]) -> None:
    if not names:
        report(FAMILY_MEMBERS, "there are none", fix="add one to the list, or correct where it is")
    for name, count in Counter(names).items():
        if count > 1:
            fix = "rename one: each is a model of its own"
            report(FAMILY_MEMBERS, f"{count} members are called {name!r}", fix=fix)
        if not is_name(name):
            report(FAMILY_MEMBERS, f"a member is called {name!r}", fix=f"rename it: {NAME_RULE}")


def _text(place: str, folder: Path, s3: S3Client | None) -> str:
    with _reading(place):
        if not place.startswith(_S3):
            return (folder / place).read_text(encoding="utf-8-sig")
        bucket, _, key = place.removeprefix(_S3).partition("/")
        return (s3 or _client()).get_object(Bucket=bucket, Key=key)["Body"].read().decode("utf-8-sig")


def _under(place: str, s3: S3Client, sample: Member[Any]) -> tuple[str, list[tuple[str, Member[Any]]]]:
    """Return what identifies the objects under a prefix, and the member of each object or folder."""
    bucket, _, prefix = place.removeprefix(_S3).partition("/")
    content: dict[str, list[str]] = {}
    with _reading(place):
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
            for each in page.get("Contents", ()):
                key = each["Key"].removeprefix(prefix)
                first, mark, _ = key.partition("/")
                if key and not key.endswith(("/", SIDE_FILE)):
                    content.setdefault(first + mark, []).append(f"{key} {each['ETag']} {each['Size']}")
    members = [
        (_named(key), replace(sample, weights=S3Weights(url=f"{place}{key}"))) for key in sorted(content)
    ]
    return "\n".join(line for key in sorted(content) for line in content[key]), members


def _named(key: str) -> str:
    """Return the name of a member by its key, without the extension."""
    archive = next((end for end in ARCHIVES if key.endswith(end)), "")
    return (
        key.removesuffix("/") if key.endswith("/") else key.removesuffix(archive or PurePosixPath(key).suffix)
    )


def _client() -> S3Client:
    import boto3

    # A session of its own: boto3's default one keeps its first credentials.
    return boto3.Session().client("s3")


@contextlib.contextmanager
def _reading(place: str) -> Iterator[None]:
    """Report a list that cannot be read."""
    try:
        yield
    except Exception as error:
        raise FAMILY_LIST.error(
            what=f"the list of the members cannot be read: {error}",
            where=place,
            fix="check the address, and the permission to read it",
        ) from error
