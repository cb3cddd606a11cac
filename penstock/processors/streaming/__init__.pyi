"""Processors for streams alone, which judge nothing. Names are loaded when used."""

from penstock.processors.streaming.batch_parts import BatchPartsProcessor as BatchPartsProcessor
