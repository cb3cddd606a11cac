"""Windows over a text: `TextWindow`, which a guard searches, and `TextReader`, which moves windows over a text.

The window over a whole text holds all of it. The window over a streamed text holds what is not decided yet, and some
of the text before.
"""

from __future__ import annotations

import itertools
import operator
from bisect import bisect_left, bisect_right
from collections import deque
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, cast

from penstock.engine.processor.stages import WrongReturnError
from penstock.engine.values.edits import Edit
from penstock.engine.values.frozen import Value
from penstock.engine.values.texts import TextPlace
from penstock.engine.workers import PIECE, checkpoint

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
    from typing import Self

    Scanned = tuple[Sequence["Found"], int]
    Scan = Callable[["TextWindow"], Scanned | Awaitable[Scanned]]


Notes: TypeAlias = dict[str, Value]
"""A guard's own data about one text, kept from window to window."""


class Found(Protocol):
    """A finding of a guard: a span of the text. An `Edit`, or a named tuple of the guard with these two fields."""

    @property
    def start(self) -> int:
        """Where it begins, in characters from the beginning of the window."""
        ...

    @property
    def end(self) -> int:
        """Where it ends."""
        ...


class PartStart(NamedTuple):
    """Where a part of the text stands: it begins at ``start``, counted from the beginning of the text."""

    start: int
    place: TextPlace


NOWHERE = TextPlace("", 0)
EARLIER = TextPlace("", -1)
"""The place of text that has left before the first part."""


@dataclass(slots=True)
class TextWindow:
    """A text to search: a whole text, or the undecided part of a streamed text with some text before it.

    Attributes:
        text: all text that is undecided, after some text that is decided.
        start: the position in ``text`` where the undecided text begins; findings that begin before it are ignored. In
            the window of a `Hit` it is where the text begins that has not left: a finding may begin before it.
        base: the number of characters of the whole text before the window.
        begins: whether the window begins at the beginning of the text.
        final: whether the text ends with the window.
        kind: the kind of part that holds the text: ``text``, ``reasoning``, ``tool`` …
        key: the key under which the text stands in a tool's arguments or result; otherwise empty.
        fixed: whether the text can only be read, and not be edited.
        number: whether it is the digits of a number: fixed, except that the whole number can be replaced.
        notes: a place for the guard's own data; kept from window to window of one text.
        parts: where the parts of the text begin, in order.
        separate: whether the text is one of several neighbouring parts that are also searched as one joined text. A
            guard that asks a model asks about the joined text only; see `TextGuard.joined_only`.
    """

    text: str
    start: int = 0
    base: int = 0
    begins: bool = True
    final: bool = True
    kind: str = "text"
    key: str = ""
    fixed: bool = False
    notes: Notes = field(default_factory=Notes)
    parts: Sequence[PartStart] = (PartStart(0, NOWHERE),)
    separate: bool = False
    number: bool = False

    @property
    def stuck(self) -> bool:
        """Whether nothing in the text can be replaced, so that findings in it must stop the run."""
        return self.fixed and not self.number

    def locate(self, at: int) -> tuple[TextPlace, int]:
        """Return the place of a character of the window, and its position in the text at that place."""
        whole = self.base + at
        part = self.parts[max(bisect_right(self.parts, whole, key=_start) - 1, 0)]
        return part.place, whole - part.start

    def borders(self, start: int, end: int) -> list[int]:
        """Return the positions between two positions of the window at which a part begins, in order."""
        first = bisect_right(self.parts, start + self.base, key=_start)
        behind = bisect_left(self.parts, end + self.base, key=_start)
        return [part.start - self.base for part in self.parts[first:behind]]

    def divided_thoughts(self) -> list[int]:
        """Return the positions at which reasoning begins that another part divides from the reasoning before it."""
        if self.kind != "reasoning":
            return []
        pairs = itertools.pairwise(self.parts)
        starts = [part.start - self.base for before, part in pairs if before.place.part + 1 != part.place.part]
        return [at for at in starts if 0 < at < len(self.text)]

    def pieces(self, start: int, end: int) -> Iterable[tuple[TextPlace, int, int]]:
        """Return ``(place, start, end)`` for each place that a span of the window covers; at least one."""
        low, high = start + self.base, end + self.base
        if len(self.parts) == 1:  # nearly all texts
            begin, place = self.parts[0]
            return [(place, max(low, begin) - begin, high - begin)]
        return self._pieces(low, high)

    def _pieces(self, low: int, high: int) -> Iterable[tuple[TextPlace, int, int]]:
        first = max(bisect_right(self.parts, low, key=_start) - 1, 0)
        for index in range(first, len(self.parts)):
            begin, place = self.parts[index]
            limit = self.parts[index + 1].start if index + 1 < len(self.parts) else high
            if index > first and begin >= high:
                return
            yield place, max(low, begin) - begin, min(high, limit) - begin


def _start(part: PartStart) -> int:
    return part.start


class Hit(NamedTuple):
    """A finding of a guard, with the window in which it was found."""

    window: TextWindow
    found: Sequence[Found]


class _Movable(Found, Protocol):
    def _replace(self, **changes: int) -> Self: ...


def moved(found: Found, by: int) -> Found:
    """Return a finding with ``by`` added to its positions."""
    if by == 0:
        return found
    if isinstance(found, Edit):
        return replace(found, start=found.start + by, end=found.end + by)
    named = cast("_Movable", found)
    return named._replace(start=found.start + by, end=found.end + by)  # pyright: ignore[reportPrivateUsage] - public in named tuples


def behind(found: Found, at: int) -> Found:
    """Return a finding without what is before a position, within it."""
    if found.start >= at:
        return found
    if isinstance(found, Edit):
        return replace(found, start=at)
    named = cast("_Movable", found)
    return named._replace(start=at)  # pyright: ignore[reportPrivateUsage] - public in named tuples


def span(found: Found) -> tuple[int, int]:
    """Return where a finding begins and ends: the key by which findings are sorted."""
    return (found.start, found.end)


def checked_scan(scanned: object, start: int, end: int) -> Scanned:
    """Return the result of a `TextGuard.scan`, checked.

    Raises:
        WrongReturnError: it is no pair of findings and a position.
    """
    pair = cast("tuple[object, ...]", scanned) if isinstance(scanned, tuple) else ()
    if len(pair) != 2 or not isinstance(pair[0], (tuple, list)):  # noqa: PLR2004 - a pair
        raise WrongReturnError(
            "its scan must return a list of findings, which may be empty, and a position in the text"
        )
    return cast("Sequence[Found]", pair[0]), checked_position(pair[1], start, end)


def checked_position(at: object, start: int, end: int) -> int:
    """Return the position from which a guard holds text back. One before the undecided text is its beginning.

    Args:
        at: the result of a `TextGuard.hold`, `TextGuard.quiet` or `TextGuard.scan`.
        start: where the undecided text begins.
        end: where the text ends.

    Raises:
        WrongReturnError: it is no position in the text.
    """
    if type(at) is not int and (isinstance(at, bool) or not hasattr(at, "__index__")):
        raise WrongReturnError(f"it must return the position from which text is held back, not {type(at).__name__}")
    position = operator.index(cast("int", at))
    if position > end:
        raise WrongReturnError(
            f"it returned {position} as the position from which a text of {end} characters is held back"
        )
    return max(position, start)


def uncut(stretches: Iterable[Found], until: int) -> int:
    """Return the largest position up to ``until`` that lies within none of the stretches."""
    cut = True
    while cut:
        cut = False
        for stretch in stretches:
            if stretch.start < until < stretch.end:
                until, cut = stretch.start, True
    return until


def crosses(found: Found, borders: Sequence[int]) -> bool:
    """Tell whether a finding lies on both sides of one of the borders, which are in order."""
    behind = bisect_right(borders, found.start)
    return behind < len(borders) and borders[behind] < found.end


def resolve_overlaps(
    found: Iterable[Found], borders: Sequence[int], overrides: Callable[[Found, Found], bool]
) -> list[Found]:
    """Return the findings that count, in order.

    Args:
        found: the findings within parts of a text, and across them.
        borders: where the second and later parts begin.
        overrides: tells whether a finding within a part (its first argument) replaces one across parts.
    """
    ordered = sorted(found, key=span)
    if not borders:
        return ordered
    within = [item for item in ordered if not crosses(item, borders)]
    if len(within) == len(ordered):
        return ordered
    starts = [item.start for item in within]
    reach = [0, *itertools.accumulate((item.end for item in within), max)]  # the furthest end among those before each

    def counts(across: Found) -> bool:
        last = bisect_left(starts, across.end)
        while last and reach[last] > across.start:
            last -= 1
            if within[last].end > across.start and overrides(within[last], across):
                return False
        return True

    return [item for item in ordered if not crosses(item, borders) or counts(item)]


_MOST_AWAITED = 32  # new characters that a search waits for at most if it reads others again
_LEAST_AWAITED = 12
_MOST_SHOWN_LATE = 60  # characters that are held with those that a search waits for, unless more are undecided anyway
_SHORT_WORD = 10
_TRIM = 512  # characters: the text before a window is forgotten in pieces of this size, since each cut copies the rest


def awaited(held: int, before: int, *, closely: bool) -> int:
    """Return how many new characters the next search waits for, so that a text is not searched over and over.

    Args:
        held: how many characters were not decided after the last search.
        before: how many new characters that search waited for. Where one text after the other must be searched, the
            searches become rarer.
        closely: whether the text was searched, since a glance was not enough. The glance at the end of a word is cheap.
    """
    if held >= _MOST_SHOWN_LATE:
        return _MOST_AWAITED
    most = max(_MOST_SHOWN_LATE - held, _LEAST_AWAITED)
    if closely:
        return min(max(held, 2 * before), most)
    return min(held, most, _MOST_AWAITED) if held > _SHORT_WORD else 0


class _Moving:
    """A window that moves over a text. `TextWindow` describes the first six attributes.

    Attributes:
        text: some text that is decided, and all text that is not.
        start: the position in ``text`` up to which it is decided.
        base: how many characters of the text come before the window.
        begins: whether nothing comes before the window.
        notes: the guard's own.
        fresh: how many characters are new since the last search.
        held: how many characters were not decided after the last search.
        least: how many new characters the next search waits for; see `awaited`.
        ahead: text that follows and is not in the window yet.
        whole: whether the window takes all that follows, and not piece by piece.
    """

    __slots__ = ("_at", "ahead", "base", "begins", "fresh", "held", "least", "notes", "start", "text", "whole")

    def __init__(self, base: int = 0) -> None:
        self.text = ""
        self.start = 0
        self.base = base
        self.begins = True
        self.notes: Notes = {}
        self.fresh = self.held = self.least = 0
        self.ahead: deque[str] = deque()
        self._at = 0  # how much of the first of them is
        self.whole = False

    def add(self, text: str) -> None:
        """Append to the text."""
        self.fresh += len(text)
        if self.ahead or len(text) > PIECE:
            self.ahead.append(text)
        else:
            self.text += text

    def add_all(self, texts: Sequence[str]) -> None:
        """Append texts, as `add` does one by one."""
        if self.ahead or any(len(text) > PIECE for text in texts):
            for text in texts:
                self.add(text)
        else:
            self.fresh += sum(map(len, texts))
            self.text = "".join((self.text, *texts))

    def postpone(self, text: str) -> None:
        """Append to the text; the window moves on later."""
        self.fresh += len(text)
        self.ahead.append(text)

    def advance(self) -> bool:
        """Add the next piece of the text to the window; return whether more of the text follows."""
        wanted = sum(map(len, self.ahead)) if self.whole else PIECE
        pieces = [self.text]
        while self.ahead and wanted > 0:
            piece = self.ahead[0][self._at : self._at + wanted]
            pieces.append(piece)
            wanted -= len(piece)
            self._at += len(piece)
            if self._at == len(self.ahead[0]):
                self.ahead.popleft()
                self._at = 0
        if len(pieces) > 1:
            self.text = "".join(pieces)
        return bool(self.ahead)

    def copy(self) -> _Moving:
        """Return a copy, which moves by itself."""
        made = _Moving(self.base)
        made.text, made.start, made.begins, made.notes = self.text, self.start, self.begins, deepcopy(self.notes)
        made.ahead, made._at, made.fresh, made.held = self.ahead.copy(), self._at, self.fresh, self.held
        made.least = self.least
        return made

    def decide(self, until: int, lookback: int) -> None:
        """Move on: the window is decided up to a position in it; text too far back to be seen again is forgotten."""
        self.start = until
        self.held = len(self.text) - until
        cut = until - lookback
        if cut > _TRIM:
            self.text = self.text[cut:]
            self.start -= cut
            self.base += cut
            self.begins = False


class TextOverrides(Protocol):
    """What decides about findings that overlap; `Search` describes it."""

    def overrides(self, within: Found, across: Found) -> bool:
        """Tell whether a finding within a part replaces one across parts."""
        ...


class Reads(Protocol):
    """The interface of a guard for its reader; `TextGuard` describes it."""

    lookback: int
    max_hold: int
    read_parts_separately: bool

    @property
    def reads_joined_on(self) -> bool:
        """Whether a text behind another is read together with it to the end."""
        ...

    @property
    def search(self) -> TextOverrides:
        """What finds something."""
        ...

    def quiet(self, text: str, start: int, notes: Mapping[str, Value], *, final: bool) -> int | None:
        """Return the position from which text must be held back, if a glance shows that nothing was found."""
        ...

    def joined_only(self, found: Found) -> bool:
        """Tell whether such a finding is searched for in joined parts only."""
        ...


def looks_at_all(guard: Reads, text: str, start: int, notes: Mapping[str, Value], *, final: bool) -> int | None:
    """Return None: the ``quiet`` of a guard that knows nothing of a text before it is searched."""
    del guard, text, start, notes, final
    return None


class TextReader:
    """Searches a text for a guard: a text that arrives in pieces, or a whole one as one final piece.

    The text may have several parts, which readers join. Then each part is read by itself, and all of them as one text.
    A finding in the whole counts if it crosses a border between parts, if an earlier part explains it, so that it is no
    finding in its own part, or if the guard does not search single parts for it.

    Attributes:
        parts: where the parts begin.
    """

    __slots__ = (
        "_agreed",
        "_borders",
        "_explained",
        "_fed",
        "_fixed",
        "_found",
        "_glances",
        "_guard",
        "_joined",
        "_key",
        "_kind",
        "_own",
        "_passing",
        "_scan",
        "_scanned",
        "_unkept",
        "parts",
    )

    def __init__(
        self,
        guard: Reads,
        scan: Scan,
        kind: str,
        *,
        key: str = "",
        fixed: bool = False,
        place: TextPlace = NOWHERE,
    ) -> None:
        """Read a text for ``guard`` by calling ``scan``, which returns its findings, or an awaitable of them.

        The rest goes into the windows: see `TextWindow`.
        """
        self._guard = guard
        self._scan = scan
        self._kind = kind
        self._key = key
        self._glances = not key and type(guard).quiet is not looks_at_all  # what a key says is not seen at a glance
        self._fixed = fixed
        self._fed = 0
        self._own = _Moving()
        self._joined: _Moving | None = None  # reads neighbouring parts as one
        self._borders: list[int] = []
        self._agreed = 0  # up to where both readings decided the text, if a guard does not read parts separately
        self._passing = False  # whether the parts are read as one only until their border is behind the window
        self._found: list[Found] = []  # decided by one reading, and not taken yet
        self._explained: list[Found] = []  # those of the whole that lie behind a border, and cross none
        self._unkept: TextWindow | None = None  # a window of `search_piece`
        self._scanned: Scanned | Awaitable[Scanned] | None = None  # of the next look: `search_piece` has searched
        self.parts: list[PartStart] = [PartStart(0, place)]

    def add(self, text: str) -> bool:
        """Append to the text; tell whether enough is new for another search.

        That is an eighth of the held text, so that the work stays linear.
        """
        self._fed += len(text)
        own = self._own
        own.add(text)
        if self._joined is not None:
            self._joined.postpone(text)
        return own.fresh > 0 and own.fresh >= max(own.held >> 3, own.least)

    def add_parts(self, parts: Sequence[tuple[TextPlace, str]]) -> None:
        """Append parts that are read as one alone, each in its place; the first stands where the reader began."""
        for index, (place, text) in enumerate(parts):
            if index:
                self.parts.append(PartStart(self._fed, place))
            self._fed += len(text)
        self._own.add_all([text for _, text in parts])

    def search_piece(self, text: str) -> int | None:
        """Append to the text and search it, if that finds nothing; return up to where the text is decided.

        None: nothing was appended, since something was found, or the search must be waited for. Then call `add` with
        the same text, and `read`, which goes on with the result of this search.
        """
        own, guard = self._own, self._guard
        if self._joined is not None or self._found or own.ahead or len(text) > PIECE:
            return None
        fresh = own.fresh + len(text)
        at = own.base + own.start
        if fresh < max(own.held >> 3, own.least):
            own.text += text
            own.fresh = fresh
        else:
            grown = own.text + text
            held = guard.quiet(grown, own.start, own.notes, final=False) if self._glances else None
            closely = held is None and self._glances
            if held is None:
                window = self._unkept
                if window is None:
                    self._unkept = window = self._window(own, grown, final=False)
                else:  # the last one, which no guard has kept since it found nothing
                    window.text, window.start, window.base, window.begins = grown, own.start, own.base, own.begins
                scanned = self._scan(window)
                if not isinstance(scanned, tuple) or scanned[:1] != ((),):
                    self._scanned, self._unkept = scanned, None
                    return None
                held = checked_scan(scanned, own.start, len(grown))[1]
            elif type(held) is not int or not own.start <= held <= len(grown):
                held = checked_position(held, own.start, len(grown))
            at = own.base + held
            own.text = grown
            own.fresh = 0
            own.decide(held, guard.lookback)
            own.least = awaited(own.held, own.least, closely=closely) if closely or own.held > _SHORT_WORD else 0
        self._fed += len(text)
        return at

    @property
    def notes(self) -> Notes:
        """The guard's own data about the text, or about its last part if the parts are read separately."""
        return self._own.notes

    @property
    def is_up_to_date(self) -> bool:
        """Whether all of the text was searched."""
        return not self._own.fresh

    def begin_behind(self, earlier: str) -> None:
        """Begin behind text that was read and has left. Findings within it do not count."""
        self._joined = _Moving()
        self._joined.add(earlier)
        self._agreed = len(earlier)
        self._passing = not self._guard.reads_joined_on
        self._begin_at(len(earlier), self.parts.pop().place)
        self.parts.insert(0, PartStart(0, EARLIER))

    def _begin_at(self, position: int, place: TextPlace) -> None:
        self._fed = position
        self._own, self._unkept = _Moving(position), None
        self._borders.append(position)
        self.parts.append(PartStart(position, place))

    async def begin_part(self, place: TextPlace, *, apart: bool | None = None) -> None:
        """Begin the next part: the text behind it stands in another place.

        ``apart``: whether it is also read by itself; None for what the guard says.
        """
        if self._guard.read_parts_separately if apart is None else apart:
            if self._joined is None:
                self._joined = self._own.copy()
            self._passing = False
            await self._look(self._own, final=True)
            self._begin_at(self._fed, place)
        else:
            self.parts.append(PartStart(self._fed, place))

    async def read(self, *, final: bool) -> int:
        """Search the new text; return up to where the text is decided. ``final``: whether the text ends here."""
        own = self._own
        until = await self._look(own, final=final) if final or own.fresh else own.base + own.start
        if self._joined is None:
            return until
        until = self._agreed_on(until, await self._look(self._joined, final=final, across=True))
        own.held = max(own.held, self._joined.held)  # the text is held back until both readings decide it
        if self._passing and self._joined.base > self._borders[-1] and not self._joined.ahead:
            self._joined = None  # both read the same from here on
        return until

    def _agreed_on(self, until: int, joined: int) -> int:
        """Return up to where both readings decide the text.

        A guard that does not read parts separately may remove whole sentences. They are told apart in the new text
        alone, so that text leaves only up to where that reading has parted it.
        """
        if self._guard.read_parts_separately:
            return min(until, joined)
        if joined >= until and self.uncut(until) == until:
            self._agreed = until
        return self._agreed

    async def _look(self, moving: _Moving, *, final: bool, across: bool = False) -> int:
        moving.fresh = 0
        while moving.advance():
            await self._look_once(moving, final=False, across=across)
            checkpoint()
            if moving.held > self._guard.max_hold:  # pieces would be searched over and over
                moving.whole = True
        return await self._look_once(moving, final=final, across=across)

    async def _look_once(self, moving: _Moving, *, final: bool, across: bool) -> int:
        start, base = moving.start, moving.base
        scanned, self._scanned = self._scanned, None
        closely = self._glances
        if scanned is None and self._glances:
            held = self._guard.quiet(moving.text, start, moving.notes, final=final)
            if held is not None:
                scanned, closely = ((), held), False
        if scanned is None:
            separate = self._joined is not None and not across
            scanned = self._scan(self._window(moving, moving.text, final=final, separate=separate))
        found, held = checked_scan(scanned if isinstance(scanned, tuple) else await scanned, start, len(moving.text))
        if found:
            found = [item for item in found if item.start >= start]
            held = uncut(found, held)
            known = [moved(item, base) for item in found if item.start < held or final]
            for item in known:
                if not across or self._counts_across(item):
                    self._found.append(item)
                elif item.start >= self._borders[0]:
                    self._explained.append(item)
        moving.decide(held, self._guard.lookback)
        moving.least = awaited(moving.held, moving.least, closely=closely)
        return base + held

    def _window(self, moving: _Moving, text: str, *, final: bool, separate: bool = False) -> TextWindow:
        """Return the window over a text, which a guard can keep."""
        start, base, begins, notes = moving.start, moving.base, moving.begins, moving.notes
        kind, key, fixed = self._kind, self._key, self._fixed
        return TextWindow(text, start, base, begins, final, kind, key, fixed, notes, self.parts, separate)

    def _counts_across(self, found: Found) -> bool:
        return crosses(found, self._borders) or self._guard.joined_only(found)

    def give_up(self) -> None:
        """Take all of the text for decided; what was found stays found."""
        for moving in (self._own, self._joined):
            if moving is not None:
                while moving.advance():
                    pass
                moving.fresh = 0
                moving.notes.clear()
                moving.decide(len(moving.text), self._guard.lookback)

    def uncut(self, until: int) -> int:
        """Return the largest position up to ``until`` that lies within no finding."""
        return uncut((*self._found, *self._explained), until) if self._found or self._explained else until

    def take(self, until: int, *, final: bool) -> list[Found]:
        """Remove and return the findings that end before a position, in order; with ``final`` all."""
        if not self._found and not self._explained:
            return []
        taken, self._found = _parted(self._found, until, final=final)
        explained, self._explained = _parted(self._explained, until, final=final)
        taken += _beside(explained, taken)
        return resolve_overlaps(taken, self._borders, self._guard.search.overrides)


def _beside(found: Iterable[Found], others: Iterable[Found]) -> list[Found]:
    """Return the findings that overlap none of the others, and equal none."""
    known = sorted(others, key=span)
    equal = {span(item) for item in known}  # two that are empty do not overlap
    starts = [item.start for item in known]
    reach = [0, *itertools.accumulate((item.end for item in known), max)]  # the furthest end among those before each
    apart = [item for item in found if reach[bisect_left(starts, item.end)] <= item.start]
    return [item for item in apart if span(item) not in equal]


def _parted(found: list[Found], until: int, *, final: bool) -> tuple[list[Found], list[Found]]:
    """Return the findings that begin before a position and end there at most, or with ``final`` all; and the others.

    One that begins in earlier text may end behind what is decided of the text that follows.
    """
    if final:
        return found, []
    taken = [item for item in found if item.start < until and item.end <= until]
    return taken, [item for item in found if item.start >= until or item.end > until]
