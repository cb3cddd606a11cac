from penstock.models.tokens.bpe import BPECounter as BPECounter
from penstock.models.tokens.counters import Counting as Counting, HeuristicCounter as HeuristicCounter
