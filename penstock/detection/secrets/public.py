"""Values that are public by their form: ids with a service's prefix, public keys, digests, documented examples.

The prefixes, headers and examples are those of the services' own documentation.
"""

from __future__ import annotations

from penstock.detection.deferred import deferred

_IDS = (
    # Stripe and Paddle
    "acct ba btok bps card ch clock cn cs cus di dp du evt fee fr frp iauth ic ich ii il in ipi li mbur or pi plan"
    " plink pm po price prod promo prv py pyr qt re seti setatt shr si src sub sub_sched taxid tml tmr tr trr tu txi"
    " txn txr upe vr vs we ctm pri"
    # OpenAI, Anthropic and what they call
    " call asst thread run step file msg resp rs batch chatcmpl cmpl ft ftjob org proj user item toolu srvtoolu"
    " msgbatch req container sess"
)
_PUBLIC = deferred(
    rf"""(?x)
      (?:{"|".join(_IDS.split())}) [_-] (?:(?:test|live)_)? (?![\w-]*secret) [\w-]{{8,}} $
    | tok_1[A-Za-z0-9]{{23}} $
    | (?:AC|CA|CF|CH|FT|IS|KS|MG|MM|NO|PK|PN|RE|SM|TR|US|VA|WA|ZS) [0-9a-f]{{32}} $  # Twilio
    | (?:[A-Z]{{1,5}}_kw?DO|MDQ6|MDEw|MDEx|MDEy) [\w=-]+ $  # GitHub
    | (?:AAMk|AQMk|ChIJ|IwAR) [\w=-]{{20,}}  # Outlook, Google's places, Facebook
    | AAAA(?:B3NzaC1|C3NzaC1|E2VjZHNh|GnNr|InNr) | (?:sk-)?(?:ssh|ecdsa)-\w+ | age1[02-9ac-hj-np-z]{{40,}}$  # keys
    | MII[A-D][A-Za-z0-9] | MCowBQYDK2V | M[EFHI]\w{{2,3}}wEwYHKoZ | MIGfMA0G | mQ[EGIM]N?[BE]  # certificates, too
    | (?i:sha-?(?:1|224|256|384|512)|md5|h1|blake[23][bs]?|nonce) [_:=-]  # digests, with their algorithm
    """
)
_EXAMPLE = deferred(
    r"EXAMPLE(?:KEY)?$|(?:^[A-Za-z_-]+?|/)[xX]{12,}$|(?i:[_-](?:your|insert|replace|dummy|example)[_-])|4eC39HqLyjWDarjt|BQokikJOvBiI2HlW|TYooMQauvdEDq54N|16C7e42F292c6912E771"
    r"|\.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9l[\w-]+\.[\w-]{20}"
)


def is_public(found: str) -> bool:
    """Return whether a value is public by its form, whatever its label is."""
    return _PUBLIC.match(found) is not None or is_example(found)


def is_example(found: str) -> bool:
    """Return whether a key is one that stands in a service's documentation, or whose letters are all x."""
    return _EXAMPLE.search(found) is not None
