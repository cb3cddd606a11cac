from penstock.models.detectors.onnx import OnnxScores as OnnxScores, OnnxSpans as OnnxSpans
from penstock.models.detectors.presidio import PresidioSpans as PresidioSpans
from penstock.models.embedders.cached import CachedEmbedder as CachedEmbedder
from penstock.models.embedders.hashing import HashingEmbedder as HashingEmbedder
from penstock.models.embedders.sentences import SentenceEmbedder as SentenceEmbedder
from penstock.models.judges.judge import Judge as Judge, Judgement as Judgement
from penstock.models.judges.panel import JudgePanel as JudgePanel
from penstock.models.judges.scores import Score as Score
from penstock.models.judges.spoken import SpokenVerdict as SpokenVerdict
from penstock.models.openai.embedder import OpenAICompatibleEmbedder as OpenAICompatibleEmbedder
from penstock.models.openai.http import TimeLimits as TimeLimits
from penstock.models.openai.model import OpenAICompatibleModel as OpenAICompatibleModel, model as model
from penstock.models.pydantic_ai.model import PydanticAIModel as PydanticAIModel
from penstock.models.tokens.bpe import BPECounter as BPECounter
from penstock.models.tokens.counters import Counting as Counting, HeuristicCounter as HeuristicCounter
