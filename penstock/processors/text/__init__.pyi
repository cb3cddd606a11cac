from penstock.detection.patterns.rules import RegexRule as RegexRule
from penstock.processors.text.regex_filter import RegexFilterProcessor as RegexFilterProcessor
from penstock.processors.text.reports import PatternMatch as PatternMatch, Violation as Violation
from penstock.processors.text.unicode_normalizer import UnicodeNormalizer as UnicodeNormalizer
