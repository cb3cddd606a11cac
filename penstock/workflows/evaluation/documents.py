"""Labelled rows that stand in one document: JSON or YAML of promptfoo, pydantic-evals and Presidio, or any list."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from penstock.engine.values.frozen import is_items, is_mapping
from penstock.workflows.rows.reading import MAX_LINE, TOO_DEEP, RawRow, RowsError, is_too_deep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import yaml

ENDINGS = (".json", ".yaml", ".yml")

TEXTS = ("text", "prompt", "input", "query", "question", "message", "inputs")
"""The names under which a case of promptfoo or pydantic-evals has its text, the first that is there."""

ASSERTED = {"guardrails": False, "not-guardrails": True, "is-refusal": True, "not-is-refusal": False}
"""What an assertion of promptfoo says about a text: whether a guard should act on it."""


@dataclass(slots=True)
class DocumentRows:
    """The rows of documents, which are in memory. A `Source`.

    Attributes:
        rows: the rows: values, each with the name of its file if there are several.
        size: how many rows there are.
        taken: how many were read.
    """

    rows: Sequence[RawRow]
    size: int | None = None
    taken: int = 0

    def raw_rows(self) -> Iterator[RawRow]:
        """Yield the rows."""
        for row in self.rows:
            self.taken += 1
            yield row

    def first_values(self) -> list[object]:
        """Return the values of the first rows."""
        return [row.data for row in self.rows[:1000]]


def documents(names: Sequence[str]) -> DocumentRows | None:
    """Return the rows of files that are documents; None if the files have a row a line.

    Raises:
        RowsError: one file is a document, and another is not; or a document cannot be read.
    """
    found = [(name, _document(name)) for name in names]
    missing = [name for name, rows in found if rows is None]
    if len(missing) == len(found):
        return None
    if missing:
        raise RowsError(f"{missing[0]} has a row a line, and others are documents; evaluate them one after the other")
    several = len(names) > 1
    rows = [
        RawRow(line, value, name if several else None)
        for name, values in found
        for line, value in enumerate(values or (), 1)
    ]
    return DocumentRows(rows, len(rows))


def _document(name: str) -> list[object] | None:
    """Return the rows of a document; None if the file is none."""
    path = Path(name)
    if path.suffix.lower() not in ENDINGS or not path.is_file():
        return None
    if path.stat().st_size > MAX_LINE:
        if path.suffix.lower() == ".json":
            return None  # rows, a line each
        raise RowsError(f"{name} is larger than {MAX_LINE // 1024 // 1024} MiB; write its rows as JSON lines")
    value = _json(path) if path.suffix.lower() == ".json" else _yaml(path)
    if value is None:
        return None
    if is_too_deep(value):
        raise RowsError(f"{name} cannot be read: {TOO_DEEP}")
    return _rows(value, name)


def _json(path: Path) -> object:
    """Return the value of a JSON document; None for JSON lines, and for an object that is one row."""
    try:
        value: object = json.loads(path.read_text("utf-8-sig"))
    except (ValueError, RecursionError):
        return None
    if is_mapping(value):
        return value if "tests" in value or "cases" in value else None
    return value if is_items(value) and value and not _is_conversation(value) else None


def _is_conversation(value: Sequence[object]) -> bool:
    return all(is_mapping(each) and "role" in each for each in value)


MOST_NODES = 2_000_000
"""How many values a YAML document may have, with each alias counted as what it stands for."""


def _yaml(path: Path) -> object:
    import yaml  # other documents do not need it

    loader = yaml.CSafeLoader(path.read_text("utf-8-sig"))
    try:
        node: yaml.Node | None = loader.get_single_node()
        if node is None:
            return []
        construct = cast("Callable[[yaml.Node], object]", loader.construct_document)  # pyright: ignore[reportUnknownMemberType] - it has no type
        if _size(node, {}) > MOST_NODES:
            raise RowsError(f"{path} is larger than {MOST_NODES:,} values, with its aliases")
        return construct(node)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise RowsError(f"{path} is no YAML that can be read: {str(error).splitlines()[0]}") from error
    finally:
        loader.dispose()


def _size(node: yaml.Node, sizes: dict[int, int]) -> int:
    """Return how many values a node holds; more than are allowed if it holds itself."""
    known = sizes.get(id(node))
    if known is not None:
        return known
    sizes[id(node)] = MOST_NODES + 1  # until it is counted: whoever meets it meanwhile stands in it
    value: object = node.value
    inner = cast("list[object]", value) if isinstance(value, list) else []
    parts = [
        part for each in inner for part in (cast("tuple[object, ...]", each) if isinstance(each, tuple) else (each,))
    ]
    sizes[id(node)] = 1 + sum(_size(cast("yaml.Node", part), sizes) for part in parts)
    return sizes[id(node)]


def _rows(value: object, name: str) -> list[object]:
    if is_mapping(value) and is_items(value.get("tests")):
        return [_promptfoo(each) for each in value["tests"]]
    if is_mapping(value) and is_items(value.get("cases")):
        return [_pydantic_evals(each) for each in value["cases"]]
    if is_items(value):
        promptfoo = bool(value) and all(is_mapping(each) and is_mapping(each.get("vars")) for each in value)
        return [_promptfoo(each) if promptfoo else each for each in value]
    raise RowsError(f"{name} is neither a list of rows nor a document with 'tests' or 'cases'")


def _promptfoo(test: object) -> object:
    """Return a test of promptfoo as a row: its variables, and the label that its assertions give."""
    if not is_mapping(test) or not is_mapping(test.get("vars")):
        return test
    given: Mapping[str, object] = test["vars"]
    metadata = test.get("metadata")
    row: dict[str, object] = {**(metadata if is_mapping(metadata) else {}), **given}
    row = {"id": test.get("description"), **row, **_body(given)}
    asserted = test.get("assert")
    for each in asserted if is_items(asserted) else ():
        if is_mapping(each) and each.get("type") in ASSERTED:
            row.setdefault("label", ASSERTED[each["type"]])
    return row


def _pydantic_evals(case: object) -> object:
    """Return a case of pydantic-evals as a row: its metadata, its text, and the expected output."""
    if not is_mapping(case) or "inputs" not in case:
        return case
    inputs, metadata, expected = case["inputs"], case.get("metadata"), case.get("expected_output")
    row: dict[str, object] = {**(metadata if is_mapping(metadata) else {}), "id": case.get("name")}
    row |= _body(inputs) if is_mapping(inputs) else {"messages" if is_items(inputs) else "text": inputs}
    if isinstance(expected, bool):
        row.setdefault("label", expected)
    elif isinstance(expected, str):
        row.setdefault("label" if " " not in expected.strip() else "wanted", expected)
    return row


def _body(given: Mapping[str, object]) -> dict[str, object]:
    """Return the text or the conversation of a case: under a usual name, or the only text that it has."""
    if is_items(given.get("messages")):
        return {"messages": given["messages"]}
    texts = {name: value for name, value in given.items() if isinstance(value, str)}
    name = next((each for each in TEXTS if each in texts), None) or (next(iter(texts)) if len(texts) == 1 else None)
    return {} if name is None else {"text": texts[name]}
