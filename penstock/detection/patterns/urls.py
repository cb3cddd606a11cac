"""The preset ``urls``: links with a scheme, and those that begin with ``www.``. One shape."""

from __future__ import annotations

from penstock.detection.patterns.built_in import shaped

_INSIDE = r"""[^\s"'<>\[\]{}|\\^`]+"""

URLS = (
    shaped("url", "[URL]", rf"://(?<=[A-Za-z]://){_INSIDE}", trigger="://", grow=True),
    shaped(
        "url",
        "[URL]",
        rf"[Ww](?<![A-Za-z0-9.-][Ww])(?i:ww)\.[A-Za-z0-9-]{{1,63}}\.{_INSIDE}",
        trigger=r"\.(?<=[Ww]{3}\.)",
    ),
)
"""What the reference takes for a link, and links of other schemes or of none."""
