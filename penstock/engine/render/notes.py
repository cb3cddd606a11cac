"""What stands in a box below its title, and in which tone a box is drawn; it knows boxes, no format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.graph.nodes import Step
from penstock.engine.render.labels import claim_words, fact_words, policy_words, stage_words

if TYPE_CHECKING:
    from penstock.engine.render.scene import Box


def notes_of(box: Box, stage: str | None) -> tuple[str, ...]:
    """Return the lines below a box's title; its stages are left out of a picture of one stage."""
    if not isinstance(box.node, Step) or box.kind != "step":
        return box.notes
    words = step_words(box.node)
    return words if stage is not None else (*words, stage_words(box.node.claims.hooks))


def step_words(step: Step) -> tuple[str, ...]:
    """Return what a step is and may do, its facts, and its policy, a line each."""
    claims = step.claims
    policy = list(policy_words(step.policy))
    if step.policy.on_error is None and claims.on_error == "allow":
        policy.append("on_error=allow")  # its own failure lets the run go on: worth knowing
    lines = (", ".join(claim_words(claims)), "; ".join(fact_words(claims)), ", ".join(policy))
    return tuple(line for line in lines if line)


def tone_of(box: Box) -> str:
    """Return the kind of a box, and of a step its role."""
    return box.node.claims.role if isinstance(box.node, Step) and box.kind == "step" else box.kind
