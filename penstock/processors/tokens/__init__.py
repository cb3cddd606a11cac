"""Counting tokens, for the families of processors that keep to a budget; it knows no family. Names load when used."""

from typing import TYPE_CHECKING

from penstock.engine.lazy import lazily

if TYPE_CHECKING:
    from penstock.processors.tokens.bpe import BPECounter
    from penstock.processors.tokens.counters import Counting
    from penstock.processors.tokens.heuristic import HeuristicCounter
else:
    __getattr__, __dir__ = lazily(__name__, bpe=["BPECounter"], counters=["Counting"], heuristic=["HeuristicCounter"])

__all__ = ["BPECounter", "Counting", "HeuristicCounter"]
