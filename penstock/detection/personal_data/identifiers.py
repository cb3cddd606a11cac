"""The rules ``uuid`` and ``mac``: identifiers of things and of network cards."""

from __future__ import annotations

from penstock.detection.patterns.built_in import BuiltIn, shaped

_HEX2, _HEX4 = "[0-9A-Fa-f]{2}", "[0-9A-Fa-f]{4}"


def _uuid(found: str) -> bool:
    """Tell whether it can be somebody's: the nil and the max UUID (RFC 9562, 5.9-10) are nobody's."""
    return len(set(found.lower())) > 2  # noqa: PLR2004 - one digit and the dash


def _mac(found: str) -> bool:
    """Tell whether it can be a card's: neither all zeros nor the broadcast address."""
    return set(found.lower()) - set(":-.") not in ({"0"}, {"f"})


UUIDS: tuple[BuiltIn, ...] = (
    shaped(
        "uuid",
        "[UUID]",
        rf"(?<![\w-])[0-9A-Fa-f]{{8}}(?:-{_HEX4}){{3}}-[0-9A-Fa-f]{{12}}(?![\w-])",
        trigger=rf"-{_HEX4}-{_HEX4}-",
        check=_uuid,
    ),
)
"""Universally unique identifiers of any version (RFC 9562)."""

MACS: tuple[BuiltIn, ...] = (
    shaped(
        "mac",
        "[MAC]",
        rf"(?<![\w:.-]){_HEX2}(?P<sep>[:-])(?:{_HEX2}(?P=sep)){{4}}{_HEX2}(?![\w:-]|\.\w)",
        trigger=rf"[:-]{_HEX2}[:-]{_HEX2}[:-]",
        check=_mac,
    ),
    shaped(
        "mac",
        "[MAC]",
        rf"(?<![\w.:-])(?:{_HEX4}\.){{2}}{_HEX4}(?![\w-]|\.\w)",
        trigger=rf"\.{_HEX4}\.",
        check=lambda found: _mac(found) and any(map(str.isdigit, found)) | any(map(str.isalpha, found)),
    ),
)
"""Addresses of network cards (EUI-48): in pairs, or in fours as Cisco writes them."""
