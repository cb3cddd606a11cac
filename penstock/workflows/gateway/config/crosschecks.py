"""Checks of a gateway file that need more than one of its keys: names that must exist, and keys that exclude others."""

from __future__ import annotations

from fnmatch import fnmatchcase
from importlib.util import find_spec
from typing import TYPE_CHECKING

from penstock.engine.values.errors import PenstockError
from penstock.stores.opening import open_storage
from penstock.workflows.gateway.config.ledgers import ledger_of, ledger_place, state_of
from penstock.workflows.gateway.endpoints.registry import ENDPOINTS
from penstock.workflows.policies.problems import FilePlace, suggestion
from penstock.workflows.studio.settings import is_loopback

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from penstock.workflows.gateway.config.client_keys import ClientKeys
    from penstock.workflows.gateway.config.kinds import FileSection
    from penstock.workflows.gateway.config.sections import (
        BudgetSection,
        GatewaySection,
        ReviewsSection,
        RouteSection,
        StateSection,
        UpstreamSection,
    )
    from penstock.workflows.policies.problems import Problems


COMMAND_LINE = "the command line"
"""The file of faults of a gateway that was not read from one."""


def check_gateway(
    section: GatewaySection, keys: ClientKeys | None, environment: Mapping[str, str], problems: Problems
) -> None:
    """Add the faults of a gateway as a whole.

    Args:
        section: the gateway; its routes have names.
        keys: the keys of its clients.
        environment: the variables that hold keys of providers.
        problems: takes the faults.
    """
    _check_upstreams(section, keys, environment, problems)
    if section.state is not None:
        _check_state(section.state, problems)
    if section.reviews is not None:
        _check_reviews(section.reviews, problems)
    seen: set[str] = set()
    whole: RouteSection | None = None
    for route in section.routes:
        place = _place(route, "name")
        if route.name in seen:
            problems.add(place, f"two routes have the name {route.name}; their metrics and limits would be one")
        seen.add(route.name or "")
        if whole is not None:
            problems.add(place, f"route {route.name} is never reached: {whole.name} before it takes every request")
        if not (route.paths or route.models or route.keys):
            whole = whole or route
        _check_route(section, route, keys, problems)


def check_upstream(name: str, place: FilePlace, known: Collection[str], problems: Problems) -> None:
    """Add a fault if a route names a provider that the file does not have.

    Args:
        name: the name in the route.
        place: where it stands.
        known: the names of all providers.
        problems: takes the fault.
    """
    if name not in known:
        problems.add(place, f"there is no upstream {name}; {suggestion(name, known)}")


def _place(section: FileSection, key: str = "") -> FilePlace:
    return section.places.get(key) or section.places.get("") or FilePlace(COMMAND_LINE)


def _check_upstreams(
    section: GatewaySection, keys: ClientKeys | None, environment: Mapping[str, str], problems: Problems
) -> None:
    if not section.upstreams and (section.checks is None or section.routes):
        problems.add(_place(section, "upstreams"), "a gateway needs at least one upstream")
    for name, upstream in section.upstreams.items():
        _check_key(name, upstream, environment, problems)
        if upstream.pass_keys and keys is not None:
            message = f"{name}: pass_keys: would send the keys of this gateway to the provider; name key_env: instead"
            problems.add(_place(upstream, "pass_keys"), message)
    held = [name for name, upstream in section.upstreams.items() if upstream.key_env is not None]
    if held and keys is None and not section.anyone and not is_loopback(section.listen.host):
        message = (
            f"anyone who reaches {section.listen.host} could use the key of {held[0]}; name the keys of clients under "
            "keys:, or write `anyone: true` if something before the gateway checks them"
        )
        problems.add(_place(section.listen, "host"), message)


def _check_key(name: str, upstream: UpstreamSection, environment: Mapping[str, str], problems: Problems) -> None:
    variable = upstream.key_env
    if variable is None:
        return
    if upstream.pass_keys:
        problems.add(_place(upstream, "pass_keys"), f"{name}: key_env: and pass_keys: exclude each other; remove one")
    value = environment.get(variable, "")
    if not value.strip():
        near = suggestion(variable, (one for one in environment if one[:2] == variable[:2]))
        hint = near if near.startswith("did") else "set it to the key of the provider"
        problems.add(_place(upstream, "key_env"), f"{name}: the environment has no variable {variable}; {hint}")
    elif not value.isascii() or any(ord(each) < ord(" ") for each in value):
        message = f"{name}: the variable {variable} holds characters that no header may have; look for a line break"
        problems.add(_place(upstream, "key_env"), message)


def _check_route(section: GatewaySection, route: RouteSection, keys: ClientKeys | None, problems: Problems) -> None:
    if route.policy is None:
        problems.add(_place(route), f"route {route.name} has no policy; name one under policy:, there or for the file")
    if not route.upstream and section.upstreams:
        problems.add(_place(route), f"route {route.name} names no upstream; {suggestion('', section.upstreams)}")
    for name, place in (
        *((share.name, _place(share, "name")) for share in route.upstream),
        *((name, _place(route, "fallback")) for name in route.fallback),
    ):
        check_upstream(name, place, section.upstreams, problems)
    for pattern in route.paths:
        if not any(fnmatchcase(path, pattern) for path in ENDPOINTS):
            message = f"the gateway serves nothing at {pattern}; {suggestion(pattern, ENDPOINTS)}"
            problems.add(_place(route, "paths"), message)
    _check_keys(route, keys, problems)
    for kept in (route.retries, route.rate, route.cache):
        if kept is not None and kept.store == "state" and section.state is None:
            problems.add(_place(kept, "store"), "there is no state: name its address at the file's top under state:")
    if route.budget is not None:
        _check_budget(route.budget, section.state, problems)


def _check_state(state: StateSection, problems: Problems) -> None:
    """Look whether the address can be one, and the extra is installed; nothing connects before the first request."""
    try:
        state_of(state.url, state.name)
    except PenstockError as error:
        problems.add(_place(state, "url"), f"the state cannot be used: {error}")


def _check_reviews(reviews: ReviewsSection, problems: Problems) -> None:
    """Look whether the store can be opened; nothing connects before the first request."""
    try:
        open_storage(reviews.store.reveal(), creates=True)
    except PenstockError as error:
        problems.add(_place(reviews, "store"), f"the store of reviews cannot be used: {error}")


def _check_budget(budget: BudgetSection, state: StateSection | None, problems: Problems) -> None:
    """Load its ledger, and the list prices if it names none, so that a missing one is found before a request."""
    place = "memory" if budget.ledger is None else ledger_place(budget, state)
    try:
        if not isinstance(place, str):
            state_of(*place)
        elif place != "memory":
            ledger_of(place)
    except Exception as error:  # noqa: BLE001 - of code of the operator's
        shown = f" {place}" if isinstance(place, str) else ""
        message = f"the ledger{shown} cannot be used: {type(error).__name__}: {error}"
        problems.add(_place(budget, "ledger"), message)
    if budget.input_price is None and budget.output_price is None and find_spec("genai_prices") is None:
        message = "list prices need the extra prices; install it, or write input_price: and output_price:"
        problems.add(_place(budget, "max_cost"), message)


def _check_keys(route: RouteSection, keys: ClientKeys | None, problems: Problems) -> None:
    if not route.keys:
        return
    if keys is None:
        problems.add(_place(route, "keys"), "a route for some keys needs the keys of clients: keys: at the file's top")
        return
    names = {key.name for key in keys.keys}
    for pattern in route.keys:
        if not any(fnmatchcase(name, pattern) for name in names):
            problems.add(
                _place(route, "keys"), f"no key of a client has the name {pattern}; {suggestion(pattern, names)}"
            )
