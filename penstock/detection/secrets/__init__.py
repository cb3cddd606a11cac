"""API keys, tokens and passwords: provider prefixes, key blocks, labelled values, command lines, seed phrases, tokens.

`SECRETS` is the preset ``secrets``. The shapes come from the providers' own documentation of their keys; lengths are
lower bounds where providers change them. A value without a prefix of its own is found by the label before it, if it
is random enough to be a secret.
"""

from penstock.detection.secrets.commands import COMMANDS
from penstock.detection.secrets.groups import GROUPS
from penstock.detection.secrets.labelled import API_KEY, LABELLED
from penstock.detection.secrets.providers import AWS, CODE_HOSTS, KEYS
from penstock.detection.secrets.random_tokens import RANDOM_TOKENS
from penstock.detection.secrets.shapes import BEARER, BLOCKS, UNMARKED

SECRETS = (API_KEY, BEARER, *AWS, *CODE_HOSTS, *KEYS, *UNMARKED, *BLOCKS, *COMMANDS, *GROUPS, *LABELLED, *RANDOM_TOKENS)
"""The rules in the order of the reference, then those that it does not have. Of two rules that find the same the first
one counts, so random tokens come last."""

__all__ = ["SECRETS"]
