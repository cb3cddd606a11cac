"""A diff as plain text: the tree of both workflows, with ``+``, ``-`` and ``~`` in the first column.

What did not change is left out, unless it stands beside a change or around one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from penstock.engine.graph.nodes import Branch, Sequence, Step
from penstock.engine.processor.processor import given_options, option_parameters
from penstock.engine.tracing.display import visible
from penstock.pictures.labels import merge_words, policy_words, step_words

if TYPE_CHECKING:
    import inspect
    from collections.abc import Iterable, Iterator, Mapping

    from penstock.pictures.diff.entries import Entry
    from penstock.pictures.diff.fields import FieldChange, Json
    from penstock.pictures.diff.union import Line, What

SIGNS: dict[What, str] = {"same": " ", "added": "+", "removed": "-", "changed": "~"}
_LONGEST = 100
_FEW = 3
_WIDEST_TITLE = 48


def text_of(names: tuple[str, str], steps: tuple[int, int], tree: Line) -> str:
    """Return the text of a diff."""
    if not _touched(tree):
        return f"no differences between {_named(names[0], steps[0])} and {_named(names[1], steps[1])}"
    rows = list(_rows(tree.inside, 0))
    width = min(_WIDEST_TITLE, max((len(head) for head, notes in rows if notes), default=0))
    lines = [f"{head.ljust(width)}  {notes}".rstrip() if notes else head for head, notes in rows]
    top = [f"--- {_named(names[0], steps[0])}", f"+++ {_named(names[1], steps[1])}"]
    top += [f"~ {field_words(change)}" for change in tree.fields]
    return "\n".join([*top, *lines, "", summary(tree)])


def _named(name: str, steps: int) -> str:
    return f"{visible(name)} ({'1 step' if steps == 1 else f'{steps} steps'})"


def summary(tree: Line) -> str:
    """Return how much was added, removed and changed, in words."""
    counts: dict[What, int] = dict.fromkeys(("added", "removed", "changed"), 0)
    for line in every_line(tree):
        if line.what != "same":
            counts[line.what] += 1
    return ", ".join(f"{count} {what}" for what, count in counts.items() if count)


def every_line(line: Line) -> Iterator[Line]:
    """Yield a line and all those below it, from above to below."""
    waiting = [line]
    while waiting:
        one = waiting.pop()
        yield one
        waiting.extend(reversed(one.inside))


def _touched(line: Line) -> bool:
    return any(one.what != "same" for one in every_line(line))


def _rows(lines: list[Line], depth: int) -> Iterator[tuple[str, str]]:
    """Yield each row as its head and the words beside it."""
    shown = _shown([_touched(line) for line in lines])
    left_out = 0
    for line, visible_here in zip(lines, shown, strict=True):
        if not visible_here:
            left_out += sum(1 for one in every_line(line) if one.entry.kind == "step")
            continue
        yield from _unchanged(left_out, depth)
        left_out = 0
        yield from _row(line, depth)
    yield from _unchanged(left_out, depth)


def _shown(touched: list[bool]) -> list[bool]:
    """Return which lines are shown: those with a change, and their neighbours."""
    return [any(touched[max(0, place - 1) : place + 2]) for place in range(len(touched))]


def _unchanged(count: int, depth: int) -> Iterator[tuple[str, str]]:
    if count:
        yield f"  {'  ' * depth}… {count} unchanged {'step' if count == 1 else 'steps'}", ""


def _row(line: Line, depth: int) -> Iterator[tuple[str, str]]:
    indent = "  " * depth
    sign = SIGNS[line.what]
    yield f"{sign} {indent}{line.entry.title}", _notes(line.entry) if line.what in ("added", "removed") else ""
    if line.what == "changed":
        yield from ((f"~ {indent}    {words}", "") for words in changed_words(line))
    elif line.what != "same":
        yield from ((f"{sign} {indent}    {words}", "") for words in _options(line))
    if line.what != "same" or _touched(line):
        yield from _rows(line.inside, depth + 1)
    else:
        steps = sum(1 for one in every_line(line) if one.entry.kind == "step") - (line.entry.kind == "step")
        yield from _unchanged(steps, depth + 1)


def _notes(entry: Entry) -> str:
    """Return the properties of an entry in words, without its options."""
    node = entry.node
    words: tuple[str, ...] = ()
    if entry.kind in ("arm", "root"):
        return ""
    if isinstance(node, Step):
        words = step_words(node)
    elif isinstance(node, Sequence):
        words = policy_words(node.policy)
    else:
        words = (merge_words(node.merge),)
    if isinstance(node, Branch):
        words = (
            "first that holds" if node.match == "first" else "every one that holds",
            *words,
            "on_error=block" if node.on_error == "block" else "",
        )
    if entry.member is not None and entry.member.after:
        words = (f"after {value_words(entry.leaves['after'].shown)}", *words)
    return " · ".join(word for word in words if word)


def _options(line: Line) -> Iterator[str]:
    """Yield the options of a step that was added or removed: those of its constructor that have no default value."""
    for name, shown in _set_options(line.entry):
        yield f"{name}: {value_words(shown)}"


def _given(line: Line) -> Iterator[str]:
    """Yield the options of a step that is of another class now, as far as only that class has them."""
    known = line.old.leaves if line.old else {}
    for name, shown in _set_options(line.entry):
        if f"options.{name}" not in known:
            yield f"{name}: (not set) → {value_words(shown)}"


def _set_options(entry: Entry) -> Iterator[tuple[str, Json]]:
    given = given_options(entry.node.processor) if isinstance(entry.node, Step) else {}
    for name, leaf in entry.leaves.items():
        option = name.removeprefix("options.")
        if option != name and option.partition(".")[0] in given:
            yield option, leaf.shown


def changed_words(line: Line) -> list[str]:
    """Return what differs in one entry, a line each; large values that follow from the options by their names only."""
    parameters = _parameters(line.entry)
    said: list[str] = []
    follow: list[str] = []
    if any(one.name == "processor" and not one.hidden for one in line.fields):
        return [*(field_words(one) for one in line.fields if not one.only), *_given(line)]
    for change in line.fields:
        name = change.name.removeprefix("options.")
        if name != change.name and name.partition(".")[0] not in parameters and ("." in name or _is_large(change)):
            follow.append(name)
        else:
            said.append(field_words(change))
    if not said:
        return [field_words(change) for change in line.fields]
    return [*said, f"and with them {', '.join(follow)}"] if follow else said


def _is_large(change: FieldChange) -> bool:
    values = (change.before, change.after)
    return any(isinstance(one, list) and any(isinstance(item, (list, dict)) for item in one) for one in values)


def _parameters(entry: Entry) -> Mapping[str, inspect.Parameter]:
    return option_parameters(entry.node.processor) if isinstance(entry.node, Step) else {}


# Fields and values


def field_words(change: FieldChange) -> str:
    """Return one difference in words: ``strategy: 'redact' → 'block'``."""
    name = change.name.replace("policy.", "policy ", 1).removeprefix("options.")
    if change.name == "place":
        return f"moved: {_text(change.before)} → {_text(change.after)}"
    if change.hidden:
        return f"{name}: {_words_of(name, change.before)}{_hidden(change)}"
    if change.only == "after":
        return f"{name}: (not set) → {_words_of(name, change.after)}"
    if change.only == "before":
        return f"{name}: {_words_of(name, change.before)} → (not set)"
    if isinstance(change.before, list) and isinstance(change.after, list):
        several = _several(change.before, change.after)
        if several:
            return f"{name}: {several}"
    return f"{name}: {_words_of(name, change.before)} → {_words_of(name, change.after)}"


def _hidden(change: FieldChange) -> str:
    if change.before == "***":
        return " → another"
    has_code = change.name in ("processor", "condition", "merge", "after")
    return ", with other code or values" if has_code else " → another value"


def _words_of(name: str, value: Json) -> str:
    """Return a value; conditions, classes and roles as words, options as Python would write them."""
    plain = name in ("processor", "role", "edits", "on_error", "condition", "merge", "match", "name")
    return _text(value) if plain and isinstance(value, str) else value_words(value)


def _text(value: Json) -> str:
    return visible(str(value))


def value_words(value: Json) -> str:
    """Return a value as Python would write it, cut to a length that one can read."""
    words = _class(value) or repr(value)
    seen = visible(words)
    return seen if len(seen) <= _LONGEST else f"{seen[: _LONGEST - 1]}…"


def _class(value: Json) -> str:
    if isinstance(value, dict) and list(value) == ["class"]:
        return f"<{value['class']}>"
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ", ".join(map(repr, value)) if value else "none"
    return ""


def _several(before: list[Json], after: list[Json]) -> str:
    """Return what was added to a long list and what was removed from it; empty if that is not all."""
    if max(len(before), len(after)) <= _FEW or _sorted(before) == _sorted(after):
        return ""
    less = [one for one in before if one not in after]
    more = [one for one in after if one not in before]
    words = [f"-{value_words(one)}" for one in less] + [f"+{value_words(one)}" for one in more]
    return ", ".join(words) if len("".join(words)) < _LONGEST * 2 else ""


def _sorted(values: Iterable[Json]) -> list[str]:
    return sorted(map(repr, cast("Iterable[object]", values)))
