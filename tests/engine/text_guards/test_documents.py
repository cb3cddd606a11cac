"""Whether a document is read as its reader reads it, or counts as unread."""

from __future__ import annotations

import base64

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


def test_plain_rtf_is_read_and_rtf_with_hidden_parts_is_unread() -> None:
    """Parts that readers do not show, binary ones, and other code pages."""
    assert document_text(rb"{\rtf1\ansi\ansicpg1252 Good \b morning\b0 .\par}", "text/rtf")[1]
    for hidden in (rb"{\*\x a}", rb"\bin3 abc", rb"\uc2", rb"{\pict 00}", rb"\ansicpg1251", rb"\'e4"):
        assert not document_text(rb"{\rtf1 ada" + hidden + rb"}", "text/rtf")[1]


def test_characters_of_two_halves_are_read_whole() -> None:
    """RTF and UTF-7 write them so."""
    assert document_text(rb"{\rtf1 \u-10179?\u-8704?}", "text/rtf")[0].startswith("\U0001f600")
    assert "\U0001f600" in document_text("\U0001f600".encode("utf-7"), "text/plain;charset=utf-7")[0]
