"""Load the workflow or the agent with a name: a preset, a policy file, ``module:name`` or ``path.py:name``."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import importlib.util
import inspect
import pkgutil
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.engine.processor.processor import Processor
from penstock.engine.values.errors import PenstockError
from penstock.engine.workflow import Workflow
from penstock.workflows.policies.files import is_policy_file
from penstock.workflows.review.deciding import NAMED, only_reviewers

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from types import ModuleType

    from typing_extensions import TypeIs

    from penstock.workflows.agent import Agent
    from penstock.workflows.policies import PolicyDocument
    from penstock.workflows.policies.files import FileState
    from penstock.workflows.policies.problems import PolicyError, PolicyProblem
    from penstock.workflows.review.deciding import MayDecide


class LoadingError(PenstockError):
    """A workflow that cannot be found or loaded. An error of the user's code, or a `PolicyError`, is the ``__cause__``.

    Attributes:
        reference: the name that was given.
        problem: the fault and its cure.
        file: the file that was read and lacks the named object; None for other problems.
    """

    def __init__(self, reference: str, problem: str) -> None:
        self.reference = reference
        self.problem = problem
        self.file: str | None = None
        super().__init__(f"cannot load {reference!r}: {problem}")


def load_workflow(reference: str) -> Workflow:
    """Return the workflow with a name.

    Args:
        reference: the name of a preset, a policy file (``policy.yaml``, ``.yml`` or ``.json``, also with a profile,
            ``policy.yaml:staging``), ``module:name``, or ``path.py:name``. Without ``:name``, the module or file must
            hold exactly one workflow. The name may be dotted. It may refer to a workflow, to a processor (which becomes
            a workflow of one step), or to a function without arguments that returns either.

    Raises:
        LoadingError: nothing has that name, or the user's code failed while it was loaded.
    """
    source, name = _split(reference)
    if (made := _without_python(reference, source, name)) is not None:
        return made
    module = _module(reference, source, name)
    with _placed(module):
        return _as_workflow(reference, name, _by_name(reference, module, name)) if name else _only(reference, module)


def load_workflow_or_agent(reference: str) -> Workflow | Agent:
    """Return the workflow or the agent with a name.

    Args:
        reference: as for `load_workflow`; the name may also refer to an agent, or to a function that returns one.
            Without ``:name``, the module or file must hold exactly one workflow, or one agent and no workflow.

    Raises:
        LoadingError: nothing has that name, or the user's code failed while it was loaded.
    """
    source, name = _split(reference)
    if (read := _without_python(reference, source, name)) is not None:
        return read
    module = _module(reference, source, name)
    with _placed(module):
        if not name:
            agents = {id(value): value for value in vars(module).values() if _is_agent(value)}
            alone = len(agents) == 1 and not _workflows_of(module)
            return next(iter(agents.values())) if alone else _only(reference, module)
        found = _by_name(reference, module, name)
        made = _made(reference, name, found)
        return made if _is_agent(made) else _as_workflow(reference, name, found, made)


def load_rule(reference: str | None, folder: str = "") -> MayDecide | None:
    """Return the rule about who may decide that a command line or a file names; None if it names none.

    Args:
        reference: ``reviewers`` for `only_reviewers`, ``module:name`` or ``path.py:name`` of a function.
        folder: where a file is found that is named without a folder of its own.

    Raises:
        LoadingError: nothing has that name, it cannot be called, or the user's code failed while it was loaded.
    """
    if not reference:
        return None
    if reference == NAMED:
        return only_reviewers
    source, name = _split(reference)
    if not name:
        raise LoadingError(reference, f"name a function: module:name or path.py:name; or write {NAMED}")
    source = str(Path(folder) / source) if source.endswith(".py") else source
    found: MayDecide = _by_name(reference, _module(reference, source, name), name)
    if not callable(found):
        raise LoadingError(reference, f"{name} is no function, but of type {type(found).__name__}")
    return found


def _is_agent(value: object) -> TypeIs[Agent]:
    """Return whether a value is an agent; the module of agents is not loaded for it."""
    module = sys.modules.get("penstock.workflows.agent.agent")
    return module is not None and isinstance(value, module.Agent)


def _module(reference: str, source: str, name: str) -> ModuleType:
    return _from_file(reference, source) if _is_file(source) else _from_module(reference, source, named=bool(name))


def from_anywhere(reference: str) -> str:
    """Return a name by which a process with another working directory finds the same workflow, on the same disk."""
    source, name = _split(reference)
    if not _is_file(source):
        return reference
    if is_policy_file(source) and not name:  # the environment of that process may name another profile, or none
        name = _read_policy(reference, source, name).profile or ""
    return f"{Path(source).absolute()}{':' if name else ''}{name}"


def _split(reference: str) -> tuple[str, str]:
    source, colon, name = reference.rpartition(":")
    if not colon or _is_file(name):  # without a name; in C:\\guards.py the colon belongs to the drive
        return reference, ""
    if not source or not name:
        raise LoadingError(
            reference, "one side of the ':' is empty; write module:name, path.py:name or policy.yaml:profile"
        )
    return source, name


def _presets() -> Mapping[str, Callable[..., Workflow]]:
    from penstock.workflows.presets import PRESETS  # a workflow from a file does not need all built-in processors

    return PRESETS


def _without_python(reference: str, source: str, name: str) -> Workflow | None:
    """Return the workflow of a policy file, or a preset; None for names in Python."""
    if is_policy_file(source):
        return _read_policy(reference, source, name).workflow
    if (shipped := shipped_policy(source)) is not None:
        return _read_policy(reference, shipped, name).workflow
    return None if name else _preset(source)


def shipped_policy(source: str) -> str | None:
    """Return the path of a policy file that the package holds, by its name, such as ``coding``; None for others."""
    if not source.replace("-", "").isalpha():
        return None
    file = Path(__file__).with_name("hooks") / "ready" / f"{source}.yaml"
    return str(file) if file.is_file() else None


def shipped_policies() -> tuple[str, ...]:
    """Return the names of the policy files that the package holds."""
    return tuple(sorted(file.stem for file in (Path(__file__).with_name("hooks") / "ready").glob("*.yaml")))


def _preset(source: str) -> Workflow | None:
    """Return the preset with a name; None for other sources."""
    return _presets()[source]() if not _is_file(source) and source in _presets() else None


def _read_policy(reference: str, source: str, profile: str) -> PolicyDocument:
    """Return a policy file.

    Raises:
        LoadingError: the file has problems; its ``__cause__`` is the `PolicyError`.
    """
    from penstock.workflows.policies import PolicyError, read_policy  # workflows of other files need no YAML

    try:
        return read_policy(source, profile=profile or None)
    except PolicyError as error:
        raise faulty_file(reference, error) from error


def policy_documents(reference: str) -> list[PolicyDocument]:
    """Return a policy file without a profile, and with each of its profiles; only one if a profile is chosen.

    Args:
        reference: as for `load_workflow`. Nothing is returned for other names than that of a policy file.

    Raises:
        LoadingError: the file has problems; those that it has only with a profile are told together with the others.
    """
    source, name = _split(reference)
    if not is_policy_file(source):
        return []
    from penstock.workflows.policies import PolicyError, read_policy  # as above

    made: list[PolicyDocument] = []
    found: list[PolicyProblem] = []
    files: dict[str, FileState | None] = {}
    profiles: list[str] = [name]
    for profile in profiles:  # the first reading says which further ones there are
        try:
            made.append(read_policy(source, profile=profile or None))
            unread = () if made[-1].profile is not None else made[-1].profiles
        except PolicyError as error:
            found += error.problems
            files |= error.files
            unread = error.profiles
        if profile == name:
            profiles += unread
    if found:
        every = PolicyError(found, files)
        raise faulty_file(reference, every) from every
    return made


def faulty_file(reference: str, error: PolicyError) -> LoadingError:
    """Return the error of a command that a policy or gateway file cannot be used, with all of its problems."""
    count = len(error.problems)
    return LoadingError(reference, f"it has {'a problem' if count == 1 else f'{count} problems'}:\n{error}")


def with_profile(reference: str, profile: str | None) -> str:
    """Return the name of a policy file with a profile, if it names none; other names as they are."""
    source, name = _split(reference)
    return f"{reference}:{profile}" if profile and not name and is_policy_file(source) else reference


def _is_file(source: str) -> bool:
    return source.endswith(".py") or is_policy_file(source) or "/" in source or "\\" in source


# The module


def _from_file(reference: str, source: str) -> ModuleType:
    path = Path(source)
    if path.is_dir():
        raise LoadingError(reference, f"{source} is a folder; name a file in it: {source.rstrip('/')}/<file>.py:name")
    if not path.is_file():
        raise LoadingError(reference, _missing_file(path))
    label = f"penstock_file_{path.stem}"  # differs from the name of any module that can be imported
    spec = importlib.util.spec_from_file_location(label, path)
    if spec is None or spec.loader is None:
        raise LoadingError(reference, f"{source} is not a Python file; its name must end with .py")
    module = importlib.util.module_from_spec(spec)
    _add_to_path(str(path.resolve().parent))  # as `python path.py` does, so that the file finds its neighbours
    sys.modules[label] = module  # dataclasses and pickle look the module up
    try:
        with _explained(reference, str(path)):
            spec.loader.exec_module(module)
    except LoadingError:
        del sys.modules[label]
        raise
    return module


def _missing_file(path: Path) -> str:
    beside = [other.name for other in path.parent.glob("*.py")] if path.parent.is_dir() else []
    close = difflib.get_close_matches(path.name, beside, n=1)
    if close:
        return f"there is no file {path}; did you mean {path.with_name(close[0])}?"
    if not path.parent.is_dir():
        return f"there is no folder {path.parent}"
    return f"there is no file {path} (the current folder is {Path.cwd()})"


def _from_module(reference: str, source: str, *, named: bool) -> ModuleType:
    if not all(part.isidentifier() for part in source.split(".")):
        raise LoadingError(reference, _no_module(source, named=named))
    _add_to_path(str(Path.cwd()))  # a console script does not look into the folder it is called from
    try:
        with _explained(reference, source):
            return importlib.import_module(source)
    except LoadingError as error:
        if not (isinstance(error.__cause__, ModuleNotFoundError) and _is_own(error.__cause__.name, source)):
            raise
        raise LoadingError(reference, _no_module(source, named=named)) from error.__cause__


def _is_own(missing: str | None, source: str) -> bool:
    """Return whether the missing module is the one that was asked for, or a package above it."""
    return missing is not None and (source == missing or source.startswith(f"{missing}."))


def _no_module(source: str, *, named: bool) -> str:
    if Path(f"{source}.py").is_file():  # only a name that is not an identifier gets here
        return f"there is no module of that name; for the file write {source}.py:name"
    if named:
        file = f"path/{source.rpartition('.')[2]}.py"
        return f"there is no module {source!r}; for a file write its path, with .py: {file}:name"
    if _is_built_in(source):
        line = f"guard = Workflow('guard').then({source}(...))"
        return f"it is a processor, which runs as a step of a workflow; write in a file {line}, and run path.py:guard"
    names = sorted([*_presets(), *shipped_policies()])
    close = difflib.get_close_matches(source, names, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"the presets are {', '.join(names)}"
    return f"there is no preset or module of that name; {hint} (or write module:name or path.py:name)"


def _is_built_in(name: str) -> bool:
    import penstock.processors

    modules = [module.name for module in pkgutil.iter_modules(penstock.processors.__path__, "penstock.processors.")]
    found = [getattr(importlib.import_module(module), name, None) for module in modules]
    return any(inspect.isclass(each) and issubclass(each, Processor) for each in found)


def _add_to_path(folder: str) -> None:
    if folder not in sys.path:
        sys.path.insert(0, folder)


@contextlib.contextmanager
def _explained(reference: str, where: str) -> Generator[None]:
    """Turn any exception of the user's code into a `LoadingError`."""
    try:
        yield
    except SyntaxError as error:
        place = f"{error.filename or where}, line {error.lineno}"
        raise LoadingError(reference, f"syntax error in {place}: {error.msg}") from error
    except ModuleNotFoundError as error:
        problem = f"{where} imports {error.name!r}, which is not installed in {sys.prefix}"
        raise LoadingError(reference, problem) from error
    except SystemExit as error:
        cure = "put the code of the script under: if __name__ == '__main__':"
        raise LoadingError(reference, f"{where} ends the program while it is imported; {cure}") from error
    except Exception as error:
        place = _raised_at(error, where)
        raise LoadingError(reference, f"{place} raised {type(error).__name__}: {error}") from error


def _raised_at(error: Exception, where: str) -> str:
    """Return the file and line of the user's code that led to the error."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).name == Path(where).name]
    return f"{own[-1].filename}, line {own[-1].lineno}," if own else where


# The name in the module


@contextlib.contextmanager
def _placed(module: ModuleType) -> Generator[None]:
    """Name the module's file in errors that say that it lacks the named object."""
    try:
        yield
    except LoadingError as error:
        if error.__cause__ is None:
            error.file = module.__file__
        raise


def _by_name(reference: str, module: ModuleType, name: str) -> Any:
    found: Any = module
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise LoadingError(reference, _no_attribute(module, found, part)) from None
    return found


def _no_attribute(module: ModuleType, holder: Any, part: str) -> str:
    where = _label(module) if holder is module else type(holder).__name__
    close = difflib.get_close_matches(part, [name for name in dir(holder) if not name.startswith("_")], n=1)
    if close:
        return f"{where} has no {part!r}; did you mean {close[0]!r}?"
    return f"{where} has no {part!r}; {_candidates(module)}"


def _candidates(module: ModuleType) -> str:
    names = sorted(_workflows_of(module))
    if not names:
        return "it has no workflow; write one: name = Workflow('name').then(...)"
    return f"the workflows in it are: {', '.join(names)}"


def _made(reference: str, name: str, found: Any) -> Any:
    """Return the value itself, or its result if it is a function that can be called without arguments."""
    if not _is_factory(found):
        return found
    with _explained(reference, f"{name}()"):
        return found()


_NOT_MADE: Any = object()


def _as_workflow(reference: str, name: str, found: Any, made: Any = _NOT_MADE) -> Workflow:
    if made is _NOT_MADE:
        made = _made(reference, name, found)
    if isinstance(made, Workflow):
        return made
    if _is_processor(made):
        return Workflow(made.id).then(made)
    raise LoadingError(reference, _wrong_kind(name, made, called=made is not found))


def _is_processor(found: object) -> TypeIs[Processor[Any]]:
    return isinstance(found, Processor)


def _is_factory(found: Any) -> bool:
    """Return whether it is a function that can be called without arguments."""
    if not inspect.isfunction(found):
        return False
    parameters = inspect.signature(found).parameters.values()
    return all(p.default is not p.empty or p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters)


def _wrong_kind(name: str, found: object, *, called: bool) -> str:
    if inspect.iscoroutine(found):
        found.close()
        return f"{name}() is async; a workflow is made by a plain function"
    if inspect.isclass(found) and issubclass(found, Processor):
        return f"{name} is a class; name an instance of it: guard = {name}(...)"
    if inspect.isfunction(found):
        return f"{name}() needs arguments; name a workflow, or a function that can be called without any"
    what = f"{name}() returned" if called else f"{name} is"
    kind = type(found).__name__
    return f"{what} {'an' if kind[0].lower() in 'aeiou' else 'a'} {kind}, but must be a Workflow"


def _only(reference: str, module: ModuleType) -> Workflow:
    found = _workflows_of(module)
    if len(found) == 1:
        return next(iter(found.values()))
    if not found:
        raise LoadingError(reference, f"{_label(module)}: {_candidates(module)}")
    ways = " or ".join(f"{reference}:{name}" for name in sorted(found))
    raise LoadingError(reference, f"{_label(module)} holds {len(found)} workflows; say which: {ways}")


def _workflows_of(module: ModuleType) -> dict[str, Workflow]:
    """Return the public workflows of a module by name; one with several names is listed once."""
    found: dict[int, tuple[str, Workflow]] = {}
    for name, value in vars(module).items():
        if isinstance(value, Workflow) and not name.startswith("_"):
            found.setdefault(id(value), (name, value))
    return dict(found.values())


def _label(module: ModuleType) -> str:
    own_file = module.__name__.startswith("penstock_file_")
    return str(module.__file__) if own_file else f"module {module.__name__}"
