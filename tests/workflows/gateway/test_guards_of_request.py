"""The guards of a request are those of its route."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from penstock import Workflow
from penstock.workflows.gateway.guards import Guards


def test_the_guards_of_a_request_keep_each_setting_of_the_route() -> None:
    """Also one that was added to the class and forgotten in the copy."""
    settings: dict[str, Any] = {field.name: object() for field in fields(Guards)}
    route, workflow, context, ends = Guards(**settings), Workflow("w"), {"resource_id": "app"}, list[object]()
    made = route.of_request(workflow, context, ends.append)
    own = {"workflow": workflow, "request_context": context, "on_end": ends.append}
    assert {field.name: getattr(made, field.name) for field in fields(Guards)} == {**settings, **own}
