"""Values after a label and a separator: ``api_key=``, ``"password": "…"``, ``Passwort: …``."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import regex

from penstock.detection.deferred import deferred
from penstock.detection.patterns.built_in import BuiltInRule
from penstock.detection.patterns.open_matches import StreamPattern, Trace
from penstock.detection.places.keys import names_row, says_secret
from penstock.detection.places.labels import HeaderWords, lead_of
from penstock.detection.secrets import values
from penstock.detection.stems import Stems
from penstock.detection.words import small

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.detection.patterns.open_matches import Scan


_SEPARATOR = r"[:=!](?<![:=!].)(?:(?<=[:=])[:=]{0,2}+>?|(?<=!)==?)(?![:=])"  # more of them are a line that is drawn
_QUOTE = deferred(r"""\*{0,2}+\s{0,12}+(?:[«„“]\s?)?+(["'`]?)""")  # behind bold type, too
_BEHIND = r"""["'\])*]{0,2}\s{0,12}"""  # what may part a label from its separator
_WINDOW = 72  # how far before its separator a label may begin
_NAMES = (  # first words of names of two words, in connection strings
    "User Data Initial Integrated Persist Connection Connect Network Application Trust Max Min Command Packet Current "
    "Workstation Failover Multiple Server"
)
_LONGEST = 128  # characters of a value that are looked at
_PLAIN = r"""[^\s"'`,;<>(){}\[\]$&|]"""
# Signs that belong to a value without quotes if it goes on behind them, unless the next value of a form or of a
# connection string begins there.
_SIGNS = (
    rf"[$|]+(?={_PLAIN})|\({_PLAIN}{{1,40}}\)|\[{_PLAIN}{{1,40}}\]"
    rf"|&(?:amp;)?(?!(?:amp|quot|apos|lt|gt|#\w{{2,6}});)(?={_PLAIN})(?![\w.%-]{{1,40}}(?:\[\w*\])?=)"
)
_SEMICOLON = rf";(?={_PLAIN})(?![\w.-]{{1,40}}=)(?!(?:{'|'.join(_NAMES.split())}) )"
_SIGN_BEGUN = deferred(r"[&;$|(\[]\S{0,40}\Z")  # it may become one
_UUID = deferred(r"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PLACEHOLDER = deferred(r"\[API[-_]KEY(?:_\d+)?\]\s{0,12}\Z")
_CALL = deferred(r"[\w.$:>-]+[(\[]")
_NEXT_LABEL = deferred(r"[\w.-]{1,64}[ \t]?(?:=(?!=)|:[ \t\n])")
_GROUP, _ARTIFACT = deferred(r"\b[a-z][\w-]*(?:\.[\w-]+)+:\Z"), deferred(r"[\w.-]+:\d+(?:\.[\w-]+)+")


def _is_artifact(text: str, begin: int, end: int) -> bool:
    """Return whether a value is the name and the version of a library, behind its group: ``io.jsonwebtoken:…``."""
    if _ARTIFACT.fullmatch(text, begin, end) is None:
        return False
    return _GROUP.search(text, max(begin - _WINDOW, 0), begin) is not None


@dataclass(frozen=True, slots=True)
class LabelledValue:
    """How a value after a label must look.

    Attributes:
        bare: a pattern of characters of a value without quotes; `_SIGNS` may be among them.
        quoted: a pattern of each character of a value in quotes, which are left out.
        least: how many characters it must have.
        check: decides whether a value counts; its second argument says whether the value stood in quotes.
    """

    bare: str
    quoted: str
    least: int
    check: Callable[[str, bool], bool]


class _Labelled:
    """Searches for the values of one label.

    ``whole`` is searched for at the end of a text, if the label is part of the finding.
    """

    def __init__(self, label: str, value: LabelledValue, whole: StreamPattern | None, stems: Sequence[str]) -> None:
        self._stems = Stems(stems)
        self._label = deferred(rf"(?i)(?:{label}){_BEHIND}$", re.ASCII)
        self._bare = deferred(f"(?:{value.bare})*+")
        self._quoted = {mark: deferred(_within(mark, value.quoted)) for mark in "\"'`"}
        # Enough characters, or the end of the text before that.
        enough = f"\\S{{{value.least}}}|[\"'`][^\n]{{{value.least}}}|(?:\\S*|[\"'`][^\n]*)\\Z"
        self._separator = deferred(rf"{_SEPARATOR}(?=\*{{0,2}}+\s{{0,12}}+(?:[«„“]\s?)?+(?:{enough}))")
        self._value = value
        self._whole = whole

    def names(self, word: str) -> bool:
        """Return whether a word is such a label."""
        return self._label.search(word) is not None

    def search(self, text: str, start: int, *, final: bool) -> Scan:
        """Return the traces of assignments, and the place from which on they may change."""
        traces: list[Trace] = []
        hold = len(text)
        if self._whole is not None and not final:
            hold = self._whole.open_at(text, max(start, len(text) - _WINDOW))
        low = max(start - _WINDOW, 0)
        plain = small(text[low:] if low else text)
        stems = self._stems.standing_in(plain)
        if not stems:
            return traces, hold
        first = low + min(map(plain.find, stems))
        last = low + max(map(plain.rfind, stems)) + _WINDOW
        reach = 0
        for separator in self._separator.finditer(text, max(start, first)):
            at = separator.start()
            if at > last:
                break
            window = plain[max(at - _WINDOW - low, 0) : at - low]
            if not any(stem in window for stem in stems):
                continue
            found = self._behind(text, separator.end(), final=final) if at >= reach else None
            label = self._label.search(text, max(at - _WINDOW, 0), at) if found else None
            if found is None or label is None or _PLACEHOLDER.search(text, max(at - _WINDOW, 0), at):
                continue
            if self._names_other(text, *found[:2]):
                continue
            begin, end, bare = found
            reach = _end(self._bare, text, end) if bare else end  # read once for each value: it may be long
            begun = at if self._whole is None else label.start()
            if reach > len(text) or (reach == len(text) and not final):
                return traces, min(hold, begun)
            traces.append(Trace(begun, reach, begun if bare and self._whole is not None else begin, reach))
        return traces, hold

    @staticmethod
    def _names_other(text: str, begin: int, end: int) -> bool:
        """Return whether a value is something else by the whole of its label: an id, or the key of a row."""
        if says_secret(text, begin) is False or _is_artifact(text, begin, end):
            return True
        return _UUID.fullmatch(text, begin, end) is not None and names_row(lead_of(text, begin).words)

    def _behind(self, text: str, at: int, *, final: bool) -> tuple[int, int, bool] | None:
        """Return where a value after a separator begins and ends, and whether it has no quotes.

        The end lies beyond the text if more of it must be seen.
        """
        opening = _QUOTE.match(text, at)
        mark, begin = (opening.group(1), opening.end()) if opening else ("", at)
        end = _end(self._quoted[mark] if mark else self._bare, text, begin, begin + _LONGEST)
        if not final and (end >= len(text) - bool(mark) or (not mark and _SIGN_BEGUN.match(text, end))):
            return begin, len(text) + 1, False
        if end - begin < self._value.least or (mark and text[end : end + 1] not in (mark, "")):
            if not mark or self._whole is None:
                return None
            end = _end(self._bare, text, begin, begin + _LONGEST)
            if end - begin < self._value.least:
                return None
        if not mark and "\n" in text[at:begin] and _NEXT_LABEL.match(text, begin):
            return None  # nothing stands behind the label, and another one below it
        is_call = not mark and (_CALL.match(text, begin, end) or text[end : end + 1] in ("(", "["))
        if is_call or not self._value.check(text[begin:end], bool(mark)):
            return None
        return begin, end, not mark


def _within(mark: str, char: str) -> str:
    """Return the pattern of a value in quotes; a quote before a letter is an apostrophe, one behind a backslash too."""
    return rf"(?:(?!{mark}){char}|\\[^\n]|{mark}(?=\w))*+"


def _end(run: re.Pattern[str], text: str, at: int, most: int = sys.maxsize) -> int:
    found = run.match(text, at, most)
    return found.end() if found else at


def labelled(
    name: str, replacement: str, label: str, value: LabelledValue, stems: str, *, whole: str = ""
) -> BuiltInRule:
    """Return the rule for a value after a label and a separator.

    Args:
        name: the name of its findings.
        replacement: what replaces it.
        label: a pattern, in any case.
        value: how the value must look.
        stems: words, separated by spaces; each label contains one of them.
        whole: the trigger with which a label begins, if the label of a value without quotes is part of the finding;
            empty otherwise.
    """
    before = StreamPattern(rf"(?:{label}){_BEHIND}(?:[:=]|!=)", regex.ASCII | regex.IGNORECASE) if whole else None
    search = _Labelled(label, value, before, stems.split())
    return BuiltInRule(
        name, replacement, whole or "[:=]", search.search, headers=HeaderWords(search.names, digits=False)
    )


_KEY_CHARACTERS = "[A-Za-z0-9_.+/=~-]"
_UNQUOTED = f"{_PLAIN}+|{_SIGNS}"
API_KEY = labelled(
    "api-key",
    "[API_KEY]",
    r"(?<![a-z0-9])(?:api|app|access|auth|secret|private|client)[ _-]?(?:key|token|secret)(?:[ _-]?id)?",
    LabelledValue(_KEY_CHARACTERS, _KEY_CHARACTERS, 20, lambda found, _: values.api_key(found)),
    "key token secret",
    whole="[Aa](?<![A-Za-z0-9].)(?i:pi|pp|ccess|uth)|[Cc](?<![A-Za-z0-9].)(?i:lient)"
    "|[Pp](?<![A-Za-z0-9].)(?i:rivate)|[Ss](?<![A-Za-z0-9].)(?i:ecret)",
)
"""Keys of APIs.

The label of a key without quotes belongs to the finding, as in the reference. A key in quotes is found alone, so that
JSON in which it is hidden stays JSON.
"""

# What may stand between a name and the separator of its value, in XML and in lists of variables.
_NAMED = r"""(?:["']?\s{1,24}["']?(?:value|content|default))?"""
_OWNERS = (
    "access account admin api app application auth bot client connect consumer crypto customer deploy encryption env "
    "function hmac host hook ingest ingestion install instrumentation integration license licence login master "
    "merchant preshared private project publish recovery rest root routing sdk seal server service session shared "
    "signature signing site storage stream subscription team tenant unseal user webhook write"
)
_CODE = deferred(r"\$\{|\{\w*\}|<[\w/ ]+>|\w\(|=>|&&|\|\|")
_VALUE = labelled(
    "secret-value",
    "[SECRET]",
    rf"(?:secret(?!smanager)|token(?!iz)|(?:{'|'.join(_OWNERS.split())})[ _-]?key|(?<!public)(?<!cache)[_-]key"
    r"|credential|[_-]auth"
    r"|[_-]s?sid|sess(?:ion)?[ _-]?(?:id|cookie)|connect\.sid|[_-]salt|[_-]signing|pin[_-]?code"
    rf"|cookie:[^\n]{{0,24}}(?:sess|sid|auth|jwt))(?: \d{{1,2}}|[\w-]{{0,24}})(?: \([\w ]{{1,24}}\))?{_NAMED}",
    LabelledValue(_UNQUOTED, r"[^\s\\]", 12, lambda found, _: values.token(found) and not _CODE.search(found)),
    "secret token key credential auth sid sess salt signing pin cookie",
)
_MOST_SPACES = 3  # more words than that are a command or a sentence
_SIGN = deferred(r"[\d!@#%^*?~+=&$|;]")
_STEMS = (
    "pass pw contraseña wachtwoord kennwort senha palavra-chave hasło heslo jelszó lösenord lösenordet adgangskode "
    "salasana parola şifre sifre пароль 密码 密碼 パスワード 비밀번호 psk shared كلمة पासवर्ड סיסמ khẩu sandi"
)


def _is_password(found: str, quoted: bool) -> bool:  # noqa: FBT001 - the second argument of `LabelledValue.check`
    if not values.password(found) or values.placeholder(found.strip("\"'` ") or found):
        return False
    return found.count(" ") <= _MOST_SPACES if quoted else _SIGN.search(found[:-1]) is not None or _is_base64(found)


def _is_base64(found: str) -> bool:
    """Return whether a value without digits and signs is a text in base64, as passwords are in Kubernetes' secrets."""
    return found not in (found.lower(), found.upper()) and values.encoded(found)


_PASSWORD = labelled(
    "password",
    "[PASSWORD]",
    r"(?:(?:password|passwd|passphrase|passwort|kennwort|pwd|[_-]pass"
    r"|\b(?:db|pg|my|user|admin|root|mail|smtp|ftp|wifi)?pass(?!port|enger|age|i))[\w-]{0,24}|mot de passe|\bpw|\bpsk"
    r"|pre[ _-]?shared[ _-]?(?:key|secret)|contraseña|wachtwoord|senha|hasło|heslo|jelszó|lösenord(?:et)?|adgangskode"
    r"|salasana|parola|[şs]ifre|пароль|密[码碼]|パスワード|비밀번호"
    rf"|كلمة (?:المرور|السر)|पासवर्ड|סיסמ[אה]|mật khẩu|kata sandi){_NAMED}",
    LabelledValue(f"{_UNQUOTED}|{_SEMICOLON}", r"[^\n\\]", 6, _is_password),
    _STEMS,
)
LABELLED: tuple[BuiltInRule, ...] = (_VALUE, _PASSWORD)
"""Other secrets and passwords."""
