"""`HiddenTexts`: lines that guards took out of results, to see whether a product has used the original after all."""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import TYPE_CHECKING

from penstock.engine.values.texts import KeyText, leaves

if TYPE_CHECKING:
    from penstock.formats.wire import Value

_RESULTS = 200
_LEAST, _LEAST_WITHHELD = 4, 16  # characters of a line that tells the original from another version


class HiddenTexts:
    """The lines that results no longer had after the guards, by the id of their calls. Keeps the last 200 results."""

    def __init__(self) -> None:
        self._lines: OrderedDict[str, frozenset[str]] = OrderedDict()

    def note(self, call_id: str, before: Value, after: Value, arguments: Value = None) -> None:
        """Note a result.

        Args:
            call_id: the id of the call.
            before: the result as the tool wrote it.
            after: the result as the guards left it; None if it was withheld.
            arguments: the arguments of the call, which the model knows.
        """
        if not call_id:
            return
        least = _LEAST if after is not None else _LEAST_WITHHELD
        gone = _lines(before) - _lines(after) - _lines(arguments)
        self._lines.pop(call_id, None)
        self._lines[call_id] = frozenset(line for line in gone if len(line) >= least) or gone
        while len(self._lines) > _RESULTS:
            self._lines.popitem(last=False)

    def knows(self, call_id: str) -> bool:
        """Return whether the result of a call was noted."""
        return call_id in self._lines

    def stand_in(self, call_id: str, value: Value) -> bool:
        """Return whether lines that were hidden in the result of a call stand in a value."""
        hidden = self._lines.get(call_id, frozenset())
        if not hidden:
            return False
        text = "\n".join(text for _, text in leaves(value))
        return any(line in text or json.dumps(line, ensure_ascii=False)[1:-1] in text for line in hidden)


def _lines(value: Value) -> frozenset[str]:
    values = (text for path, text in leaves(value) if not path or not isinstance(path[-1], KeyText))
    lines = (line.strip() for text in values for line in text.splitlines())
    return frozenset(line for line in lines if len(line) >= _LEAST)
