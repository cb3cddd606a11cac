"""Options of detectors: which labels of a model count, what guards call them, and from which score they count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from penstock.engine.values.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def renamed(
    owner: str, option: str, given: Mapping[str, str] | Iterable[str] | None, labels: Sequence[str]
) -> dict[str, str]:
    """Return the name of each label that counts.

    Args:
        owner: the class that has the option, for errors.
        option: the option, for errors.
        given: a list of labels, a mapping of labels to names, or None for all labels.
        labels: the labels of the model.

    Raises:
        OptionError: a label is unknown, a name is empty, or no label is left.
    """
    if given is None:
        return {label: label for label in labels}
    if isinstance(given, Mapping):
        named = dict(cast("Mapping[str, str]", given))
    else:
        named = {label: label for label in ([given] if isinstance(given, str) else given)}
    wrong = [label for label in named if label not in labels]
    if wrong or not named:
        allowed = f"some of the labels of the model: {', '.join(map(repr, labels))}"
        raise OptionError(owner, option, wrong[0] if wrong else [*named], allowed)
    if not all(isinstance(cast("object", name), str) and name for name in named.values()):
        raise OptionError(owner, option, named, "a mapping of labels to names")
    return named


def checked_threshold(owner: str, given: object) -> float:
    """Return the score from which a finding counts.

    Raises:
        OptionError: it is no number from 0 to 1. A higher one would find nothing, without an error.
    """
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not 0 <= given <= 1:
        raise OptionError(owner, "threshold", given, "a number from 0 to 1")
    return float(given)
