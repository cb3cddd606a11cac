"""`Tool`: what it makes of a function, what the model is told of it, and what it refuses to be made of."""

from __future__ import annotations

import functools
import types
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from penstock import OptionError, Tool, tool
from penstock.engine import ToolSpec, UsageError
from penstock.tools import ToolContext, ToolError
from tests.ids import without_address

if TYPE_CHECKING:
    from decimal import Decimal


class Colour(Enum):
    """A colour."""

    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    """A place."""

    x: int
    y: int = 0


class Box(BaseModel):
    """Where things are kept."""

    label: str
    inside: list[Box] = []


def fields(made: Tool) -> Any:
    """Return the schemas of a tool's arguments, by name."""
    return made.spec.parameters["properties"]


def required(made: Tool) -> list[str]:
    """Return the names of the arguments that a tool needs."""
    return list(made.spec.parameters.get("required", ()))


# what the model is told


def search(query: str, limit: int = 5) -> str:
    """Search the web.

    Newest pages come first.

    Args:
        query: what to look for,
            in words.
        limit: how many pages.

    Returns:
        the pages.
    """
    return query * limit


def test_a_function_tells_the_model_all_there_is_to_tell() -> None:
    """Name, text and arguments come from the function."""
    told = Tool(search).spec
    assert told == ToolSpec(
        "search",
        {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "what to look for, in words."},
                "limit": {"type": "integer", "default": 5, "description": "how many pages."},
            },
            "required": ["query"],
            "additionalProperties": False,
        },
        "Search the web.\n\nNewest pages come first.",
    )


def test_what_is_said_outright_goes_before_what_the_function_says() -> None:
    """Name, description and the schema to show."""
    shown = {"type": "object", "properties": {"query": {"type": "string", "maxLength": 9}}, "required": ["query"]}
    made = Tool(search, name="find", description="Find.", parameters=shown)
    assert (made.name, made.description) == ("find", "Find.")
    assert made.spec.parameters == ToolSpec("find", shown).parameters


def test_a_field_s_own_description_goes_before_the_docstring_s() -> None:
    """It stands closer to the parameter."""

    def greet(name: Annotated[str, Field(description="whom", max_length=9)]) -> str:
        """Greet.

        Args:
            name: somebody.
        """
        return name

    assert fields(Tool(greet))["name"] == {"type": "string", "maxLength": 9, "description": "whom"}


def test_types_of_all_kinds_become_schemas() -> None:
    """Models, dataclasses, enums, literals, options, lists, mappings, dates."""

    def many(
        box: Box,
        point: Point,
        colour: Colour,
        size: Literal["s", "l"],
        when: date | None,
        names: list[str],
        counts: dict[str, int],
    ) -> None:
        """Take many."""

    told = fields(Tool(many))
    assert (told["size"]["enum"], told["colour"]) == (("s", "l"), {"$ref": "#/$defs/Colour"})
    assert told["when"]["anyOf"] == ({"type": "string", "format": "date"}, {"type": "null"})
    assert told["counts"] == {"type": "object", "additionalProperties": {"type": "integer"}}
    definitions = Tool(many).spec.parameters["$defs"]
    assert definitions["Box"]["properties"]["inside"]["items"] == {"$ref": "#/$defs/Box"}
    assert definitions["Point"]["required"] == ("x",)


def test_names_that_mean_something_to_pydantic_are_names_like_others() -> None:
    """`json`, `schema`, `copy`, `model_config` and those with an underscore."""

    def odd(json: int, schema: int, copy: int, model_config: int, _hidden: int) -> None:
        """Take them."""

    assert required(Tool(odd)) == ["json", "schema", "copy", "model_config", "_hidden"]


@pytest.mark.parametrize(
    ("default", "told"),
    [(3, {"default": 3}), (Colour.RED, {"default": "red"}), (None, {}), (object(), {}), (float("nan"), {})],
)
def test_a_default_is_told_if_it_is_json(default: object, told: dict[str, object]) -> None:
    """One that is not stays the function's own, and so does None, which says nothing."""

    def f(x=default) -> None:
        """Take it."""

    assert fields(Tool(f))["x"] == told
    assert required(Tool(f)) == []


async def test_defaults_in_fields_are_filled_in() -> None:
    """As pydantic does: `Field(default=)` in the type, or in the default's place."""
    made: Any = Field(default_factory=lambda: [2])

    def f(a: Annotated[int, Field(default=1)], b: list[int] = made) -> object:
        return [a, b]

    assert required(Tool(f)) == []
    assert await Tool(f).call({}) == (1, (2,))


def test_without_types_anything_goes() -> None:
    """A parameter without a type takes any JSON value."""

    def f(x) -> None:
        """Take it."""

    assert fields(Tool(f))["x"] == {}


@pytest.mark.parametrize(
    "text",
    [
        "Do it.\n\nArgs:\n    a (int): the first\n    b: the second",
        "Do it.\n\nParameters\n----------\na : int\n    the first\nb : int\n    the second",
        "Do it.\n\n:param a: the first\n:param int b: the second",
    ],
    ids=["google", "numpy", "sphinx"],
)
def test_docstrings_are_read_in_each_style(text: str) -> None:
    """Google's, NumPy's and Sphinx's."""

    def f(a: int, b: int) -> None: ...

    f.__doc__ = text
    made = Tool(f)
    assert made.description == "Do it."
    assert [fields(made)[name]["description"] for name in ("a", "b")] == ["the first", "the second"]


def test_numpy_s_shared_descriptions_are_each_parameter_s() -> None:
    """``x, y : int`` says one thing of two."""

    def f(x: int, y: int) -> None:
        """Move.

        Parameters
        ----------
        x, y : int
            where to
        """

    assert fields(Tool(f))["x"]["description"] == fields(Tool(f))["y"]["description"] == "where to"


# functions of all kinds


class Desk:
    """A desk with things on it."""

    def __init__(self) -> None:
        self.things = {"lamp": 1}

    def count(self, thing: str) -> int:
        """Count a thing."""
        return self.things[thing]

    async def lift(self, thing: str) -> str:
        """Lift a thing."""
        return thing

    def __call__(self, thing: str) -> bool:
        return thing in self.things


async def test_methods_partials_and_objects_are_functions_too() -> None:
    """Each has its own name, text and arguments."""
    desk = Desk()
    made = [Tool(desk.count), Tool(desk.lift), Tool(desk), Tool(functools.partial(search, limit=2))]
    assert [one.name for one in made] == ["count", "lift", "Desk", "search"]
    assert [one.description[:6] for one in made] == ["Count ", "Lift a", "A desk", "Search"]
    assert [await one.call({"thing": "lamp"}) for one in made[:3]] == [1, "lamp", True]
    assert await made[3].call({"query": "x"}) == "xx"


def test_what_a_partial_fills_is_not_shown() -> None:
    """It may be a key."""
    made = Tool(functools.partial(functools.partial(search, "secret"), limit=2))
    assert fields(made) == {}


async def test_a_decorator_s_wrapper_is_asked_what_it_wraps() -> None:
    """Its types are looked up in the module of the function inside."""

    @functools.wraps(search)
    def loud(*args: object, **kwargs: Any) -> str:
        return search(*args, **kwargs).upper()

    made = Tool(loud)
    assert required(made) == ["query"]
    assert await made.call({"query": "x", "limit": 1}) == "X"


async def test_the_decorator_makes_a_tool() -> None:
    """Bare, or with options; the function is still there."""

    @tool
    def one() -> int:
        return 1

    @tool(name="second", timeout=5)
    def two() -> int:
        return 2

    assert [type(one), one.name, two.name] == [Tool, "one", "second"]
    assert one.function is not None
    assert one.function() == 1
    assert await two.call({}) == 2


# the context


async def test_a_parameter_of_the_type_tool_context_is_filled_and_not_shown() -> None:
    """Whatever it is called, alone or with None."""

    def f(a: int, where: ToolContext, again: ToolContext | None = None) -> object:
        return [a, where.call_id, again is where]

    made = Tool(f)
    assert list(fields(made)) == ["a"]
    assert await made.call({"a": 1}, ToolContext(call_id="c1")) == (1, "c1", True)


async def test_a_context_says_the_tool_s_name_where_nobody_gives_one() -> None:
    """A tool can be called by itself."""

    def f(ctx: ToolContext) -> str:
        return ctx.tool_name

    assert await Tool(f).call({}) == "f"


async def test_the_context_is_known_to_modules_that_import_it_for_checkers_only() -> None:
    """Where annotations are text, linters move the import there."""

    def f(ctx: ToolContext, n: int = 2) -> str:
        return ctx.run_id

    elsewhere = types.FunctionType(f.__code__, {})
    elsewhere.__annotations__ = {"ctx": "ToolContext", "n": "int"}
    elsewhere.__defaults__ = (2,)
    assert await Tool(elsewhere).call({}, ToolContext(run_id="r")) == "r"


# what is no tool


def gives(a: int) -> Iterator[int]:
    """Yield."""
    yield a


async def gives_later(a: int) -> AsyncIterator[int]:
    """Yield later."""
    yield a


@pytest.mark.parametrize("given", ["search", None, Desk, gives, gives_later, 3], ids=without_address)
def test_what_cannot_be_called_for_one_result_is_refused(given: Any) -> None:
    """Texts, classes, generators."""
    with pytest.raises(OptionError, match="option 'function'"):
        Tool(given)


def unknown(a: Decimal) -> None:
    """Take what the module does not know when it runs."""


def odd(b: int, a: complex | Iterator[int] | type) -> None:
    """Take what has no schema."""


@pytest.mark.parametrize(
    ("function", "where"),
    [
        (lambda *a: a, "<lambda>(a)"),
        (lambda **a: a, "<lambda>(a)"),
        (lambda a, /: a, "<lambda>(a)"),
        (unknown, "unknown(a)"),
        (odd, "odd(a)"),
        (Desk.count, "count(self)"),
    ],
    ids=["any number", "any names", "by place", "unknown", "no schema", "unbound"],
)
def test_a_parameter_that_no_model_can_fill_is_named(function: Any, where: str) -> None:
    """By kind, by a type that is not known at run time, or of which there is no schema."""
    with pytest.raises(OptionError) as caught:
        Tool(function)
    assert caught.value.option == where


@pytest.mark.parametrize("name", ["", "has space", "ä", "a.b", "x" * 65, "<lambda>", 3])
def test_a_name_that_providers_refuse_is_refused_here(name: Any) -> None:
    """Letters, digits, _ and -, at most 64."""
    with pytest.raises(OptionError, match="option 'name'"):
        Tool(search, name=name)


def test_a_lambda_needs_a_name() -> None:
    """Its own is none."""
    with pytest.raises(OptionError, match="choose another with name="):
        Tool(lambda: 1)
    assert Tool(lambda: 1, name="one").name == "one"


@pytest.mark.parametrize(
    "options",
    [
        {"description": 3},
        {"strict": "yes"},
        {"approval": "always"},
        {"concurrent": 1},
        {"timeout": 0},
        {"timeout": True},
        {"timeout": float("inf")},
        {"offload": "thread"},
        {"offload": False, "timeout": 1.0},
        {"errors": "all"},
        {"max_result_characters": 0},
        {"parameters": "object"},
        {"parameters": {"type": "string"}},
        {"parameters": {"type": "object", "properties": []}},
        {"parameters": {"type": "object", "properties": {}}},
        {"parameters": {"type": "object", "properties": {"query": {}, "other": {}}}},
    ],
    ids=without_address,
)
def test_an_option_that_is_not_allowed_is_named(options: Any) -> None:
    """When the tool is made, not when it is called."""
    with pytest.raises(OptionError) as caught:
        Tool(search, **options)
    assert caught.value.option in options


async def test_an_async_function_stays_on_the_event_loop() -> None:
    """So `offload=True` is an error, and a time limit is none."""

    async def f() -> None: ...

    with pytest.raises(OptionError, match="'offload'"):
        Tool(f, offload=True)
    assert await Tool(f, offload=False, timeout=1).call({}) is None


def test_approval_is_asked_of_a_plain_function() -> None:
    """Nobody awaits it."""

    async def later(arguments: object) -> bool:
        return True

    with pytest.raises(OptionError, match="'approval'"):
        Tool(search, approval=later)


@pytest.mark.parametrize(("said", "wants"), [(True, True), (False, False), (None, True)])
def test_approval_is_wanted_unless_its_function_says_false(said: Any, wants: bool) -> None:
    """A function that says nothing has not said that it is fine."""
    assert Tool(search, approval=lambda arguments: said).wants_approval({}) is wants


def test_approval_may_depend_on_the_arguments() -> None:
    """Small sums need none."""
    made = Tool(search, approval=lambda arguments: arguments["limit"] > 9)
    assert [made.wants_approval({"limit": limit}) for limit in (5, 50)] == [False, True]
    assert [Tool(search, approval=given).wants_approval({}) for given in (True, False)] == [True, False]


# tools by schema, and tools without a function

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}


async def test_a_tool_by_schema_takes_all_arguments_as_one_dict() -> None:
    """Plain dicts and lists, as a library of somebody else's may want them."""

    def f(arguments: dict[str, Any], ctx: ToolContext, more: int = 0) -> object:
        """Take all."""
        arguments["list"].append(more)
        return [arguments, ctx.run_id]

    made = Tool.from_schema(f, name="f", parameters={"type": "object"}, timeout=5)
    assert made.description == "Take all."
    assert await made.call({"list": (1,)}, ToolContext(run_id="r")) == ({"list": (1, 0)}, "r")


async def test_a_tool_by_schema_may_be_of_any_kind_of_function() -> None:
    """Async, a lambda, one of C's."""

    async def f(arguments: object, /) -> object:
        return arguments

    for function, result in ((f, {"a": 1}), (lambda given: 2, 2), (len, 1), (lambda *given: 3, 3)):
        made = Tool.from_schema(function, name="f", parameters=SCHEMA)
        assert await made.call({"a": 1}) == result


@pytest.mark.parametrize("given", [{}, {"a": 1, "b": 2}, {"b": 2}, [1], '{"a": 1}'], ids=without_address)
def test_a_tool_by_schema_checks_what_is_required_and_what_is_unknown(given: Any) -> None:
    """The rest is its function's."""
    with pytest.raises(ToolError, match="invalid-arguments"):
        Tool.from_schema(len, name="f", parameters=SCHEMA).read(given)


@pytest.mark.parametrize(
    "function",
    [lambda: 1, lambda a, b: 1, lambda *, a: 1, Desk],
    ids=["none", "two", "by name", "a class"],
)
def test_a_tool_by_schema_needs_a_function_of_a_mapping(function: Any) -> None:
    """Its first parameter takes it; what nobody fills cannot be there."""
    with pytest.raises(OptionError, match="option 'function'"):
        Tool.from_schema(function, name="f", parameters=SCHEMA)


def test_the_context_is_not_what_takes_the_mapping() -> None:
    """It stands behind."""

    def f(ctx: ToolContext, arguments: object) -> None: ...

    with pytest.raises(OptionError, match="option 'function'"):
        Tool.from_schema(f, name="f", parameters=SCHEMA)


async def test_a_tool_without_a_function_is_the_caller_s_to_run() -> None:
    """The model is told of it all the same, and its arguments can be read."""
    made = Tool.external("ask_user", SCHEMA, "Ask the user.", approval=True)
    assert (made.is_external, made.function, made.wants_approval({})) == (True, None, True)
    assert made.spec == ToolSpec("ask_user", SCHEMA, "Ask the user.")
    assert made.read({"a": 1}) == {"a": 1}
    with pytest.raises(UsageError, match="no function"):
        await made.call({"a": 1})
    assert fields(Tool.external("stop")) == {}


# values


def test_a_tool_can_have_another_name() -> None:
    """The first keeps its own."""
    made = Tool(search, concurrent=False)
    other = made.named("find")
    assert (made.name, other.name, other.function, other.concurrent) == ("search", "find", search, False)
    assert other.spec.parameters == made.spec.parameters
    with pytest.raises(OptionError):
        made.named("no name")


def test_a_tool_s_repr_is_short() -> None:
    """Its name says which."""
    assert repr(Tool(search)) == "<Tool 'search'>"
