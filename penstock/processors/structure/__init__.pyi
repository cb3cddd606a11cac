"""Processors that make objects of answers. It knows no other family."""

from penstock.processors.structure.facts import OBJECT as OBJECT
from penstock.processors.structure.structured_output import StructuredOutputProcessor as StructuredOutputProcessor
