"""The sections of a gateway file, with the meaning, kind and default of each key."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.workflows.gateway.config.kinds import (
    FileSection,
    Flag,
    LedgerName,
    ListOf,
    MapOf,
    OneSection,
    OneWord,
    Pattern,
    PositiveNumber,
    RunStoreAddress,
    Seconds,
    Size,
    StoreUrl,
    TextValue,
    Url,
    Whole,
    entry,
)
from penstock.workflows.gateway.secret import Secret  # noqa: TC001 - the type of fields
from penstock.workflows.gateway.tables import HOSTED_TOOLS, STATE

VERSION = 1
"""The version of the format: the value of the first key of a file, ``gateway:``."""

_VARIABLE = Pattern(r"[A-Za-z_][A-Za-z0-9_]*", "the name of a variable of the environment, not its value")


def _store(what: str) -> str | None:
    """Return the field that says where something is kept."""
    made: str | None = entry(
        OneWord("memory", "state"), f"{what}: in this process, or in the state of the file, if it names one.", None
    )
    return made


@dataclass(frozen=True, kw_only=True)
class TimeoutsSection(FileSection):
    """How long the gateway waits for a provider."""

    connect: float = entry(Seconds(), "How long until the connection stands.", 10.0)
    first: float = entry(Seconds(), "How long until the headers of the reply are there.", 300.0)
    idle: float = entry(Seconds(), "How long between two pieces of the body.", 120.0)
    total: float = entry(Seconds(), "How long the whole reply may take.", 3600.0)


@dataclass(frozen=True, kw_only=True)
class UpstreamSection(FileSection):
    """A provider."""

    url: str = entry(Url(), "Its base URL, as its own clients take it: https://api.openai.com/v1")
    key_env: str | None = entry(_VARIABLE, "The variable of the environment that holds its key.", None)
    key_header: str | None = entry(
        OneWord("authorization", "x-api-key", "api-key"), "The header that carries the key.", None
    )
    pass_keys: bool = entry(Flag(), "Whether it gets the keys that clients send.", default=False)
    headers: dict[str, str] = entry(MapOf(TextValue()), "Further headers that it gets.", dict)
    timeouts: TimeoutsSection = entry(OneSection(TimeoutsSection), "How long to wait for it.", TimeoutsSection)
    max_reply: int = entry(Size(), "How long a reply may be, decompressed.", 256_000_000)


@dataclass(frozen=True, kw_only=True)
class ShareSection(FileSection):
    """A provider of a route, with its share of the requests."""

    name: str = entry(TextValue(), "The name of an upstream.")
    weight: float = entry(PositiveNumber(1e6), "Its share, in relation to the others.", 1.0)


@dataclass(frozen=True, kw_only=True)
class RetriesSection(FileSection):
    """Retries of a route, before anything was sent to the client."""

    attempts: int = entry(Whole(1, 20), "How many times a request is sent at most.", 3)
    first_wait: float = entry(Seconds(), "The wait before a provider is asked again; it doubles.", 0.5)
    longest_wait: float = entry(Seconds(), "The longest wait that a provider may ask for.", 10.0)
    failures: int = entry(Whole(1, 10_000), "How many failures within a minute open the circuit of a provider.", 5)
    pause: float = entry(Seconds(), "How long an open circuit stays open.", 30.0)
    store: str | None = _store("Where failures are counted")


@dataclass(frozen=True, kw_only=True)
class ShadowSection(FileSection):
    """A policy that runs beside, and changes nothing."""

    policy: str = entry(TextValue(), "The policy: a file, a preset, or module:name.")
    rate: float = entry(PositiveNumber(1.0), "The share of the requests that it sees.", 1.0)


@dataclass(frozen=True, kw_only=True)
class BudgetSection(FileSection):
    """A budget, kept by the ledgers of TokenCostControl."""

    max_cost: float = entry(PositiveNumber(), "The amount that may be spent.")
    scope: str = entry(OneWord("key", "route"), "Whether each key of a client has its own.", "key")
    window: str = entry(
        OneWord("1h", "6h", "24h", "7d", "30d", "365d", "day", "week", "month", "ever"),
        "The time within which costs are added up.",
        "24h",
    )
    input_price: float | None = entry(
        PositiveNumber(), "The price of a million input tokens; else the list price.", None
    )
    output_price: float | None = entry(
        PositiveNumber(), "The price of a million output tokens; else the list price.", None
    )
    output_tokens: int = entry(Whole(0), "The tokens assumed for an answer that has no limit.", 1_000)
    ledger: str | Secret | None = entry(
        LedgerName(),
        "Where costs are recorded: memory, module:name, or the address of a server; else the state of the file.",
        None,
    )


@dataclass(frozen=True, kw_only=True)
class RateSection(FileSection):
    """How many requests a client may send."""

    requests: int = entry(Whole(1), "How many requests.")
    per: float = entry(Seconds(), "Within which time.", 60.0)
    by: str = entry(OneWord("key", "route"), "Whether each key of a client has its own.", "key")
    store: str | None = _store("Where requests are counted")
    on_error: str = entry(
        OneWord("refuse", "allow"), "What happens to a request while the state cannot be asked.", "refuse"
    )


@dataclass(frozen=True, kw_only=True)
class ConcurrencySection(FileSection):
    """How many requests run at once."""

    most: int = entry(Whole(1), "How many run at once.")
    queue: int = entry(Whole(0), "How many more may wait.", 100)
    wait: float = entry(Seconds(), "How long they wait at most.", 10.0)


@dataclass(frozen=True, kw_only=True)
class CacheSection(FileSection):
    """Released answers that are sent again for an equal request. Answers as the provider sent them are never kept."""

    keep: float = entry(Seconds(), "How long an answer is kept.", 600.0)
    entries: int = entry(Whole(1), "How many answers are kept.", 1_000)
    memory: int = entry(Size(), "How many bytes they take together.", 64_000_000)
    shared: bool = entry(Flag(), "Whether clients with other keys get them, too.", default=False)
    store: str | None = _store("Where answers are kept")
    wait: float = entry(Seconds(), "How long a request waits for an equal one of another gateway.", 30.0)


@dataclass(frozen=True, kw_only=True)
class VerdictSection(FileSection):
    """The reply to a request or an answer that a guard blocks."""

    status: int | None = entry(Whole(200, 599), "The HTTP status of a blocked request.", None)
    text: str | None = entry(TextValue(), "The text that the client reads.", None)
    details: bool = entry(
        Flag(), "Whether the client is told which guard it was, in a header and a moderation object.", default=False
    )


PERMITS = (STATE, HOSTED_TOOLS)
_PERMIT = "What clients may use past the guards: what the provider keeps (state), tools that it runs (hosted-tools)."


@dataclass(frozen=True, kw_only=True)
class RouteSection(FileSection):
    """A route: which requests it takes, the policy that guards them, and the providers that answer."""

    name: str | None = entry(Pattern(r"[A-Za-z0-9._-]+", "letters, digits, '.', '_' and '-'"), "Its name.", None)
    paths: tuple[str, ...] = entry(ListOf(TextValue()), "Paths that it takes, with * as in file names; else all.", ())
    models: tuple[str, ...] = entry(ListOf(TextValue()), "Models that it takes, with *; else all.", ())
    keys: tuple[str, ...] = entry(ListOf(TextValue()), "Names of clients' keys that it takes, with *; else all.", ())
    policy: str | None = entry(TextValue(), "The policy; else that of the file.", None)
    upstream: tuple[ShareSection, ...] = entry(
        ListOf(OneSection(ShareSection, short="name")), "The provider, or several of the same models.", ()
    )
    fallback: tuple[str, ...] = entry(ListOf(TextValue()), "Providers for the time when those fail, in order.", ())
    retries: RetriesSection = entry(OneSection(RetriesSection), "Retries and circuit breaker.", RetriesSection)
    shadow: tuple[ShadowSection, ...] = entry(
        ListOf(OneSection(ShadowSection, short="policy")), "RoutePolicies that run beside, and change nothing.", ()
    )
    budget: BudgetSection | None = entry(OneSection(BudgetSection), "What its requests may cost.", None)
    rate: RateSection | None = entry(OneSection(RateSection), "How many requests a client may send.", None)
    concurrency: ConcurrencySection | None = entry(OneSection(ConcurrencySection), "How many run at once.", None)
    cache: CacheSection | None = entry(OneSection(CacheSection), "Answers that are sent again.", None)
    verdict: VerdictSection | None = entry(OneSection(VerdictSection), "The reply when a guard blocks.", None)
    unknown: str | None = entry(
        OneWord("refuse", "read"), "Whether fields and events that no table knows are refused, or read as values.", None
    )
    permit: tuple[str, ...] | None = entry(ListOf(OneWord(*PERMITS)), _PERMIT, None)
    resumable: bool = entry(
        Flag(), "Whether a client that lost its stream may come back for the rest of it.", default=False
    )


@dataclass(frozen=True, kw_only=True)
class StateSection(FileSection):
    """The store that replicas of the gateway share."""

    url: Secret = entry(StoreUrl(), "The address of a server, best from the environment: ${STATE_URL}")
    name: str = entry(
        Pattern(r"[A-Za-z_][A-Za-z0-9_]{0,62}", "up to 63 letters, digits and _"),
        "The schema in PostgreSQL, what all keys begin with in Valkey. Gateways with other names share nothing.",
        "penstock",
    )


@dataclass(frozen=True, kw_only=True)
class ListenSection(FileSection):
    """Where the gateway listens."""

    host: str = entry(TextValue(), "The address.", "127.0.0.1")
    port: int = entry(Whole(0, 65_535), "The port; 0: any free one.", 8080)


@dataclass(frozen=True, kw_only=True)
class KeysSection(FileSection):
    """The keys of clients."""

    file: str = entry(
        TextValue(), "The file with their hashes, one a line, as `penstock serve --new-key NAME` writes them."
    )


@dataclass(frozen=True, kw_only=True)
class LimitsSection(FileSection):
    """The limits of each client."""

    body: int = entry(Size(), "How long the body of a request may be, decompressed.", 20_000_000)
    headers: int = entry(Size(), "How long its headers may be together.", 32_000)
    receive: float = entry(Seconds(), "How long a client may take to send a request.", 60.0)
    idle: float = entry(Seconds(), "How long a client may not read while there is something to send.", 60.0)
    total: float = entry(Seconds(), "How long one exchange may take.", 3600.0)
    keep_alive: float = entry(Seconds(), "After how long without a byte a stream gets a sign of life.", 15.0)
    requests: int = entry(Whole(1), "How many requests are at work at once; more get 503.", 2_000)
    drain: float = entry(Seconds(), "How long streams may go on after SIGTERM.", 30.0)


@dataclass(frozen=True, kw_only=True)
class ResumeSection(FileSection):
    """Streams of resumable routes: how long they go on without a client, and how much of them is kept."""

    grace: float = entry(Seconds(), "How long a stream goes on while no client reads it.", 30.0)
    keep: float = entry(Seconds(), "How long it can be read after its end.", 300.0)
    stream: int = entry(Size(), "How many bytes of one stream are kept.", 4_000_000)
    memory: int = entry(Size(), "How many bytes of all streams are kept.", 64_000_000)
    store: str | None = _store("Where streams are kept")


@dataclass(frozen=True, kw_only=True)
class ReviewsSection(FileSection):
    """Requests that guards ask a person about: where they wait, how long, and who may decide."""

    store: Secret = entry(
        RunStoreAddress(), "A file, or postgresql://… that gateways share, best from the environment: ${REVIEWS_URL}"
    )
    operators: str = entry(
        TextValue(), "The file with hashes of operators' keys, as `penstock serve --new-key NAME --keys FILE` writes."
    )
    expires_in: float = entry(
        Seconds(), "How long a decision may take; later the request is asked about anew.", 604_800.0
    )
    may_decide: str | None = entry(
        TextValue(),
        "Which operators may decide: `reviewers` for those that a question names, or module:name of a function of the "
        "request and the operator's name; all of them without it.",
        None,
    )
    lease: float = entry(Seconds(), "After how long an approval may be used again if its gateway died.", 600.0)


@dataclass(frozen=True, kw_only=True)
class LogSection(FileSection):
    """The access log and the records: no text of a request or an answer is in them."""

    format: str = entry(OneWord("text", "json", "none"), "The form of the access log on stderr.", "text")
    records: str | None = entry(TextValue(), "A file that gets a line of JSON for each request.", None)


@dataclass(frozen=True, kw_only=True)
class GatewaySection(FileSection):
    """A gateway file."""

    gateway: int = entry(Whole(VERSION, VERSION), "The version of the format; the first key of the file.")
    policy: str | None = entry(
        TextValue(), "The policy of routes that name none: a file, a preset, or module:name.", None
    )
    unknown: str = entry(
        OneWord("refuse", "read"),
        "Whether fields and events that no table knows are refused, or read as values.",
        "refuse",
    )
    permit: tuple[str, ...] = entry(ListOf(OneWord(*PERMITS)), _PERMIT, ())
    listen: ListenSection = entry(OneSection(ListenSection), "Where the gateway listens.", ListenSection)
    upstreams: dict[str, UpstreamSection] = entry(MapOf(OneSection(UpstreamSection)), "The providers, by name.", dict)
    checks: str | None = entry(TextValue(), "The policy of the checks that other products call; none without it.", None)
    routes: tuple[RouteSection, ...] = entry(
        ListOf(OneSection(RouteSection)), "The routes; the first one that takes a request serves it.", ()
    )
    keys: KeysSection | None = entry(
        OneSection(KeysSection, short="file"), "The keys of clients; without it, none is asked for.", None
    )
    anyone: bool = entry(Flag(), "Whether anyone who reaches the address may use keys of this gateway.", default=False)
    limits: LimitsSection = entry(OneSection(LimitsSection), "The limits of each client.", LimitsSection)
    state: StateSection | None = entry(
        OneSection(StateSection, short="url"),
        "A Valkey or PostgreSQL server that replicas share; without it, each counts by itself.",
        None,
    )
    resume: ResumeSection = entry(OneSection(ResumeSection), "The streams of resumable routes.", ResumeSection)
    reviews: ReviewsSection | None = entry(
        OneSection(ReviewsSection),
        "Where requests wait that guards ask a person about; without it, they are blocked.",
        None,
    )
    log: LogSection = entry(OneSection(LogSection), "The access log and the records.", LogSection)
