"""`deferred`: a pattern that is compiled when it is first used, since most texts never need most patterns."""

from __future__ import annotations

import re
from typing import AnyStr, Generic, cast


def deferred(pattern: AnyStr, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[AnyStr]:
    """Return a pattern that is compiled at its first use. From then on, its methods are those of `re`'s own object.

    To compile the patterns for disguises, codes and foreign scripts takes longer than to judge a thousand plain texts.
    """
    return cast("re.Pattern[AnyStr]", _Deferred(pattern, flags))


class _Deferred(Generic[AnyStr]):
    def __init__(self, pattern: AnyStr, flags: re.RegexFlag) -> None:
        self._given: tuple[AnyStr, re.RegexFlag] = (pattern, flags)

    def __getattr__(self, name: str) -> object:
        """Compile the pattern, and keep the method, so that the next use finds it at once."""
        value = getattr(re.compile(*self._given), name)  # compiled once: `re` remembers the pattern or we the method
        vars(self)[name] = value
        return value

    def __reduce__(self) -> tuple[type[_Deferred[AnyStr]], tuple[AnyStr, re.RegexFlag]]:
        """Pickle as the pattern."""
        return (_Deferred, self._given)

    def __repr__(self) -> str:
        """Show the pattern."""
        return f"deferred({self._given[0]!r})"
