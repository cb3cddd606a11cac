"""API keys, tokens and passwords: provider prefixes, key blocks, labelled values, command lines, random-looking tokens.

`SECRETS` is the preset ``secrets``. The shapes come from the providers' own documentation of their keys; lengths are
lower bounds where providers change them. A value without a prefix of its own is found by the label before it, if it
is random enough to be a secret.

`RANDOM_TOKENS` finds keys of providers that no table lists.
"""

from penstock.detection.secrets.commands import COMMANDS
from penstock.detection.secrets.labelled import API_KEY, LABELLED
from penstock.detection.secrets.providers import AWS, CODE_HOSTS, KEYS
from penstock.detection.secrets.random_tokens import RANDOM_TOKENS
from penstock.detection.secrets.shapes import BEARER, BLOCKS, UNMARKED

SECRETS = (API_KEY, BEARER, *AWS, *CODE_HOSTS, *KEYS, *UNMARKED, *BLOCKS, *COMMANDS, *LABELLED)
"""The rules in the order of the reference, then those that it does not have."""

__all__ = ["RANDOM_TOKENS", "SECRETS"]
