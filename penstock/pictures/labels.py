"""Labels: policies, roles and facts in words, for pictures, texts, differences and traces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from penstock.engine.graph.condition_words import condition_label
from penstock.engine.merging.rules import Pick
from penstock.engine.processor.processor import Processor, claims_of
from penstock.engine.tracing.display import short

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.engine.graph.nodes import Policy, Step


Detail: TypeAlias = Literal["short", "full"]
"""How much a picture says of each step."""


def last(path: str) -> str:
    """Return the last part of a path: the id of the step or workflow."""
    return path.rsplit("/", 1)[-1]


# Policies and claims


def policy_words(policy: Policy) -> tuple[str, ...]:
    """Return the options of a policy, as they would be written."""
    words: list[str] = []
    if policy.timeout is not None:
        words.append(f"timeout={policy.timeout:g} s")
    if policy.on_error is not None:
        other = policy.on_error
        words.append(f"on_error={short(claims_of(other).id) if isinstance(other, Processor) else other}")
    if policy.mode == "shadow":
        words.append("shadow")
    words += [f"{word}={value}" for word in ("overlap", "offload") if (value := getattr(policy, word)) is not None]
    if policy.retries:
        words.append(f"retries={policy.retries}")
    if policy.retry_delay is not None:
        words.append(f"retry_delay={policy.retry_delay:g} s")
    return tuple(words)


def role_of(step: Step) -> str:
    """Return the role of a step; ``undeclared`` where neither it nor a class of Penstock says one."""
    kinds = cast("tuple[type[object], ...]", type(step.processor).__mro__)
    said = "role" in getattr(step.processor, "__dict__", ()) or any(
        "role" in vars(one) or one.__module__.startswith("penstock.")
        for one in kinds
        if one.__qualname__ not in ("Processor", "FunctionProcessor")
    )
    return step.claims.role if said else "undeclared"


def stage_words(stages: Iterable[str]) -> str:
    """Return the names of stages, without their common prefix."""
    return ", ".join(stage.removeprefix("process_") for stage in stages)


def merge_words(merge: object) -> str:
    """Return the merge policy of a join; empty if it has none."""
    if merge is None:
        return ""
    if isinstance(merge, Pick):
        return f"merge=pick {short(merge.branch)}"
    return f"merge={merge if isinstance(merge, str) else condition_label(merge)}"


def policy_note(step: Step) -> str:
    """Return the policy of a step in words; empty where nothing was set."""
    policy = list(policy_words(step.policy))
    if step.policy.on_error is None and step.claims.on_error == "allow":
        policy.append("on_error=allow")  # a failure of it lets the run go on, which readers should know
    return ", ".join(policy)


def step_words(step: Step, detail: Detail = "full") -> tuple[str, ...]:
    """Return the lines of a step: role and policy; ``full``: also its edits and facts."""
    if detail == "short":
        lines: tuple[str, ...] = (role_of(step), policy_note(step))
    else:
        claims = step.claims
        words = [role_of(step), *([f"edits {claims.edits}"] if claims.role != "observer" else [])]
        words += ["stores"] if claims.stores else []
        facts = [
            f"{word} {', '.join(sorted(short(key.name) for key in keys))}"
            for word, keys in (("needs", claims.requires), ("puts", claims.provides))
            if keys
        ]
        lines = (", ".join(words), "; ".join(facts), policy_note(step))
    return tuple(line for line in lines if line)
