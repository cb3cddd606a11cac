"""A diff as plain text: the tree of both workflows, with ``+``, ``-`` and ``~`` in the first column.

Unchanged parts are left out, unless they stand beside a change or around one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from penstock.engine.processor.processor import given_options, option_parameters
from penstock.engine.tracing.display import short, visible
from penstock.pictures.labels import step_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.pictures.diff.fields import FieldChange, Json
    from penstock.pictures.diff.union import DiffLine, What
    from penstock.pictures.scene import Part

SIGNS: dict[What, str] = {"same": " ", "added": "+", "removed": "-", "changed": "~"}
_LONGEST = 100
_FEW = 3
_WIDEST_TITLE = 48


def text_of(names: tuple[str, str], steps: tuple[int, int], tree: DiffLine) -> str:
    """Return the text of a diff."""
    if not tree.touched:
        return f"no differences between {_named(names[0], steps[0])} and {_named(names[1], steps[1])}"
    rows = list(_rows(tree.inside, 0))
    width = min(_WIDEST_TITLE, max((len(head) for head, notes in rows if notes), default=0))
    lines = [f"{head.ljust(width)}  {notes}".rstrip() if notes else head for head, notes in rows]
    top = [f"--- {_named(names[0], steps[0])}", f"+++ {_named(names[1], steps[1])}"]
    top += [f"~ {field_words(change)}" for change in tree.fields]
    return "\n".join([*top, *lines, "", summary(tree)])


def _named(name: str, steps: int) -> str:
    return f"{visible(name)} ({'1 step' if steps == 1 else f'{steps} steps'})"


def summary(tree: DiffLine) -> str:
    """Return how much was added, removed and changed, in words."""
    said = [line.what for line in tree.walk()]
    return ", ".join(f"{said.count(what)} {what}" for what in ("added", "removed", "changed") if what in said)


def _rows(lines: list[DiffLine], depth: int) -> Iterator[tuple[str, str]]:
    """Yield each row as its head and the words beside it; only parts with a change, and their neighbours."""
    touched = [line.touched for line in lines]
    left_out = 0
    for place, line in enumerate(lines):
        if any(touched[max(0, place - 1) : place + 2]):
            yield from _unchanged(left_out, depth)
            left_out = 0
            yield from _row(line, depth)
        else:
            left_out += sum(1 for one in line.walk() if one.part.step)
    yield from _unchanged(left_out, depth)


def _unchanged(count: int, depth: int) -> Iterator[tuple[str, str]]:
    if count:
        yield f"  {'  ' * depth}… {count} unchanged {'step' if count == 1 else 'steps'}", ""


def _row(line: DiffLine, depth: int) -> Iterator[tuple[str, str]]:
    indent = "  " * depth
    sign = SIGNS[line.what]
    yield f"{sign} {indent}{_title(line.part)}", _notes(line) if line.what in ("added", "removed") else ""
    if line.what != "same":
        options = (f"{name}: {value_words(value)}" for name, value in _set_options(line))
        words = changed_words(line) if line.what == "changed" else options
        yield from ((f"{sign} {indent}    {one}", "") for one in words)
    if line.touched:
        yield from _rows(line.inside, depth + 1)
    else:
        yield from _unchanged(sum(1 for one in line.walk() if one.part.step and one is not line), depth + 1)


def _title(part: Part) -> str:
    """Return the name of a part, without its properties."""
    if part.kind == "arm":
        return part.label
    own = short(part.id)
    title = own if part.step else f"workflow {own}" if part.kind == "workflow" else part.kind
    return title if part.member in ("", part.id) else f"{short(part.member)}: {title}"


def _notes(line: DiffLine) -> str:
    """Return the properties of a part that was added or removed in words, without its options."""
    part = line.part
    words = step_words(part.step) if part.step else (*part.notes[:1], *part.merging, *part.notes[1:])
    after = [f"after {value_words(one.after)}" for one in line.fields if one.name == "after" and part.after]
    return " · ".join([*after, *words])


def _set_options(line: DiffLine) -> Iterator[tuple[str, Json]]:
    """Yield the options of a step that only one workflow has: those of its constructor without their default value."""
    given = given_options(line.part.step.processor) if line.part.step else {}
    side = "before" if line.what == "removed" else "after"
    for change in line.fields:
        name = change.name.removeprefix("options.")
        if change.only == side and name != change.name and name.partition(".")[0] in given:
            yield name, change.after


def changed_words(line: DiffLine) -> list[str]:
    """Return the differences of one part, a line each; of large values that follow from its options only the names."""
    parameters = tuple(option_parameters(line.part.step.processor)) if line.part.step else ()
    said: list[str] = []
    follow: list[str] = []
    if any(one.name == "processor" and not one.hidden for one in line.fields):
        given = [f"{name}: (not set) → {value_words(value)}" for name, value in _set_options(line)]
        return [*(field_words(one) for one in line.fields if not one.only), *given]
    for change in line.fields:
        name = change.name.removeprefix("options.")
        large = any(
            isinstance(value, list) and any(isinstance(item, (list, dict)) for item in value)
            for value in (change.before, change.after)
        )
        if name != change.name and name.partition(".")[0] not in parameters and ("." in name or large):
            follow.append(name)
        else:
            said.append(field_words(change))
    if not said:
        return [field_words(change) for change in line.fields]
    return [*said, f"and with them {', '.join(follow)}"] if follow else said


# Fields and values


def field_words(change: FieldChange) -> str:
    """Return one difference in words: ``strategy: 'redact' → 'block'``."""
    name = change.name.replace("policy.", "policy ", 1).removeprefix("options.")
    if change.name == "place":
        return f"moved: {_text(change.before)} → {_text(change.after)}"
    if change.hidden:
        has_code = change.name in ("processor", "condition", "merge", "after")
        how = ", with other code or values" if has_code else " → another value"
        return f"{name}: {_words_of(name, change.before)}{' → another' if change.before == '***' else how}"
    if change.only == "after":
        return f"{name}: (not set) → {_words_of(name, change.after)}"
    if change.only == "before":
        return f"{name}: {_words_of(name, change.before)} → (not set)"
    if isinstance(change.before, list) and isinstance(change.after, list):
        several = _several(change.before, change.after)
        if several:
            return f"{name}: {several}"
    return f"{name}: {_words_of(name, change.before)} → {_words_of(name, change.after)}"


def _words_of(name: str, value: Json) -> str:
    """Return a value; conditions, classes and roles as words, options as Python would write them."""
    plain = name in ("processor", "role", "edits", "on_error", "condition", "merge", "match", "name")
    return _text(value) if plain and isinstance(value, str) else value_words(value)


def _text(value: Json) -> str:
    return visible(str(value))


def value_words(value: Json) -> str:
    """Return a value as Python would write it, cut to a length that one can read."""
    words = repr(value)
    if isinstance(value, dict) and list(value) == ["class"]:
        words = f"<{value['class']}>"
    elif isinstance(value, list) and all(isinstance(one, str) for one in value):
        words = ", ".join(map(repr, value)) or "none"
    seen = visible(words)
    return seen if len(seen) <= _LONGEST else f"{seen[: _LONGEST - 1]}…"


def _several(before: list[Json], after: list[Json]) -> str:
    """Return the items that were added to a long list and removed from it; empty if something else changed, too."""
    if max(len(before), len(after)) <= _FEW or _sorted(before) == _sorted(after):
        return ""
    less = [one for one in before if one not in after]
    more = [one for one in after if one not in before]
    words = [f"-{value_words(one)}" for one in less] + [f"+{value_words(one)}" for one in more]
    return ", ".join(words) if len("".join(words)) < _LONGEST * 2 else ""


def _sorted(values: Iterable[Json]) -> list[str]:
    return sorted(map(repr, cast("Iterable[object]", values)))
