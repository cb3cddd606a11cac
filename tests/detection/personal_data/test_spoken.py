"""Addresses and numbers that are written as they are spoken are found with ``spoken=True``, whole and in streams."""

from __future__ import annotations

import random

import pytest

from penstock import PIIDetector, Workflow

GUARD = Workflow("w").then(PIIDetector(spoken=True, redaction_method="placeholder"))
USUAL = Workflow("w").then(PIIDetector(redaction_method="placeholder"))

SPOKEN = [
    ("Write to {jane dot doe at example dot com}, please.", "EMAIL"),
    ("Mail me at {jane underscore doe at example dot co dot uk} today", "EMAIL"),
    ("It is {j a n e at corp dot org}.", "EMAIL"),
    ("It is {jane (dot) doe (at) corp (dot) org}.", "EMAIL"),
    ("It is {jane.doe [at] corp.org}.", "EMAIL"),
    ("Meine Adresse ist {anna punkt maier ät web punkt de}.", "EMAIL"),
    ("C'est {jean point dupont arobase mail point be}.", "EMAIL"),
    ("Es {maria punto lopez arroba correo punto es}.", "EMAIL"),
    ("Scrivi a {mario chiocciola libero punto it}.", "EMAIL"),
    ("Mail naar {jan punt smit apenstaartje bedrijf punt nl}.", "EMAIL"),
    ("Ruf an: {plus vier neun eins fünf eins zwei drei vier fünf sechs sieben acht}.", "PHONE"),
    ("Meine Handynummer ist {null eins sieben eins, vierunddreißig, achtzehn, siebenundzwanzig, drei neun}.", "PHONE"),
    ("Call me on {plus four nine one five one two three four five six seven eight}.", "PHONE"),
    ("My number is {four oh four, five five five, oh one seven one}.", "PHONE"),
    ("Phone: {double four seven, nine one one, one two three, four five six}", "PHONE"),
    ("Call {plus 49 one five one two three four five six seven eight}.", "PHONE"),
    ("Mon téléphone est le {zéro six, douze, trente-quatre, cinquante-six, soixante-dix-huit}.", "PHONE"),
    ("Mi teléfono es {seis uno dos, cuarenta y ocho, veintisiete, treinta y nueve}.", "PHONE"),
    ("Telefone: {nove um dois três quatro cinco seis sete oito}", "PHONE"),
    (
        "My card: {four five three nine, five seven eight seven, six three six two, one four eight six}.",
        "CREDIT-CARD",
    ),
]
HARMLESS = [
    "Look at the dot at the end of the line, point by point.",
    "We meet at noon at the dot com office; see us at example dot com.",
    "It happens at some point in time, at what point is it, and I was at one point in my life happy.",
    "He counted one, two, three, four, five, six, seven, eight, nine, ten and stopped.",
    "Five four three two one zero, lift off! Versions one dot two dot three at commit five.",
    "The dot at position three at line two dot four is where print(1, 2, 3, 4, 5, 6, 7, 8) stands.",
    "order number four five three nine one two three four five six",
    "Der Punkt at the end; am Punkt drei. Un point de vue, at the point de fuite.",
]


def streamed(text: str, seed: int) -> str:
    """Return what a stream becomes, cut by dice."""
    dice = random.Random(seed)  # noqa: S311 - dice
    pieces: list[str] = []
    while text:
        at = dice.randrange(1, 12)
        pieces.append(text[:at])
        text = text[at:]
    with GUARD.start_sync().process_output_stream(pieces) as chunks:
        return "".join(chunk.text for chunk in chunks)


@pytest.mark.parametrize(("text", "type"), SPOKEN)
def test_what_is_spoken_is_found(text: str, type: str) -> None:
    """The words are hidden whole; without the option none of them is."""
    said = text.replace("{", "").replace("}", "")
    before, _, rest = text.partition("{")
    hidden = f"{before}[{type}]{rest.partition('}')[2]}"
    assert GUARD.check_sync(said).text == hidden
    assert USUAL.check_sync(said).text == said
    for seed in range(3):
        assert streamed(f"{said}\n{said}", seed) == f"{hidden}\n{hidden}"


@pytest.mark.parametrize("text", HARMLESS)
def test_prose_with_the_same_words_is_left_as_it_is(text: str) -> None:
    """Points in space and time, counting, versions, and order numbers."""
    assert GUARD.check_sync(text).text == text
    assert streamed(text, 1) == text


@pytest.mark.parametrize("word", ["one ", "a dot ", "a at ", "a b "])
def test_a_long_row_of_spoken_words_holds_little_of_a_stream_back(word: str) -> None:
    """A row has an end, wherever it is cut."""
    text = word * 2_000
    assert streamed(text, 3) == GUARD.check_sync(text).text


def test_a_mask_of_what_is_spoken_keeps_no_words() -> None:
    """Words at its ends would say a part of it."""
    guard = Workflow("w").then(PIIDetector(spoken=True))
    assert guard.check_sync("Write to jane dot doe at example dot com.").text == "Write to ********."
