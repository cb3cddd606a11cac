"""Processors that work on text alone, without a model: normalising and pattern filters. Names are loaded when used."""

from penstock.processors.text.regex_filter import RegexFilterProcessor as RegexFilterProcessor
from penstock.processors.text.reports import PatternMatch as PatternMatch
from penstock.processors.text.reports import Violation as Violation
from penstock.processors.text.unicode_normalizer import UnicodeNormalizer as UnicodeNormalizer
