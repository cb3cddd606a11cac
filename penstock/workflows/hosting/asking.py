"""`HostCall`: a call of a tool that a person is asked about, and the results of calls that do not run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.engine.values.frozen import EMPTY

if TYPE_CHECKING:
    from penstock.engine.values.frozen import Value, Values

NOT_APPROVED = "The call was not run: a person must approve it."
"""The result of a call that wants approval, where nobody can be asked."""

USED = "The call was not run: its approval was used before, or was given for other arguments."
"""The result of a call whose approval does not count."""

CHANGED = "The call was not run: a guard changed its arguments after a person had approved them."
"""The result of a call that a guard changed after it was approved."""

CHANGED_SINCE = "The call was not run: its tool, or the guards, have changed since a person was asked about it."
"""The result of a call that was approved for another tool, or under another policy."""

EXPIRED = "The call was not run: nobody decided about it in time. That is no refusal."
"""The result of a call that nobody decided about in time."""

REJECTED = "The call was not run: a person rejected it."
"""The result of a call that the framework has an approval of, and the store a refusal."""

NOT_ALLOWED = "The call was not run: whoever approved it may not decide about it."
"""The result of a call whose approval `Reviews.may_decide` refuses."""


@dataclass(frozen=True, slots=True)
class HostCall:
    """A call of a tool that a person is asked about.

    Attributes:
        name: the name of the tool.
        arguments: the arguments that the person sees, a JSON value.
        call_id: the id of the call.
        thread: the id of the framework's conversation, if it has one: others may use the same ids of calls.
        tool: the definition of the tool, with its description and its schema.
    """

    name: str
    arguments: Value
    call_id: str
    thread: str | None = None
    tool: Values = EMPTY
