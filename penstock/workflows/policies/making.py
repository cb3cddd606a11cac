"""Make a processor or a workflow of ``use:`` and ``with:``. Every wrong option is told, each at its place."""

from __future__ import annotations

import difflib
import re
from contextlib import suppress
from typing import TYPE_CHECKING

from penstock.engine.processor.processor import AnyProcessor, is_processor
from penstock.engine.values.errors import OptionError, PenstockError
from penstock.engine.workflow import Workflow
from penstock.workflows.policies.option_values import wrong_values
from penstock.workflows.policies.options import option_names, required_names
from penstock.workflows.policies.problems import suggestion
from penstock.workflows.policies.registry import NoMakerError, known_names, maker_of
from penstock.workflows.policies.yaml_nodes import MappingNode, ScalarNode, places, plain_data

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.engine.values.frozen import Value
    from penstock.workflows.policies.problems import FilePlace, Problems
    from penstock.workflows.policies.registry import Maker
    from penstock.workflows.policies.yaml_nodes import PolicyNode


def made_of(
    use: ScalarNode, options: PolicyNode | None, id: ScalarNode | None, problems: Problems
) -> AnyProcessor | Workflow | None:
    """Return the processor or the workflow of a name and its options; None if it cannot be made.

    Args:
        use: the name, as `maker_of` reads it.
        options: the options; None or null: none.
        id: the id of the step. A processor that takes an ``id`` gets it, so that its facts have that name.
        problems: takes the faults.
    """
    maker = _maker(use, problems)
    if isinstance(options, ScalarNode) and options.value is None:
        options = None
    if options is not None and not isinstance(options, MappingNode):
        problems.add(options.place, "with: takes options by name, as in `with: {strategy: block}`")
        return None
    if maker is None:
        return None
    given = options or MappingNode(use.place)
    if id is not None and "id" not in given.entries and "id" in (option_names(maker) or ()):
        given = MappingNode(given.place, {**given.entries, "id": (id, ScalarNode(id.place, id.text, quoted=True))})
    return _made(use, maker, given, problems)


def _maker(use: ScalarNode, problems: Problems) -> Maker | None:
    try:
        return maker_of(use.text)
    except NoMakerError as error:
        told = str(error.args[0])
        problem = f"unknown processor {use.text}; {suggestion(use.text, known_names())}" if told == use.text else told
        problems.add(use.place, problem)
    except PenstockError as error:  # of an extra that is not installed
        problems.add(use.place, str(error))
    return None


def _made(use: ScalarNode, maker: Maker, options: MappingNode, problems: Problems) -> AnyProcessor | Workflow | None:
    """Make it; the options that exist are tried even if others do not, so that all that is wrong is told."""
    known = len(problems)
    whole = _without_wrong(use, maker, _without_faulty(options, problems), problems)
    given = _given(use, maker, whole, problems)
    for name in required_names(maker):
        if name not in options.entries:
            problems.add(use.place, f"{use.text} needs the option {name}; add `with: {{{name}: …}}`")
    made = _tried(use, maker, whole, given, problems, faulty=whole is not options)
    if len(problems) > known or whole is not options:
        return None
    if isinstance(made, Workflow) or is_processor(made):
        return made
    problems.add(use.place, f"{use.text} makes a {type(made).__name__}, but must make a processor or a workflow")
    return None


def _without_faulty(options: MappingNode, problems: Problems) -> MappingNode:
    """Return the options without those whose values could not be filled in, which was told before."""
    if not problems.faulty:
        return options
    entries = {name: entry for name, entry in options.entries.items() if problems.faulty.isdisjoint(places(entry[1]))}
    return options if len(entries) == len(options.entries) else MappingNode(options.place, entries)


def _without_wrong(use: ScalarNode, maker: Maker, options: MappingNode, problems: Problems) -> MappingNode:
    """Return the options without those whose values have another form than their types ask for; these are told."""
    wrong = wrong_values(use.text, maker, options)
    for faults in wrong.values():
        for place, told in faults:
            problems.add(place, told)
    kept = {name: entry for name, entry in options.entries.items() if name not in wrong}
    return MappingNode(options.place, kept) if wrong else options


def _given(use: ScalarNode, maker: Maker, options: MappingNode, problems: Problems) -> dict[str, Value]:
    """Return the values of the options that the maker has; others are told."""
    names = option_names(maker)
    given: dict[str, Value] = {}
    for name, (key, value) in options.entries.items():
        if name == "id" and isinstance(value, ScalarNode) and value.text == getattr(maker, "id", None):
            continue  # it has that one anyway
        if names is None or name in names:
            given[name] = plain_data(value)
        else:
            problems.add(key.place, f"{use.text} has no option {name}; {suggestion(name, names)}")
    return given


def _tried(
    use: ScalarNode, made_by: Maker, options: MappingNode, given: dict[str, Value], problems: Problems, *, faulty: bool
) -> object:
    """Call the maker. It tells the first wrong option only, so it is called again without that one."""
    maker: Callable[..., object] = made_by  # it may be anybody's
    known = len(problems)
    required = {*required_names(made_by)}
    while given.keys() >= required:
        try:
            return maker(**given)
        except OptionError as error:
            name = _option_in(given, error.option) or _blamed(maker, given, required, error)
            if name or (len(problems) == known and not faulty):  # else it lacks an option that was wrong
                lacking = error.option not in given and error.option in (option_names(made_by) or ())
                told = _told(use.text, "" if lacking else name, error)
                problems.add(_place_of(options, name, use.place), told)
            if not name:
                return None
            del given[name]
        except PenstockError as error:
            if not faulty:
                problems.add(use.place, str(error))
            return None
        except Exception as error:  # noqa: BLE001 - what a constructor makes of a value of another type
            problems.add(options.place, f"{use.text} cannot be made of these options ({type(error).__name__}: {error})")
            return None
    return None


def likely_made(name: str, id: str | None) -> AnyProcessor | None:
    """Return the processor of a name, or of the name that comes closest, without options; None if there is none.

    Its facts are those of the step that was meant.
    """
    names = known_names()
    close = [name] if name in names else difflib.get_close_matches(name, names, n=1)
    try:
        made = maker_of(close[0])(**({} if id is None or not takes_id(close[0]) else {"id": id})) if close else None
    except Exception:  # noqa: BLE001 - it needs options
        return None
    return made if is_processor(made) else None


def _told(use: str, name: str, error: OptionError) -> str:
    """Return the message about an option in words of a file.

    Args:
        use: the name of the step.
        name: the option of the step that is to blame; empty: one that is missing.
        error: the error. A preset's is that of a processor in it, whose option may have another name.
    """
    allowed = _in_words(error.allowed)
    if not name:
        return f"{use} needs the option {error.option}: {allowed}"
    before, after = f"{error.processor}: option {error.option!r} is ", f", but must be {error.allowed}"
    shown = str(error).removeprefix(before).removesuffix(after)
    option = error.option if _base_of(error.option) == name else name
    return f"{use}: option {option!r} is {_in_words(shown)}, but must be {allowed}"


def _in_words(text: str) -> str:
    """Return a text about options without the signs of Python: ``true`` for ``True``, ``model:`` for ``model=``."""
    text = re.sub(r"\b(True|False)\b", lambda found: found[0].lower(), text)
    text = re.sub(r"\bNone\b", "null", text).replace("a non-empty str", "a text").replace("()", "an empty list")
    return re.sub(r"\b([a-z_]+)=(?![=\w])", r"\1:", re.sub(r"\b([a-z_]+)=(?=[\w'\"\[{])", r"\1: ", text))


def _base_of(option: str) -> str:
    """Return the option without a key in it: a constructor may name one (``threshold[hate]``)."""
    return option.partition("[")[0].partition(".")[0]


def _option_in(given: dict[str, Value], option: str) -> str:
    """Return the option that an error is about; empty: none of those that are given has that name."""
    return option if option in given else _base_of(option) if _base_of(option) in given else ""


def _blamed(maker: Callable[..., object], given: dict[str, Value], required: set[str], error: OptionError) -> str:
    """Return the option without which an error about another name does not come; empty: there is none.

    A preset hands its options on under other names: ``languages`` of ``safety`` are ``target_languages`` of a guard.
    """
    for name in given:
        rest = {one: value for one, value in given.items() if one != name}
        if name in required:
            continue
        with suppress(Exception):  # without this option, it fails in another way
            try:
                maker(**rest)
            except OptionError as other:
                if (other.processor, other.option) == (error.processor, error.option):
                    continue
            return name
    return ""


def _place_of(options: MappingNode, name: str, otherwise: FilePlace) -> FilePlace:
    found = options.entries.get(name)
    return otherwise if found is None else found[1].place


def takes_id(name: str) -> bool:
    """Return whether the maker of the step of a name has the option ``id``, so that it gets that of the step."""
    return "id" in (option_names(maker_of(name)) or ())
