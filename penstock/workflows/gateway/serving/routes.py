"""`Routes`: which guards, providers and limits serve a request, by its path, model and client."""

from __future__ import annotations

import hashlib
import random as chance
import secrets
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, cast

from penstock.engine.values.errors import PenstockError
from penstock.engine.workflow import Workflow
from penstock.processors.budgets.cost_ledger import InMemoryLedger
from penstock.processors.budgets.prices import Price
from penstock.processors.budgets.token_cost_control import TokenCostControl
from penstock.processors.recovery.pacing import Backoff, CircuitBreaker
from penstock.stores.opening import open_storage
from penstock.workflows.gateway.budget import Budget
from penstock.workflows.gateway.config.ledgers import ledger_of, ledger_place, state_of
from penstock.workflows.gateway.endpoints.endpoint import Refusal
from penstock.workflows.gateway.guards import Guards
from penstock.workflows.gateway.reviewing import RouteReviews
from penstock.workflows.gateway.secret import Secret
from penstock.workflows.gateway.serving.cache import AnswerCache
from penstock.workflows.gateway.serving.limits import LocalRateLimit, RateLimit, Slots
from penstock.workflows.gateway.serving.refusals import NotServedError
from penstock.workflows.gateway.serving.shared_cache import SharedAnswerCache
from penstock.workflows.gateway.upstreams.pool import Choice, Pool
from penstock.workflows.gateway.upstreams.provider import Timeouts, UpstreamProvider
from penstock.workflows.review.reviews import Reviews
from penstock.workflows.web.released import ReleasedLog
from penstock.workflows.web.shared_streams import SharedReleasedLog

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.engine.values.ledgers import CostLedger, Window
    from penstock.engine.values.protocols import Observer
    from penstock.engine.values.shared import Breaker, SharedState
    from penstock.stores.postgres.storage import PostgresStorage
    from penstock.stores.sqlite.storage import SQLiteStorage
    from penstock.workflows.gateway.config.client_keys import ClientKeys
    from penstock.workflows.gateway.config.reading import GatewayDocument
    from penstock.workflows.gateway.config.sections import (
        BudgetSection,
        CacheSection,
        GatewaySection,
        RateSection,
        ResumeSection,
        RouteSection,
        UpstreamSection,
    )
    from penstock.workflows.gateway.upstreams.client import Client
    from penstock.workflows.web.shared_streams import LogOptions

_ERROR = 400


@dataclass(frozen=True)
class Route:
    """A route in use.

    Attributes:
        section: its section of the file.
        guards: what guards it.
        pool: its providers.
        rate: how many requests a client may send; None: any number.
        slots: how many run at once; None: any number.
        cache: the answers that are sent again; None: none.
        shadows: policies that run beside, each with its name in the file and its share of the requests.
    """

    section: RouteSection
    guards: Guards
    pool: Pool
    rate: RateLimit | None = None
    slots: Slots | None = None
    cache: AnswerCache | None = None
    shadows: tuple[tuple[str, Workflow, float], ...] = ()
    _drawn: dict[tuple[bool, ...], Workflow] = field(default_factory=dict[tuple[bool, ...], Workflow], repr=False)

    @property
    def shadow_names(self) -> dict[str, str]:
        """The names of the shadow policies in the file, by the ids of their workflows in that of a request."""
        return {_shadow_id(at): name for at, (name, _, _) in enumerate(self.shadows)}

    @property
    def name(self) -> str:
        """Its name."""
        return self.section.name or ""

    def takes(self, path: str, client: str) -> bool:
        """Return whether it takes requests of a client at a path."""
        section = self.section
        return _matches(section.paths, path) and _matches(section.keys, client)

    def takes_model(self, model: str) -> bool:
        """Return whether it takes requests of a model."""
        return _matches(self.section.models, model)

    def workflow(self, random: Callable[[], float] = chance.random) -> Workflow:
        """Return the guards of one request, with the shadows that were drawn for it."""
        drawn = tuple(share > random() for *_, share in self.shadows)
        if True not in drawn:
            return self.guards.workflow
        if drawn not in self._drawn:  # compiled once for each draw
            made = Workflow(self.guards.workflow.name)
            for at, (_, shadow, _) in enumerate(self.shadows):
                if drawn[at]:
                    made = made.then(shadow, id=_shadow_id(at), mode="shadow")
            self._drawn[drawn] = made.then(self.guards.workflow)
        return self._drawn[drawn]


def _shadow_id(at: int) -> str:
    return f"shadow-{at + 1}"


def _matches(patterns: tuple[str, ...], name: str) -> bool:
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


@dataclass(frozen=True)
class Routes:
    """All routes of a gateway as its files are at one time. A request keeps the ones that it began with.

    Attributes:
        section: the gateway file.
        keys: the keys of clients; None: none is asked for.
        routes: the routes, in order.
        checks: the guards of the checks for other products; None: there are none.
        released: keeps the streams of resumable routes; None: no route is resumable.
        reviews: the requests that wait for an operator; None: none wait.
        operators: the keys of operators.
    """

    section: GatewaySection
    keys: ClientKeys | None
    routes: tuple[Route, ...]
    checks: Workflow | None = None
    released: ReleasedLog | None = None
    reviews: Reviews | None = None
    operators: ClientKeys | None = None

    def operator(self, key: str | None) -> str:
        """Return the name of an operator.

        Raises:
            NotServedError: nothing waits here, or its key is missing, wrong, or that of a client.
        """
        if self.reviews is None or self.operators is None:
            raise NotServedError(404, "not_found", "no request waits here; name a store under reviews:")
        name = self.operators.name_of(key)
        if name is None and self.keys is not None and self.keys.name_of(key) is not None:
            raise NotServedError(403, "not_an_operator", "clients cannot decide; send the key of an operator")
        if name is None:
            told = "send the key of an operator" if key is None else "this key is not known here, or its time is over"
            raise NotServedError(401, "invalid_api_key", told)
        return name

    def client(self, key: str | None) -> str:
        """Return the name of a client; empty if none is asked for.

        Raises:
            NotServedError: its key is missing or wrong.
        """
        if self.keys is None:
            return ""
        name = self.keys.name_of(key)
        if name is None:
            told = "send a key of this gateway" if key is None else "this key is not known here, or its time is over"
            raise NotServedError(401, "invalid_api_key", told)
        return name

    def find(self, path: str, client: str, model: Callable[[], str]) -> Route:
        """Return the route of a request.

        Args:
            path: its path.
            client: the name of its client.
            model: returns its model; called only if a route asks for it.

        Raises:
            NotServedError: no route takes it.
        """
        named = False
        for route in self.routes:
            if not route.takes(path, client):
                continue
            if not route.section.models or route.takes_model(model()):
                return route
            named = True
        if named:
            raise NotServedError(404, "model_not_found", f"no route takes this model; {self._models(path, client)}")
        raise NotServedError(403, "route_not_found", "no route takes requests of this client at this path")

    def patterns(self, path: str, client: str) -> tuple[str, ...]:
        """Return the patterns of the models that a client may use at a path; ``*`` if it may use all."""
        found = [route.section.models or ("*",) for route in self.routes if route.takes(path, client)]
        return tuple(dict.fromkeys(pattern for patterns in found for pattern in patterns))

    def _models(self, path: str, client: str) -> str:
        return f"there are routes for {', '.join(self.patterns(path, client))}"


@dataclass
class RouteState:
    """What survives a reload: counts of limits, circuits, budgets and answers, as long as their section stays the same.

    Attributes:
        kept: by kind, route and section, the object.
        used: the keys that were asked for since the last `forget_unused`.
        states: what replicas share, by address and name; open until `close`, since requests may still use them.
        stores: the stores of requests that wait, by address; open as long.
    """

    kept: dict[tuple[object, ...], object] = field(default_factory=dict[tuple[object, ...], object])
    used: set[tuple[object, ...]] = field(default_factory=set[tuple[object, ...]])
    states: dict[tuple[Secret, str], SharedState] = field(default_factory=dict[tuple[Secret, str], "SharedState"])

    stores: dict[Secret, SQLiteStorage | PostgresStorage] = field(
        default_factory=dict[Secret, "SQLiteStorage | PostgresStorage"]
    )

    def store(self, address: Secret) -> SQLiteStorage | PostgresStorage:
        """Return the store at an address; a file that is not there is made."""
        if address not in self.stores:
            self.stores[address] = open_storage(address.reveal(), creates=True)
        return self.stores[address]

    def get(self, make: Callable[[], object], *key: object) -> object:
        """Return the object of a key, made if there is none yet."""
        if key not in self.kept:
            self.kept[key] = make()
        self.used.add(key)
        return self.kept[key]

    def shared(self, url: Secret, name: str) -> SharedState:
        """Return what replicas share on a server."""
        if (url, name) not in self.states:
            self.states[url, name] = state_of(url, name)
        return self.states[url, name]

    async def close(self) -> None:
        """Close the connections to servers that replicas share, and the stores."""
        for one in (*self.states.values(), *self.stores.values()):
            await one.close()

    def forget_unused(self) -> None:
        """Drop the objects that were not asked for since the last time: their sections are gone or have changed."""
        self.kept = {key: one for key, one in self.kept.items() if key in self.used}
        self.used = set()


def build_routes(
    document: GatewayDocument, client: Client, state: RouteState, observers: tuple[Observer, ...] = ()
) -> Routes:
    """Return the routes of a gateway that was read.

    Args:
        document: the gateway.
        client: sends requests to providers.
        state: what survives a reload.
        observers: see the runs of the guards.
    """
    section = document.section
    providers = {name: _provider(name, one, document.environment) for name, one in section.upstreams.items()}
    routes = tuple(_route(one, document, providers, client, state, observers) for one in section.routes)
    reviews = _reviews(document, state)
    if reviews is not None:
        routes = tuple(_reviewed(route, reviews) for route in routes)
    released = (
        _released(section.resume, _shared(document, section.resume.store, state), state)
        if any(one.resumable for one in section.routes)
        else None
    )
    state.forget_unused()
    checks = None if section.checks is None else document.policies[section.checks]
    return Routes(section, document.keys, routes, checks, released, reviews, document.operators)


def _reviews(document: GatewayDocument, state: RouteState) -> Reviews | None:
    section, address = document.section.reviews, document.review_store
    if section is None or address is None:
        return None
    store, rule = state.store(address), document.may_decide
    return Reviews(store, expires_in=section.expires_in, lease=section.lease, may_decide=rule)


def _reviewed(route: Route, reviews: Reviews) -> Route:
    """Return a route whose guards may ask an operator."""
    kept = RouteReviews(reviews, route.name, route.guards.fingerprint)
    return replace(route, guards=replace(route.guards, reviews=kept))


def _released(section: ResumeSection, shared: SharedState | None, state: RouteState) -> ReleasedLog:
    def made() -> ReleasedLog:
        options: LogOptions = {
            "grace": section.grace,
            "keep": section.keep,
            "stream_bytes": section.stream,
            "total_bytes": section.memory,
        }
        return ReleasedLog(**options) if shared is None else SharedReleasedLog(shared.cache, **options)

    return cast("ReleasedLog", state.get(made, "released", section, id(shared)))


def _route(
    section: RouteSection,
    document: GatewayDocument,
    providers: Mapping[str, UpstreamProvider],
    client: Client,
    state: RouteState,
    observers: tuple[Observer, ...],
) -> Route:
    name, retries = section.name or "", section.retries
    workflow = document.policies[section.policy or ""]
    budget = None
    if section.budget is not None:
        ledger = _ledger(ledger_place(section.budget, document.section.state), name, state)
        budget = Budget.of(_budget(section.budget, name, ledger, state), name)
    if budget is not None:
        workflow = Workflow(workflow.name).then(budget.control).then(workflow)
    breaker = _breaker(section, _shared(document, retries.store, state), state)
    pool = Pool(
        client,
        [Choice(providers[share.name], share.weight) for share in section.upstream],
        [providers[one] for one in section.fallback],
        attempts=retries.attempts,
        backoff=Backoff(first=retries.first_wait),
        longest_wait=retries.longest_wait,
        breaker=breaker,
    )
    guards = Guards(
        workflow=workflow,
        name=workflow.name,
        fingerprint=fingerprint(document, section),
        strict=(section.unknown or document.section.unknown) == "refuse",
        permits=_permits(document, section),
        refusal=_refusal(section),
        budget=budget,
        observers=observers,
    )
    made = Route(section, guards, pool)
    rate, slots, cache = section.rate, section.concurrency, section.cache
    kept: dict[str, object] = {}
    if rate is not None:
        kept["rate"] = _rate(rate, name, _shared(document, rate.store, state), state)
    if slots is not None:
        kept["slots"] = state.get(lambda: Slots(slots.most, slots.queue, slots.wait), "slots", name, slots)
    if cache is not None:
        kept["cache"] = _cache(cache, name, _shared(document, cache.store, state), state)
    shadows = tuple((one.policy, document.policies[one.policy], one.rate) for one in section.shadow)
    return replace(made, shadows=shadows, **kept)  # type: ignore[arg-type]


def _shared(document: GatewayDocument, store: str | None, state: RouteState) -> SharedState | None:
    """Return the state that replicas share, if something is kept there; None if it is kept in this process."""
    section = document.section.state
    return None if section is None or store == "memory" else state.shared(section.url, section.name)


def _breaker(section: RouteSection, shared: SharedState | None, state: RouteState) -> Breaker:
    retries, name = section.retries, section.name or ""
    if shared is not None:
        return shared.breaker(f"gateway/{name}", failures=retries.failures, pause=retries.pause)
    made = state.get(lambda: CircuitBreaker(failures=retries.failures, pause=retries.pause), "breaker", name, retries)
    return cast("Breaker", made)


def _rate(section: RateSection, route: str, shared: SharedState | None, state: RouteState) -> RateLimit:
    refuses = section.on_error == "refuse"
    if shared is not None:
        return RateLimit(shared.rate_limit(f"gateway/{route}", section.requests, section.per), refuses=refuses)
    made = state.get(
        lambda: RateLimit(LocalRateLimit(section.requests, section.per), refuses=refuses), "rate", route, section
    )
    return cast("RateLimit", made)


def _cache(section: CacheSection, route: str, shared: SharedState | None, state: RouteState) -> AnswerCache:
    most = section.memory
    if shared is not None:
        store, wait = shared.cache, section.wait
        return SharedAnswerCache(store, keep=section.keep, most_bytes=most // 8, shared=section.shared, wait=wait)
    made = state.get(
        lambda: AnswerCache(keep=section.keep, entries=section.entries, memory=most, shared=section.shared),
        "cache", route, section,
    )  # fmt: skip
    return cast("AnswerCache", made)


def _refusal(section: RouteSection) -> Refusal:
    verdict, made = section.verdict, Refusal("I can't help with that request.")
    if verdict is None:
        return made
    status = verdict.status
    style = "error" if status is not None and status >= _ERROR else "refusal"
    made = replace(made, text=verdict.text or made.text, style=style, status=status or made.status)
    return replace(made, details=verdict.details)


def _provider(name: str, section: UpstreamSection, environment: Mapping[str, str]) -> UpstreamProvider:
    waits = section.timeouts
    return UpstreamProvider(
        name,
        section.url,
        key=None if section.key_env is None else Secret(environment[section.key_env].strip()),
        passes_keys=section.pass_keys,
        key_header=section.key_header,
        headers=tuple((header.lower(), Secret(value)) for header, value in section.headers.items()),
        timeouts=Timeouts(waits.connect, waits.first, waits.idle, waits.total),
        most_bytes=section.max_reply,
    )


def _ledger(place: tuple[Secret, str] | str, route: str, state: RouteState) -> object:
    # The ledger stays where the budget changes: whoever raises a limit forgets no costs.
    if not isinstance(place, str):
        return state.shared(*place).ledger
    return state.get(lambda: InMemoryLedger() if place == "memory" else ledger_of(place), "ledger", route, place)


def _budget(section: BudgetSection, route: str, ledger: object, state: RouteState) -> TokenCostControl:
    made = state.get(lambda: _budget_control(section, route, ledger), "budget", route, section, id(ledger))
    assert isinstance(made, TokenCostControl)  # noqa: S101 - for the type
    return made


def _budget_control(section: BudgetSection, route: str, ledger: object) -> TokenCostControl:
    def key(context: Mapping[str, object]) -> str:
        client = context.get("resource_id") if section.scope == "key" else None
        return f"gateway/{route}/{client or ''}"

    priced = section.input_price is not None or section.output_price is not None
    prices = {"*": Price(section.input_price or 0, section.output_price or 0)} if priced else None
    window: Window = None if section.window == "ever" else section.window  # type: ignore[assignment]
    return TokenCostControl(
        section.max_cost,
        scope=key,
        window=window,
        prices=prices,
        output_tokens=section.output_tokens,
        ledger=cast("CostLedger", ledger),
        id=f"budget-{route}",
    )


def _permits(document: GatewayDocument, section: RouteSection) -> frozenset[str]:
    return frozenset(document.section.permit if section.permit is None else section.permit)


def fingerprint(document: GatewayDocument, section: RouteSection) -> str:
    """Return the fingerprint of what guards a route: of the policy as it was read, and of how strict it is."""
    workflow = document.policies[section.policy or ""]
    try:
        policy = workflow.to_policy()
    except PenstockError:  # it holds code: nobody can tell whether that is the same after a restart or a reload
        policy = f"{workflow!r} {secrets.token_hex()}"
    told = (
        f"{policy}\n{section.unknown or document.section.unknown}\n{sorted(_permits(document, section))}\n"
        f"{section.verdict!r}"
    )
    return hashlib.sha256(told.encode()).hexdigest()[:16]
