from penstock.models.tokens.bpe import BPECounter as BPECounter
from penstock.models.tokens.counters import Counting as Counting
from penstock.models.tokens.heuristic import HeuristicCounter as HeuristicCounter
