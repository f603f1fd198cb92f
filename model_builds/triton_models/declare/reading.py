"""Reading declarations: from `models/<name>/build.py` to a valid ModelDefinition.

A build.py defines BUILD, and may define FORMS: other forms of the same network, such as one for another
backend or with other weights. `resnet50` is the BUILD of a folder, and `resnet50:torchscript` a form with a
separate name. BUILD may also be a Family: `tenants:acme` is then a member of it, and `tenants` its sample.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.errors import FleetError, Problem, raise_if_any
from triton_models.base.extras import build_extra
from triton_models.base.matching import fits
from triton_models.base.suggest import did_you_mean
from triton_models.declare import (
    backends,
    declaration,
    environments,
    families,
    models,
    scheduling,
    tensors,
    weights,
)
from triton_models.declare.declaration import NAME_RULE, ModelDefinition, is_name
from triton_models.declare.families import UNKNOWN_MEMBER, Family, Member
from triton_models.declare.mistakes import BAD_DECLARATION, Mistake, Places, declared_values, mistakes_in
from triton_models.declare.models import PythonModel
from triton_models.declare.requires import install_command

UNKNOWN_FORM = Check(id="unknown-form", source=FROM_ARGUMENTS)
UNKNOWN_MODEL = Check(id="unknown-model", source=FROM_ARGUMENTS)

_PLACES = (Path("model_builds") / "models", Path("models"))
"""The folder of model builds, relative to the root of a repository or the source folder of a build."""

_PACKAGE = "_model_build_"
"""The beginning of the name of the package that a folder is while its build.py runs."""

FORM_MARK = ":"
"""The separator between a folder's name and the name of one of its forms."""

_CLASSES: dict[str, type] = {
    name: each
    for module in (backends, declaration, environments, families, models, scheduling, tensors, weights)
    for name, each in vars(module).items()
    if is_dataclass(each) and isinstance(each, type) and each.__module__ == module.__name__
}
"""The classes of declared values, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredFolder:
    """The declarations of a folder: BUILD, and FORMS by the names after the colon.

    Attributes:
        family: BUILD, if that is a family; `build` is then the declaration of its sample.
    """

    path: Path
    build: ModelDefinition
    forms: Mapping[str, ModelDefinition]
    family: Family[Any] | None = None
    _listed: dict[str, Member[Any]] = field(default_factory=dict, compare=False, repr=False)

    def asked(self, name: str) -> ModelDefinition:
        """Return BUILD for the folder's name, or a form or a member for `folder:form`.

        Raises:
            FleetError: The form or the member does not exist, or the member's declaration has mistakes.
        """
        folder, mark, form = name.partition(FORM_MARK)
        if not mark:
            return self.build
        if self.family is not None:
            return self.member(*self.members(name))
        if form not in self.forms:
            known = list(self.forms)
            fix = did_you_mean(form, known, otherwise=f"add it to FORMS, or use {folder} without a form")
            raise UNKNOWN_FORM.error(what=f"{folder!r} has no form {form!r}", where=str(self.path), fix=fix)
        return self.forms[form]

    def members(self, name: str) -> Sequence[Member[Any]]:
        """Return the listed members of the family, or the one of `folder:member`. The list is read once.

        Raises:
            FleetError: The list cannot be read, or does not have the member.
        """
        if not self._listed:
            self._listed.update(self._family().listed(self.path.parent))
        members = self._listed
        folder, mark, member = name.partition(FORM_MARK)
        if mark and member not in members:
            fix = did_you_mean(member, members, otherwise=f"add it to the list: {self._family().members!r}")
            what = f"{folder!r} has no member {member!r}"
            raise UNKNOWN_MEMBER.error(what=what, where=str(self.path), fix=fix)
        return [members[member]] if mark else list(members.values())

    def _family(self) -> Family[Any]:
        if self.family is None:
            msg = f"{self.path} declares no family"
            raise AssertionError(msg)
        return self.family

    def member(self, member: Member[Any]) -> ModelDefinition:
        """Return the declaration of a member of the family.

        Raises:
            FleetError: The declaration has mistakes.
        """
        definition = self._family().definition(member)
        raise_if_any(dict.fromkeys(_problems([definition], self.path)))
        return definition


def folder_reader(models: Path | None = None) -> Callable[[str], DeclaredFolder]:
    """Return `read_folder`, which reads a folder only once while its forms are read one after another."""
    return functools.lru_cache(maxsize=1)(functools.partial(read_folder, models=models))


def published_name(name: str) -> str:
    """Return the name of the artifacts of a folder or `folder:form`, whose declaration is not executed."""
    return name.replace(FORM_MARK, "_")


def models_folder() -> Path:
    """Return the folder of model builds: `model_builds/models` or `models`, here or in a parent folder.

    If none exists, return the path of `model_builds/models` in the current folder.
    """
    here = Path.cwd()
    folders = [folder / place for folder in (here, *here.parents) for place in _PLACES]
    return next((folder for folder in folders if any(folder.glob("*/build.py"))), folders[0])


def model_names(models: Path | None = None) -> list[str]:
    """Return the names of the model builds in a folder, sorted.

    Raises:
        FleetError: The folder does not exist.
    """
    folder = models or models_folder()
    if not folder.is_dir():
        what = f"no folder {str(folder)!r}"
        fix = "run the command from the repository, or name the folder that has one subfolder per model"
        raise UNKNOWN_MODEL.error(what=what, where="the folder of model builds (--models)", fix=fix)
    return sorted(path.parent.name for path in folder.glob("*/build.py"))


def folder_of(name: str, models: Path | None = None) -> Path:
    """Return the folder of a model's declaration; for `resnet50:torchscript`, the folder of `resnet50`."""
    return (models or models_folder()).resolve() / name.partition(FORM_MARK)[0]


def forms_of(name: str, models: Path | None = None) -> list[str]:
    """Return a folder's name, then those of its forms, as `load_build` accepts them.

    Raises:
        FleetError: Same as for `load_build`.
    """
    folder, _, _ = name.partition(FORM_MARK)
    return [folder, *(f"{folder}{FORM_MARK}{form}" for form in read_folder(folder, models).forms)]


def may_be_family(folder: str, models: Path | None = None) -> bool:
    """Return False if a folder's build.py, which is not run, declares no family."""
    path = folder_of(folder, models) / "build.py"
    return path.is_file() and b"Family" in path.read_bytes()


def with_members(names: Iterable[str], models: Path | None = None) -> list[str]:
    """Return these names, with those of its members in place of a family's.

    Raises:
        FleetError: A list of members cannot be read. Folders that cannot be read stay as they are.
    """
    found: list[str] = []
    for name in names:
        declared = None
        if FORM_MARK not in name and may_be_family(name, models):
            with contextlib.suppress(FleetError):  # reported when the model is built
                declared = read_folder(name, models)
        if declared is None or declared.family is None:
            found.append(name)
        else:
            found += [f"{name}{FORM_MARK}{member.name}" for member in declared.members(name)]
    return found


def load_build(name: str, models: Path | None = None) -> ModelDefinition:
    """Read the declaration of a model, without caching.

    Args:
        name: The name of its folder, or `folder:form` for one of its forms.
        models: The folder of model builds; by default that of `models_folder`.

    Raises:
        FleetError: The model or form does not exist, its build.py is not a declaration, or the declaration
            has mistakes: all of them, with their lines if known.
    """
    return read_folder(name.partition(FORM_MARK)[0], models).asked(name)


def load_builds(names: Iterable[str], models: Path | None = None) -> list[ModelDefinition]:
    """Read the declarations of several models, without caching.

    Raises:
        FleetError: Any of them cannot be read or has mistakes; all mistakes are reported.
    """
    builds: list[ModelDefinition] = []
    problems: list[Problem] = []
    owners: dict[str, str] = {}
    read = folder_reader(models)
    for name in names:
        try:
            builds.append(read(name.partition(FORM_MARK)[0]).asked(name))
        except FleetError as error:
            problems.extend(error.problems)
            continue
        other = owners.setdefault(builds[-1].name, name)
        if other != name:
            where = str(folder_of(name, models) / "build.py")
            problems.append(_taken(builds[-1].name, name, f"the name of {other} too", where))
    raise_if_any(dict.fromkeys(problems))
    return builds


def blame(error: BaseException, folder: Path) -> str:
    """Return the origin of an error as file:line if it is in a model's own folder; otherwise the folder."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if Path(frame.filename).is_relative_to(folder):
            return f"{frame.filename}:{frame.lineno}"
    return str(folder)


def fix_of(error: BaseException, *, otherwise: str) -> str:
    """Return the fix of an error that a declaration raised: for a missing module, the way to get it."""
    if not isinstance(error, ModuleNotFoundError):
        return otherwise
    folders = (Path(frame.filename).parent for frame in traceback.extract_tb(error.__traceback__))
    own = next((folder for folder in folders if (folder / "build.py").is_file()), None)
    return (
        _absent_file(error)
        or build_extra(error.name or "")
        or install_command(
            own, otherwise="install the build requirements: python -m triton_models.builds.locked build"
        )
    )


def _absent_file(error: BaseException) -> str:
    """Return the fix of an import of a file that a model's folder does not have; empty for another error."""
    package, _, module = (getattr(error, "name", None) or "").partition(".")
    if not isinstance(error, ModuleNotFoundError) or not package.startswith(_PACKAGE):
        return ""
    return f"correct the import: the model's folder has no {module.replace('.', '/')}.py"


def place_of(owner: object, field: str, folder: Path) -> str:
    """Return file:line of a field of a declared value of a folder; only the file if the line is ambiguous."""
    return Places(folder / "build.py", classes=_CLASSES).of(owner, field)


def read_folder(name: str, models: Path | None = None) -> DeclaredFolder:
    """Read the declarations of a folder.

    Raises:
        FleetError: Same as for `load_build`.
    """
    path = folder_of(name, models) / "build.py"
    if not path.is_file() or Path(name).name != name:
        raise _unknown(name, (models or models_folder()).resolve())
    if not is_name(name):
        raise _bad_declaration(path, f"the model's name {name!r}", fix=f"rename it: {NAME_RULE}")
    module = _execute(path)
    build, forms = getattr(module, "BUILD", None), getattr(module, "FORMS", {})
    family = build if isinstance(build, Family) else None
    if family is not None:
        raise_if_any(dict.fromkeys(_problems([family], path)))
        build = _sample(family, path)
    if not isinstance(build, ModelDefinition):
        raise _bad_declaration(path, f"BUILD is {build!r}", fix="write BUILD = ModelDefinition(...)")
    if family is not None and forms:
        raise _bad_declaration(path, "FORMS next to a family", fix="remove it: a family has members")
    if not isinstance(forms, Mapping) or not all(
        isinstance(form, ModelDefinition) for form in forms.values()
    ):
        fix = "write FORMS = {name: ModelDefinition(...)}"
        raise _bad_declaration(path, f"FORMS is {forms!r}", fix=fix)
    raise_if_any(dict.fromkeys(_problems((build, *forms.values()), path)))  # a form may be in FORMS twice
    if build.name != name:
        raise _bad_declaration(path, f"BUILD.name is {build.name!r}", fix=f"use the folder's name, {name!r}")
    raise_if_any(_form_names(build, forms, path))
    return DeclaredFolder(path=path, build=build, forms=forms, family=family)


def _sample(family: Family[Any], path: Path) -> ModelDefinition:
    try:
        return family.definition(family.sample)
    except FleetError:
        raise
    except Exception as error:
        raise _unreadable(path, error) from error


def _unknown(name: str, models: Path) -> FleetError:
    known = model_names(models)
    marked = [f"{each}{FORM_MARK}{name[len(each) + 1 :]}" for each in known if name.startswith(f"{each}_")]
    others = f", or use one of {', '.join(known)}" if known else ""
    hint = did_you_mean(name, known, otherwise=f"add {models / name / 'build.py'}{others}")
    fix = f"{hint} (a form would be {marked[-1]})" if marked else hint
    return UNKNOWN_MODEL.error(what=f"unknown model {name!r}", where=f"the model builds in {models}", fix=fix)


def _form_names(
    build: ModelDefinition, forms: Mapping[str, ModelDefinition], path: Path
) -> Iterator[Problem]:
    """Yield problems with names of forms: they must be unique, because forms are published under them."""
    owners = {build.name: "BUILD"}
    for form, declared in forms.items():
        for name in (form, declared.name):
            if not isinstance(name, str) or not is_name(name):
                yield _form_problem(f"the name {name!r} of a form", str(path), fix=f"rename it: {NAME_RULE}")
        if declared.name in owners:
            yield _taken(declared.name, form, f"the name of {owners[declared.name]} too", str(path))
        elif (path.parents[1] / declared.name / "build.py").is_file():
            yield _taken(declared.name, form, "a folder's too", str(path))
        owners.setdefault(declared.name, f"the form {form!r}")


def _taken(name: str, form: str, whose: str, where: str) -> Problem:
    what = f"the form {form!r} is called {name!r}, {whose}"
    return _form_problem(what, where, fix="rename it, such as <folder>_<form>")


def _form_problem(what: str, where: str, *, fix: str) -> Problem:
    why = "each form is built, published and invoked under its own name"
    return BAD_DECLARATION.problem(what=what, where=where, why=why, fix=fix)


def _problems(builds: Sequence[object], path: Path) -> Iterator[Problem]:
    declared = declared_values(*builds)
    found = [*mistakes_in(declared), *_missing_files(declared, path.parent)]
    if not found:
        return
    places = Places(path, classes=_CLASSES)
    for owner, mistake in found:
        why = "the model could not be built or served"
        yield BAD_DECLARATION.problem(
            what=mistake.what, where=places.of(owner, mistake.field), why=why, fix=mistake.fix
        )


def _missing_files(declared: Iterable[object], folder: Path) -> Iterator[tuple[object, Mistake]]:
    for model in (each for each in declared if isinstance(each, PythonModel)):
        for where, names in (("code", [model.code]), ("files", model.files)):
            for name in names if fits(names, Sequence[str]) else ():
                if not (folder / name).is_file():
                    what = f"there is no file {name!r} for the model {model.name!r}"
                    yield model, Mistake(where, what, fix=f"add it to {folder}, or correct its name")


class _FreshLoader(SourceFileLoader):
    """A loader that ignores bytecode: Python does not notice a change within a second that keeps the size."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def _execute(path: Path) -> ModuleType:
    """Run a build.py in a separate package, so that `from .network import ...` finds the file."""
    package = f"{_PACKAGE}{path.parent.name.replace('.', '%')}"  # a dot would make it a subpackage
    if package in sys.modules:
        for stale in [module for module in sys.modules if module.partition(".")[0] == package]:
            del sys.modules[stale]
    sys.modules[package] = ModuleType(package)
    sys.modules[package].__path__ = [str(path.parent)]
    loader = _FreshLoader(f"{package}.build", str(path))
    spec = importlib.util.spec_from_file_location(loader.name, path, loader=loader)
    if spec is None:
        msg = f"no loader for {path}"
        raise AssertionError(msg)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        loader.exec_module(module)
    except FleetError:
        raise
    except (Exception, SystemExit) as error:
        raise _unreadable(path, error) from error
    return module


def _unreadable(path: Path, error: BaseException) -> FleetError:
    """Report all wrong arguments with the fields of their classes, and other errors with Python's message."""
    wrong = list(Places(path, classes=_CLASSES).wrong_arguments())
    if wrong and isinstance(error, TypeError):
        return FleetError(wrong)
    own = BAD_DECLARATION.problem(
        what=f"{path.name} of model {path.parent.name!r} cannot be read: {type(error).__name__}: {error}",
        where=blame(error, path.parent),
        fix=_absent_file(error) or "fix that line; import frameworks inside functions, not at the top",
    )
    return FleetError([own, *wrong])


def _bad_declaration(path: Path, what: str, *, fix: str) -> FleetError:
    why = "folder, declaration and model share one name, by which the tools find the declaration"
    return BAD_DECLARATION.error(what=what, where=str(path), why=why, fix=fix)
