"""Which rows are pooled for what: the meaning of labels, and of the few sets that figures are named after.

What a row's labels tell is read from them; a folder's name decides only what no label says.
"""

from __future__ import annotations

from benchmarks.quality.rows import Data, DataSet, Row

PARTLY_LABELLED = ("pii_nannigalaxy", "pii_fr_bna")
"""Sets that label some of the personal data in a text: a find that is not labelled may be right."""
NO_POSITIVES = ("inj_notinject",)
"""Sets of injections that are pooled with their benign rows only …"""
NO_NEGATIVES = ("inj_spikee",)
"""… with their attacks only …"""
APART = ("inj_bipia_email",)
"""… and not at all: orders hidden in e-mails are ordinary sentences, which no detector of words can tell."""


def benign_prompts(data: Data) -> tuple[DataSet, ...]:
    """Return what people ordinarily ask: benign prompts, personas apart."""
    return data.where(lambda row: row.flag("injection") is False and row.labels.get("kind") != "act-as", "ben_")


def personas(data: Data) -> tuple[DataSet, ...]:
    """Return benign prompts that ask for a role."""
    return data.where(lambda row: row.flag("injection") is False and row.labels.get("kind") == "act-as")


def answers(data: Data) -> tuple[DataSet, ...]:
    """Return answers of a model that leak nothing."""
    return data.where(lambda row: row.flag("leak") is False)


def multilingual(data: Data) -> tuple[DataSet, ...]:
    """Return ordinary sentences of many languages."""
    return data.where(lambda row: row.lang is not None)


def attacks(data: Data) -> tuple[DataSet, ...]:
    """Return the positives of the injection pool."""
    kept = data.where(lambda row: row.flag("injection") is True)
    return tuple(each for each in kept if each.name not in NO_POSITIVES + APART)


def harmless(data: Data) -> tuple[DataSet, ...]:
    """Return the negatives of the injection pool."""
    kept = data.where(lambda row: row.flag("injection") is False)
    return tuple(each for each in kept if each.name not in NO_NEGATIVES + APART)


def named(data: Data, part: str) -> tuple[DataSet, ...]:
    """Return the sets whose name has that part."""
    return tuple(each for each in data.sets if part in each.name)


def is_partly_labelled(dataset: DataSet) -> bool:
    """Return whether what is found but not labelled says nothing."""
    return dataset.name in PARTLY_LABELLED


def speaks_of_all(row: Row) -> bool:
    """Return whether a row says what of every type stands in it."""
    return row.target is None
