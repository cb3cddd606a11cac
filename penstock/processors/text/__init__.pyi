from penstock.detection.patterns.rules import RegexRule as RegexRule
from penstock.processors.text.regex_filter import (
    PatternMatch as PatternMatch,
    RegexFilterProcessor as RegexFilterProcessor,
    Violation as Violation,
)
from penstock.processors.text.unicode_normalizer import UnicodeNormalizer as UnicodeNormalizer
