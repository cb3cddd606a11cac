"""Letters of other scripts that look like ASCII letters, as data; this module holds a table and no rule.

Source: the Unicode Consortium's ``confusables.txt`` (UTS #39, Unicode Security Mechanisms), read from its copy in
confusable_homoglyphs 3.3.1. Taken: letters of the scripts below whose skeleton is one ASCII letter; a capital whose
skeleton is ``l`` stands for ``I``; skeletons that are digits are left out. Each row is the letters and, below, what
they look like, in step.

Unicode data is under the Unicode License V3 (SPDX ``Unicode-3.0``); its notice stands in
``docs/processors/unicode-normalizer.md``.
"""

from __future__ import annotations

LOOKALIKES: dict[str, tuple[str, str]] = {
    "Greek": (
        "ͿΑΒΕΖΗΙΚΜΝΟΡΤΥΧαγινορσυϒϜϱϲϳϹϺ",
        "JABEZHIKMNOPTYXayivopouYFpcjCM",
    ),
    "Cyrillic": (
        "ЅІЈАВЕКМНОРСТУХЬагеорсухѕіјѡѴѵҮүһҽӀӏԁԌԛԜԝꙇ",
        "SIJABEKMHOPCTYXbareopcyxsijwVvYyheIidGqWwi",
    ),
    "Cherokee": (
        "ᎠᎡᎢᎥᎩᎪᎫᎬᎳᎷᎻᎽᏀᏂᏃᏏᏒᏔᏕᏙᏚᏞᏟᏢᏦᏧᏳᏴꭵꮁꮃꮓꮩꮪꮯ",
        "DRTiYAJEWMHYGhZbRWSVSLCPKdGBirwzvsc",
    ),
    "Coptic": (
        "ⲅⲎⲒⲔⲘⲚⲞⲟⲢⲣⲤⲥⲦⲨⲬⳐ",
        "rHIKMNOoPpCcTYXL",
    ),
    "Armenian": (
        "ՍՏՕագզհոռսցքօ",
        "USOwqqhnnugfo",
    ),
}
"""By script: the letters, and the ASCII letters they look like."""

SCRIPT_RANGES: dict[str, tuple[tuple[int, int], ...]] = {
    "Greek": (
        (0x0370, 0x03FF),
        (0x1F00, 0x1FFF),
    ),
    "Cyrillic": (
        (0x0400, 0x052F),
        (0xA640, 0xA69F),
    ),
    "Cherokee": (
        (0x13A0, 0x13FF),
        (0xAB70, 0xABBF),
    ),
    "Coptic": ((0x2C80, 0x2CFF),),
    "Armenian": ((0x0530, 0x058F),),
}
"""By script: the first and last code points of the blocks its letters stand in."""
