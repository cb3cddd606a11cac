"""Counting tokens, for the families of processors that keep to a budget; it knows no family. Names load when used."""

from penstock.processors.tokens.bpe import BPECounter as BPECounter
from penstock.processors.tokens.counters import Counting as Counting
from penstock.processors.tokens.heuristic import HeuristicCounter as HeuristicCounter
