"""Whether a document is read as its reader reads it, or counts as unread."""

from __future__ import annotations

import base64
import time

import pytest

from penstock import Message, PIIDetector, Workflow
from penstock.engine import FilePart
from penstock.engine.text_guards.documents import document_text

MAIL = "ada@example.com"
UTF7 = MAIL.replace("@", "+AEA-").encode()
GUARD = Workflow("guard").then(PIIDetector(strategy="block", system="all"))
CHARSETS = [
    "utf-7",
    "utf-16",
    "utf-16-be",
    "utf-32-le",
    "cp037",
    "cp500",
    "hz",
    "iso2022_kr",
    "euc_jp",
    "latin-1",
    "utf-8",
]


def is_blocked(raw: bytes, media_type: str | None, *, as_address: bool = False) -> bool:
    """Return whether a guard blocks a document."""
    packed = base64.b64encode(raw).decode()
    address = {"url": f"data:{media_type or ''};base64,{packed}"}
    part = FilePart(**(address if as_address else {"data": packed, "media_type": media_type}))
    return GUARD.check_sync([Message.user([part])]).blocked


@pytest.mark.parametrize("charset", CHARSETS)
@pytest.mark.parametrize("as_address", [True, False])
def test_a_text_is_read_in_the_charset_that_is_named(charset: str, *, as_address: bool) -> None:
    """In a file's media type, and in an address."""
    for name in (charset, f'"{charset.upper()}"'):
        assert is_blocked(MAIL.encode(charset), f"text/plain; charset={name}", as_address=as_address)
    if charset.startswith("utf-16"):
        return  # of either byte order, this is some text
    assert not is_blocked("Good morning.".encode(charset), f"text/plain;charset={charset}", as_address=as_address)


@pytest.mark.parametrize(
    "head",
    [
        b'<?xml version="1.0" encoding="utf-7"?>',
        b"<html><meta charset=utf-7>",
        b'<meta http-equiv="Content-Type" content="text/html; charset=utf-7">',
        b'@charset "utf-7";',
        b"# -*- coding: utf-7 -*-\n",
        b"+/v8-",
    ],
)
def test_a_text_is_read_in_the_charset_that_it_names_itself(head: bytes) -> None:
    """Its reader looks there."""
    assert MAIL in str(document_text(head + UTF7, "")[0])


def test_a_named_charset_hides_nothing_from_readers_that_ignore_it() -> None:
    """The text is read in UTF-8, too."""
    assert is_blocked(MAIL.encode(), "text/plain;charset=cp037")


@pytest.mark.parametrize("charset", ["x-no-such", "hex", "idna", "unicode_escape", "undefined", "utf-16"])
def test_a_text_in_a_charset_that_cannot_be_read_is_unread(charset: str) -> None:
    """Also where it is named but does not fit."""
    assert not document_text(b"odd", f"text/plain;charset={charset}")[1]


@pytest.mark.parametrize(
    "text",
    [
        r"ada\'40example.com",
        r"ada\u64?example.com",
        r"ada\u64\'3fexample.com",
        r"{\b ada}\i @example.com",
        r"a\u100 ?a@example.com",
    ],
)
@pytest.mark.parametrize("media_type", ["text/rtf", "application/rtf", "text/plain", None])
def test_the_escapes_of_rtf_are_undone(text: str, media_type: str | None) -> None:
    """Of a document of any name."""
    assert is_blocked(rf"{{\rtf1\ansi Mail {text}}}".encode(), media_type)


WORD = (
    rb"{\rtf1\adeflang1025\ansi\ansicpg1252\uc1\adeff31507\deff0\stshfdbch31506{\fonttbl{\f0\fbidi\froman\fcharset0\fprq2"
    rb"{\*\panose 02020603050405020304}Times New Roman;}{\f3\froman\fcharset2 Symbol;}{\f4\fcharset204 Arial CYR;}"
    rb"{\f5\fcharset128 MS Mincho{\*\falt \'82\'6c\'82\'72 \'96\'be\'92\'a9};}}{\colortbl;\red0\green0\blue0;}"
    rb"{\*\defchp \fs22\loch\af31506 }{\stylesheet{\ql\snext0 \spriority0 Normal;}{\*\cs10 \additive Default Font;}"
    rb"{\*\cs16 \f3 Marks;}}{\*\listtable{\list\listtemplateid1204561234{\listlevel{\leveltext\'01\u-3913 ?;}"
    rb"{\levelnumbers;}\f3}\listid-1012345678}}{\*\rsidtbl \rsid1511254\rsid15154253}{\mmathPr\mmathFont34}"
    rb"{\info{\title Plan}{\author Anna}{\creatim\yr2026\mo3\dy1\hr9}}{\*\xmlnstbl {\xmlns1 http://schemas.microsoft.com}}"
    rb"\paperw12240\paperh15840{\*\pnseclvl1\pndec{\pntxta .}}\pard\plain \insrsid15154253 {\rtlch\fcs1 \af0 Good "
    rb"morning\'85 \'93sch\'f6n\'94 \u8217\'92 {\f4 \'cf\'f0\'e8\'e2\'e5\'f2} {\f5 \'93\'fa\'96\'7b HERE}"
    rb"{\field{\*\fldinst { HYPERLINK \'22https://example.org\'22 }{{\*\datafield 00d0c9ea79f9bace118c8200aa004ba90b}}}"
    rb"{\fldrslt {\cs16 our page}}}{\listtext\f3 \'b7\tab}\upr{plain}{\*\ud{\u1087 ?}}\par}{\*\themedata "
    + b"504b030414000600080000002100\r\n"
    * 40
    + rb"}{\*\colorschememapping 3c3f786d6c2076657273696f6e3d22312e3022}{\*\latentstyles\lsdstimax376{\lsdlockedexcept "
    rb"\lsdqformat1 Normal;}}{\*\datastore 0105000002000000180000004d73786d6c322e534158}}"
)
"""A document as Word writes it."""

LIBRE_OFFICE = (
    rb"{\rtf1\ansi\deff3\adeflang1025{\fonttbl{\f3\froman\fcharset0 DejaVu;}{\f5\fcharset2 OpenSymbol{\*\falt Arial};}}"
    rb"{\stylesheet{\s0 Normal;}{\*\cs16\f5\dbch\af5 Bullets;}}{\*\listtable{\list{\listlevel{\leveltext \'01\u8226 ?;}"
    rb"{\levelnumbers;}\f5}\listid1}}{\*\generator LibreOffice/7.4.7.2$Linux_X86_64 LibreOffice_project/40$Build-2}"
    rb"{\info{\title Plan}{\creatim\yr0\mo0\dy0}}\pard\plain {\loch Good morning \u1055\'3f\u1088\'3f HERE}"
    rb"{\listtext\f5 \u8226\'95\tab}{\*\ftnsep\chftnsep}\par }"
)
"""A document as LibreOffice writes it."""


@pytest.mark.parametrize("document", [WORD, LIBRE_OFFICE])
def test_documents_of_word_processors_are_read(document: bytes) -> None:
    """They pass unharmed, and what stands in them is found."""
    assert document_text(document, "text/rtf")[1]
    assert not is_blocked(document.replace(b"HERE", b"all"), "application/rtf")
    assert is_blocked(document.replace(b"HERE", MAIL.encode()), "application/rtf")


def test_a_text_is_read_as_its_readers_show_it() -> None:
    """Bytes in the charset of their font, a field as its result."""
    text = str(document_text(WORD, "text/rtf")[0])
    assert text.startswith("Good morning… “schön” ’ Привет ")
    assert "our page" in text
    assert "504b03" not in text


@pytest.mark.parametrize(
    "text",
    [
        r"ada{\*\bkmkstart x}@example{\*\bkmkend x}.com",
        r"ada@exam{\v hidden }ple.com",
        r"ada@exam\deleted gone\deleted0 ple.com",
        r"\uc2 ada\u64 ab\uc1 example.com",
        r"\uc0 ada\u64 example.com",
        r"\u65 a\uc15\u66 ada@example.com",
        r"{\header ada@example.com}",
        r"{\footnote\pard ada@example.com}",
        r"{\*\annotation ada@example.com}",
        r"{\info{\doccomm ada@example.com}}",
        r"{\*\unknown ada@example.com}",
        r"{\field{\*\fldinst HYPERLINK mailto:ada@example.com}{\fldrslt write}}",
        r"{\field{\*\fldinst HYPERLINK x}{\fldrslt ada@}}example.com",
        r"{\upr{x}{\*\ud{ada@example.com}}}",
        r"{\upr{ada@example.com}{\*\ud{x}}}",
        r"{\fonttbl{\f1\fcharset128 X;}}\f1\'93\'fa ada@example.com",
        r"ada@exam" + "\n" + r"ple.com",
        r"\ada@example.com",
    ],
)
def test_no_destination_of_rtf_hides_a_text(text: str) -> None:
    """Shown in its place, elsewhere, or by some readers only."""
    assert is_blocked(rf"{{\rtf1\ansi {text}}}".encode(), "text/rtf")


@pytest.mark.parametrize(
    "part",
    [
        rb"\bin3 abc",
        rb"{\pict 00}",
        rb"{\*\shppict{\pict 00}}",
        rb"{\object{\*\objdata 0105}}",
        rb"{\*\fontemb 00}",
        rb"{\field{\*\fldinst QUOTE 97 100 97}{\fldrslt x}}",
        rb"{\field{\*\fldinst SYMBOL 97}}",
        rb"{\*\unknown 00112233445566778899aabbccddeeff}",
        b"{" * 2_000,
        rb"\ansicpg4711 \'e4",
        rb"{\fonttbl{\f1\fcharset2 Wingdings;}}\f1 lmno",
        rb"{\fonttbl{\f1\fcharset128 X;}}\f1 \'81",
    ],
)
def test_rtf_that_a_reader_shows_but_nobody_can_read_is_unread(part: bytes) -> None:
    """Pictures, objects, fonts of one's own, computed fields, unknown charsets and data."""
    assert document_text(rb"{\rtf1\ansi Good morning.}", "text/rtf")[1]
    assert not document_text(rb"{\rtf1\ansi Good morning." + part + rb"}", "text/rtf")[1]


def test_rtf_whose_characters_are_not_escaped_is_read_by_its_bytes_and_by_its_charset() -> None:
    """Readers differ in that."""
    text, _ = document_text("{\\rtf1 \u20ac a\\;b}".encode(), "text/rtf")
    assert text is not None
    assert text.splitlines()[:2] == ["\xe2\u201a\xac ab", "\u20ac ab"]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (rb"{\rtf1 a\~b\{c\}}", "a b{c}"),
        (rb"{\rtf1 a}} b", "a b"),
        (rb"{\rtf1{\fonttbl{\f1\cpg1251 X;}}\f1 \'c0}", "\u0410"),
        (rb"{\rtf1\mac \'80}", "\xc4"),
        (rb"{\rtf1{\fonttbl{\f1\mac X;}}\'80}", "\u20ac"),
    ],
)
def test_rtf_is_shown_in_its_signs_and_charsets(written: bytes, shown: str) -> None:
    """Symbols, a brace too many, code pages of fonts and of old documents."""
    text, is_read = document_text(written, "text/rtf")
    assert is_read
    assert text is not None
    assert text.splitlines()[0] == shown


def test_long_rtf_is_read_in_linear_time() -> None:
    """Fallbacks, braces, words and data."""
    for piece in (rb"\uc2000000000\u97 abc", b"{" * 50, rb"{\*\x a}", rb"\b", rb"\'e4", b"ab12" * 20, rb"{\v a}"):
        times = []
        for count in (300, 3_000):
            start = time.perf_counter()
            document_text(rb"{\rtf1 " + piece * count, "text/rtf")
            times.append(time.perf_counter() - start)
        assert times[1] < 40 * times[0] + 0.5


def test_characters_of_two_halves_are_read_whole() -> None:
    """RTF and UTF-7 write them so."""
    assert document_text(rb"{\rtf1 \u-10179?\u-8704?}", "text/rtf")[0].startswith("\U0001f600")
    assert "\U0001f600" in document_text("\U0001f600".encode("utf-7"), "text/plain;charset=utf-7")[0]
