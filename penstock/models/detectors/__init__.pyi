from penstock.detection.embedded import EmbeddedScores as EmbeddedScores
from penstock.detection.spans import Span as Span
from penstock.models.detectors.onnx import OnnxScores as OnnxScores, OnnxSpans as OnnxSpans
from penstock.models.detectors.presidio import PresidioSpans as PresidioSpans
