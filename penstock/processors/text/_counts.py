"""Counts that a processor tells as a fact; it knows contexts and facts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.frozen import freeze

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.engine.processor.context import AnyContext
    from penstock.engine.values.facts import Key


def tell(ctx: AnyContext, key: Key[Mapping[str, int]], counts: Mapping[str, int]) -> None:
    """Put counts under a fact, added to those of earlier stages."""
    before = ctx.get(key) or {}
    ctx.put(key, freeze({name: before.get(name, 0) + counts.get(name, 0) for name in {**before, **counts}}))
