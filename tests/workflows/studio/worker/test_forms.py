"""Forms made of signatures: each type of option, where it is documented, and what cannot be edited."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict, Unpack

import pytest

from penstock import InputContext, Processor, Workflow, processor
from penstock.engine.graph.nodes import Policy, resolve, steps_of
from penstock.processors.text import UnicodeNormalizer
from penstock.workflows.hints import Unknown, evaluated
from penstock.workflows.studio.worker.changes import ChangeError, changed_workflow
from penstock.workflows.studio.worker.constructor_arguments import (
    arguments_of,
    note_arguments,
    processors_recorded,
    remade,
)
from penstock.workflows.studio.worker.forms import form_of, policy_form

if TYPE_CHECKING:
    from decimal import Decimal

    from penstock.nowhere import Nothing  # type: ignore[import-not-found]

    from penstock.engine.values.protocols import Model

Size = Literal["small", "large"]


class Extra(TypedDict, total=False):
    """More options.

    Attributes:
        loud: whether it shouts.
    """

    loud: bool


class Odd(Processor):
    """An odd one.

    Args:
        size: how large
            it is.
        count: how many.
    """

    def __init__(
        self,
        must: str,
        size: Size = "small",
        *,
        count: int = 3,
        share: float = 0.5,
        flag: bool = False,
        names: Sequence[str] = (),
        sizes: Iterable[Size] | None = None,
        numbers: list[int] | None = None,
        table: Mapping[str, int] | None = None,
        either: Size | Mapping[str, Size] = "small",
        anything: Any = None,
        noted: Annotated[int, "a note"] = 1,
        call: Callable[[str], str] | None = None,
        model: Model | str | None = None,
        price: Decimal | None = None,
        gone: Nothing | None = None,
        api_key: str | None = None,
        untyped=None,
        **extra: Unpack[Extra],
    ) -> None:
        self.given = (must, size, count, share, flag, names, sizes, numbers, table, either, extra)
        if count > 5:
            raise ValueError("too many")

    def process_input(self, ctx: InputContext) -> None: ...


def made(*args: Any, **kwargs: Any) -> Odd:
    one = Odd(*args, **kwargs)
    note_arguments(one, *args, **kwargs)
    return one


def fields(one: Processor) -> dict[str, Any]:
    found, why = form_of(one)
    assert why is None
    return {str(field["name"]): field for field in found}


@pytest.mark.parametrize(
    ("name", "kind", "nullable"),
    [
        ("must", "text", False),
        ("size", "choice", False),
        ("count", "int", False),
        ("share", "float", False),
        ("flag", "bool", False),
        ("names", "list", False),
        ("sizes", "choices", True),
        ("numbers", "list", True),
        ("table", "json", True),
        ("either", "choice", False),
        ("anything", "json", True),
        ("noted", "int", False),
        ("call", "fixed", True),
        ("model", "text", True),
        ("price", "fixed", True),
        ("gone", "fixed", True),
        ("api_key", "text", True),
        ("loud", "bool", True),
    ],
)
def test_a_type_is_a_kind_of_field(name, kind, nullable):
    field = fields(made("x"))[name]
    assert (field["kind"], field["nullable"]) == (kind, nullable)


def test_a_field_knows_its_words_default_and_value():
    found = fields(made("x", "large", count=4, numbers=[1], loud=True))
    assert found["size"]["doc"] == "how large it is."
    assert found["size"]["choices"] == ["small", "large"]
    assert (found["size"]["value"], found["size"]["default"], found["size"]["set"]) == ("large", "small", True)
    assert (found["share"]["value"], found["share"]["set"]) == (0.5, False)
    assert found["must"]["required"] is True
    assert found["numbers"]["items"] == "int"
    assert found["loud"]["doc"] == "whether it shouts."
    assert found["loud"]["value"] is True
    assert found["model"]["type"] == "Model | str | None"


def test_a_value_of_another_type_is_edited_as_that_or_not_at_all():
    found = fields(made("x", either={"a": "large"}, model=object(), table={"a": 1}, call=str))
    assert found["either"]["kind"] == "json"
    assert found["model"]["kind"] == "fixed"
    assert found["model"]["why_not"] == "it is a object"
    assert found["call"]["value"] == "type"


def test_a_secret_is_not_shown_and_stays_if_it_is_left():
    one = made("x", api_key="s3cret")
    field = fields(one)["api_key"]
    assert (field["value"], field["secret"]) == ("***", True)
    flow = Workflow("w").then(one)
    changed = changed_workflow(flow, {"odd": {"options": {"api_key": "***", "count": 1}}})
    assert arguments_of(next(steps_of(resolve(changed.root))).processor) is None  # made without the hook of a worker


def test_secrets_within_a_value_are_not_shown_and_cannot_be_changed():
    found = fields(made("x", anything={"headers": {"Authorization": "Bearer s3cret"}, "size": 3}, names=["a"]))
    field = found["anything"]
    assert field["value"] == {"headers": {"Authorization": "***"}, "size": 3}
    assert (field["kind"], field["why_not"]) == ("fixed", "it holds what may be secret")
    assert found["names"]["kind"] == "list"
    assert fields(made("x", anything="https://me:s3cret@host"))["anything"]["value"] == "***"
    assert fields(made("x", api_key=b"s3cret"))["api_key"]["value"] == "***"
    assert fields(made("x", anything={"b", "a"}))["anything"].get("why_not") != "it holds what may be secret"


def test_a_function_has_no_options():
    @processor
    def plain(ctx: InputContext) -> None: ...

    assert form_of(plain) == ([], "it is a function, which has no options")
    assert form_of(UnicodeNormalizer())[1] == "it was not made by its constructor in this process"


def test_an_object_is_made_again_with_changed_arguments():
    one = made("x", "large", loud=True)
    other = remade(one, {"count": 4, "must": "y"})
    assert other.given[:3] == ("y", "large", 4)
    assert other.given[-1] == {"loud": True}
    assert remade(one, {"loud": False}).given[-1] == {"loud": False}
    with pytest.raises(ValueError, match="too many"):
        remade(one, {"count": 6})
    with pytest.raises(TypeError, match="made by its constructor"):
        remade(Odd("x"), {})


@pytest.mark.parametrize(
    ("wanted", "option", "words"),
    [
        ({"options": {"count": 9}}, None, "ValueError: too many"),
        ({"options": {"call": "x"}}, "call", "cannot be changed here"),
        ({"options": {"nose": "x"}}, "nose", "there is no such option"),
        ({"policy": {"mode": "maybe"}}, "mode", "must be one of"),
    ],
)
def test_changes_that_are_refused_name_the_option(wanted, option, words):
    flow = Workflow("w").parallel(made("x"), UnicodeNormalizer())
    with pytest.raises(ChangeError, match=words) as caught:
        changed_workflow(flow, {"odd": wanted})
    assert (caught.value.path, caught.value.option) == ("odd", option)


def test_a_step_is_changed_wherever_it_stands():
    inner = Workflow("inner").branch((lambda ctx: True, made("a")), otherwise=made("b", count=1))
    flow = Workflow("w").then(UnicodeNormalizer()).then(inner)
    changes = {"inner/odd": {"options": {"count": 2}}, "inner/odd#2": {"policy": {"timeout": 1.5}}}
    changed = changed_workflow(flow, changes)
    steps = {step.path: step for step in steps_of(resolve(changed.root))}
    assert [*steps] == ["unicode-normalizer", "inner/odd", "inner/odd#2"]
    assert steps["inner/odd"].processor.given[2] == 2  # type: ignore[attr-defined]
    assert steps["inner/odd#2"].processor.given[2] == 1  # type: ignore[attr-defined]
    assert steps["inner/odd#2"].policy.timeout == 1.5
    assert changed_workflow(flow, {}) is flow


def test_the_form_of_a_policy_shows_what_can_be_changed():
    found = {str(field["name"]): field for field in policy_form(Policy(timeout=2.0, on_error=UnicodeNormalizer()))}
    assert (found["timeout"]["value"], found["timeout"]["set"]) == (2.0, True)
    assert found["on_error"]["kind"] == "fixed"
    assert found["mode"]["choices"] == ["enforce", "shadow"]


def test_a_hint_that_cannot_be_read_is_unknown():
    assert evaluated("Nothing[", __name__) is Unknown
    assert evaluated("Nothing[int]", __name__) is Unknown


def test_arguments_are_recorded_while_a_block_runs_and_no_longer():
    with processors_recorded():
        assert form_of(UnicodeNormalizer())[1] is None
        with processors_recorded():
            pass
        assert form_of(UnicodeNormalizer())[1] is None
    assert form_of(UnicodeNormalizer())[1] == "it was not made by its constructor in this process"
