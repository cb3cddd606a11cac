"""Where values stand that judges name: in every spelling, as words, and nowhere else."""

from __future__ import annotations

import pytest

from penstock.detection.locating import ValueLocator


@pytest.mark.parametrize(
    ("value", "text", "hides"),
    [
        ("Zed Quokka", "I am zed\n quokka.", ["zed\n quokka"]),
        ("Zed", "Zed, zed_2 and Zedson", ["Zed", "zed"]),
        ("Zed", "Zed and Zeds car", ["Zed", "Zed"]),
        ("Zed Quokka", "Zed Quokka, Zed Quokkas car, ask Zed Quokkaabout it, MrZed Quokka", ["Zed Quokka"] * 4),
        ("Quokka", "Quokka, Quokkas, Quokka\u0301s, Mrs.Quokkaabout", ["Quokka", "Quokka", "Quokka\u0301", "Quokka"]),
        ("12345", "12345, 123456, a12345b", ["12345", "12345"]),
        ("ed", "Zeds", []),
        ("eds", "Zeds", ["eds"]),
        ("a", "A cat a.b", ["A", "a"]),
        ("“Zed Quokka”.", "I am Zed Quokka!", ["Zed Quokka"]),
        ("O'Hara", "Pat O’Hara", ["O’Hara"]),
        ("Zoë", "Zoe\u0308 and ZOE", ["Zoe\u0308", "ZOE"]),
        ("Zed", "Z\u200bed and Ｚｅｄ and Zеd", ["Z\u200bed", "Ｚｅｄ", "Zеd"]),
        ("田中", "田中さんは 田中 です", ["田中", "田中"]),
        ("12", "12 and 123 and a12", ["12", "12"]),
        ("(the) a.b*c", "from (the) a.b*c on", ["(the) a.b*c"]),
        (".*", "Zed", []),
        ("", "Zed", []),
        ("\u200b \ufe0f", "Z\u200bed", []),
        ("Zed " * 30_000, "Zed " * 10, []),
    ],
)
def test_a_value_is_found_wherever_a_reader_sees_it(value: str, text: str, hides: list[str]) -> None:
    """And what is found is exactly that."""
    assert [text[low:high] for low, high in ValueLocator(text).find(value)] == hides
