"""The attacks: for a row, the cases of each sort, without end where cuts are rolled."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from penstock.engine.graph.nodes import Parallel, Sequence, Step, walk
from penstock.engine.workflow import Workflow
from penstock.formats import FORMATS
from penstock.testing.attack.cases import Case, count_strings, sample
from penstock.testing.attack.disguises import DISGUISES, ENCODINGS, disguised
from penstock.workflows.coverage.channels import CHANNELS, usual_channels

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from penstock.engine.graph.nodes import Node
    from penstock.testing.attack.rows import Row
    from penstock.testing.attack.targets import Target

_PROBED = ("user_text", "tool_result", "answer_live", "tool_call")
"""The channels in which faults, orders and disguises are tried."""

SPANS = ("personal", "secrets", "links", "patterns")
"""The kinds of content that stand in a text at some place. Others are judged from a whole text, which seams change."""

_LIVE = ("answer_live", "reasoning_live")


def channels_of(row: Row) -> tuple[str, ...]:
    """Return the channels in which a row must be found."""
    usual = usual_channels(row.kind) if row.kind else tuple(one for one in CHANNELS if one.usual)
    return tuple(one.name for one in usual)


def _case(row: Row, channel: str, *pieces: str, **given: object) -> Case:
    return Case(channel, pieces or (row.text,), (row.hidden,), kind=row.kind, **given)  # type: ignore[arg-type]


def plain(target: Target, row: Row, dice: random.Random) -> Iterator[Case]:
    """Yield the text as it is, in each channel."""
    del target, dice
    for channel in channels_of(row):
        yield _case(row, channel)


def _cut(text: str, count: int, dice: random.Random) -> tuple[str, ...]:
    places = sorted(dice.sample(range(1, len(text)), min(count, len(text)) - 1))
    return tuple(text[low:high] for low, high in itertools.pairwise([0, *places, len(text)]))


def _live(row: Row) -> list[str]:
    return [name for name in channels_of(row) if name in _LIVE]


_FILLER = "We talked about the weather, the garden and the train to the coast. "


def lengths(target: Target, row: Row, dice: random.Random) -> Iterator[Case]:
    """Yield the text alone, within others, and within long ones: conditions ask for the length of a text."""
    del target, dice
    texts = [row.hidden, f"{row.text} {_FILLER}"]
    texts += [f"{_FILLER * count}{row.text} {_FILLER * (count // 4)}" for count in (4, 20, 200)]
    for text in texts:
        for channel in channels_of(row):
            if channel in _PROBED:
                yield _case(row, channel, text)


def cuts(target: Target, row: Row, dice: random.Random) -> Iterator[Case]:
    """Yield a stream cut in every way: letter by letter, then by dice."""
    del target
    for channel in _live(row):
        yield _case(row, channel, *row.text)
    while _live(row):
        yield _case(row, dice.choice(_live(row)), *_cut(row.text, dice.choice((2, 2, 3, 5, 9)), dice))


def seams(target: Target, row: Row, dice: random.Random) -> Iterator[Case]:
    """Yield a text whose pieces stand in several blocks, steps, or parts of a message."""
    del target
    known = channels_of(row)
    ways = [(channel, "blocks") for channel in known if channel in _LIVE]
    ways += [(channel, "steps") for channel in known if channel == "answer_live" and row.is_span]
    ways += [(channel, "parts") for channel in known if channel in ("user_text", "tool_result")]
    ways = ways if row.is_span or row.kind in SPANS else []
    while ways:
        for channel, seam in ways:
            yield _case(row, channel, *_cut(row.text, dice.choice((2, 2, 3)), dice), seam=seam)


def disguises(target: Target, row: Row, dice: random.Random) -> Iterator[Case]:
    """Yield the secret in each disguise in which its letters still stand."""
    del target, dice
    yield from _disguised(row, DISGUISES)


def encodings(target: Target, row: Row, dice: random.Random) -> Iterator[Case]:
    """Yield the secret in codes, which rules of one's own do not decode."""
    del target, dice
    yield from _disguised(row, ENCODINGS)


def _disguised(row: Row, names: Iterable[str]) -> Iterator[Case]:
    for channel in channels_of(row):
        if channel in _PROBED:
            for name in names:
                made = disguised(row, name)
                if made is not None:
                    yield Case(channel, (made[0],), made[1], disguise=name, kind=row.kind)


def wires(target: Target, row: Row, dice: random.Random) -> Iterator[Case]:
    """Yield the text as each string of a message in each wire format."""
    del target, dice
    if "user_text" in channels_of(row) and row.kind != "links":  # a link is usual in an id
        for name in FORMATS:
            for number in range(count_strings(sample(name))):
                yield _case(row, "user_text", wire=(name, number))


def orders(target: Target, row: Row, dice: random.Random) -> Iterator[Case]:
    """Yield other orders of parallel steps, if there are any."""
    if not any(isinstance(node, Parallel) for item in target.items for node in walk(_root(item))):
        return
    while True:
        for channel in channels_of(row):
            if channel in _PROBED:
                yield _case(row, channel, order=dice.randrange(1, 1_000_000))


def _root(item: object) -> Node:
    return item.root if isinstance(item, Workflow) else Sequence()


def faults(target: Target, row: Row, dice: random.Random) -> Iterator[Case]:
    """Yield each step failing, and each step with a time limit that hangs."""
    del dice
    for step in target.steps():
        ways = ("raises", "hangs") if step.policy.timeout is not None and step.policy.timeout <= 1 else ("raises",)
        for way in ways:
            for channel in channels_of(row):
                if channel in _PROBED:
                    yield _case(row, channel, fault=(step.path, way))


def stalls(target: Target, row: Row, dice: random.Random) -> Iterator[Case]:
    """Yield a stream that pauses after each piece."""
    del target
    while _live(row):
        yield _case(row, dice.choice(_live(row)), *_cut(row.text, 3, dice), stalls=True)


ATTACKS: Mapping[str, Callable[[Target, Row, random.Random], Iterator[Case]]] = {
    "plain": plain,
    "lengths": lengths,
    "cuts": cuts,
    "seams": seams,
    "disguises": disguises,
    "encodings": encodings,
    "wire formats": wires,
    "orders": orders,
    "faults": faults,
    "stalls": stalls,
}
"""The attacks by name."""

USUAL: tuple[str, ...] = tuple(name for name in ATTACKS if name != "encodings")
"""The attacks that are made if no others are chosen. Not every guard that finds a text decodes it."""


def rows_found(target: Target, row: Row) -> bool:
    """Return whether a guard of the target finds a row, if it stands alone and is enforced."""
    return any(_finds(step, row) for step in target.steps())


def _finds(step: Step, row: Row) -> bool:
    from penstock.testing.attack.cases import find_leak
    from penstock.testing.attack.targets import target_of

    processor = step.processor
    if processor.role != "guard" or (row.kind and row.kind not in processor.finds):
        return False
    try:
        alone = target_of(processor)
        return any(find_leak(alone, case) is None for case in _first_cases(row))
    except Exception:  # noqa: BLE001 - a step that needs others cannot be tried alone
        return bool(row.kind)


def _first_cases(row: Row) -> list[Case]:
    return [_case(row, channel) for channel in channels_of(row) if channel in _PROBED]
