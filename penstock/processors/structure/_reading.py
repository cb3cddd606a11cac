"""The object that an answer holds: found, validated, the only one that may be meant. It knows forms, no run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from penstock.engine.values.frozen import is_items, is_mapping
from penstock.processors.structure._finding import groups, guessed, spoken
from penstock.processors.structure._problems import UnfitError, unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.engine.values.frozen import Value
    from penstock.processors.structure._form import Form

_MOST_TRIED = 100  # values of one answer
_MOST_OUT_OF_ORDER = (
    1_000  # words that stand in a text elsewhere than an object has them: each takes a look at all of it
)


class Read(NamedTuple):
    """An object, as it was written: the JSON values, and the value that they hold."""

    data: Value
    value: Value


def read(text: str, form: Form, *, guesses: bool = False) -> Read:
    """Return the object that an answer holds.

    Args:
        text: the answer.
        form: what the object must look like.
        guesses: whether what broken JSON was meant to be may be guessed.

    Raises:
        UnfitError: it holds none, or several that differ.
    """
    said = spoken(text)
    if not said:
        raise unreadable("it is empty", "empty")
    wrong: UnfitError | None = None
    try:
        for found in groups(said):
            fitting, misfit = _fitting(found, form)
            if fitting is not None:
                return fitting
            wrong = wrong or misfit
    except UnfitError as error:
        wrong = wrong or error
    return _otherwise(said, form, wrong or unreadable("there is no JSON in it"), guesses=guesses)


def _otherwise(said: str, form: Form, wrong: UnfitError, *, guesses: bool) -> Read:
    """Return what a text is without having any JSON in it, or what it probably was to be."""
    tried: list[Value] = [said] if form.takes_text else []
    fitting, _ = _fitting([*tried, *(guessed(said) if guesses else ())], form)
    if fitting is None:
        raise wrong
    return fitting


def _fitting(found: Iterable[Value], form: Form) -> tuple[Read | None, UnfitError | None]:
    """Return the only value that fits, and what is wrong with the first that does not.

    Raises:
        UnfitError: several fit, and they differ: one may be quoted from somewhere.
    """
    fits: list[Read] = []
    wrong: UnfitError | None = None
    for number, data in enumerate(found):
        if number == _MOST_TRIED:
            raise unreadable("there is too much JSON in it")
        try:
            fits.append(Read(data, form.value(data)))
        except UnfitError as error:
            wrong = wrong or error
    if any(other.data != fits[0].data for other in fits):
        raise unreadable("there are several objects in it, and they differ", "ambiguous")
    return (fits[0] if fits else None), wrong


def stands_in(data: Value, text: str) -> bool:
    """Tell whether all that JSON values say stands in a text as it is: who has read the text has read them.

    What is written as an escape does not: it hides what it means from whoever reads the text. Words stand there in
    order, so each is looked for behind the last; where too many are not, it is said that they do not stand there.
    """
    place, left = 0, _MOST_OUT_OF_ORDER
    for word in _words(data):
        found = text.find(word, place)
        if found >= 0:
            place = found + len(word)
        elif left and word in text:
            left -= 1
        else:
            return False
    return True


def _words(data: Value) -> Iterator[str]:
    if is_mapping(data):
        for key, item in data.items():
            yield str(key)
            yield from _words(item)
    elif is_items(data):
        for item in data:
            yield from _words(item)
    elif isinstance(data, str):
        yield data
    elif isinstance(data, (int, float)) and not isinstance(data, bool):
        yield json.dumps(data)
