"""The gateway file: every fault at its place, with its cure; keys of clients as hashes; the JSON Schema."""

import json
from datetime import date
from pathlib import Path

import jsonschema
import pytest
import yaml

from penstock.workflows.gateway.config.client_keys import line_of_key, new_key, read_keys
from penstock.workflows.gateway.config.reading import is_gateway_file, read_gateway
from penstock.workflows.gateway.config.schema import gateway_schema
from penstock.workflows.policies.problems import PolicyError, Problems

POLICY = "penstock: 1\nsteps:\n  - use: pii-detector\n    with: {strategy: redact}\n"
GOOD = """\
gateway: 1
policy: guard.yaml
upstreams:
  openai: {url: https://api.openai.com/v1, key_env: OPENAI_API_KEY, timeouts: {first: 2m}}
  local:
    url: http://127.0.0.1:8000/v1
    headers: {x-team: "${TEAM:-red}"}
routes:
  - name: embeddings
    paths: /v1/embeddings
    upstream: local
  - name: big
    models: [gpt-*, o3]
    upstream: [openai, {name: local, weight: .5}]
    fallback: local
    shadow: [{policy: guard.yaml, rate: 0.1}]
    rate: {requests: 60, per: 1m}
    concurrency: {most: 8}
    cache: {keep: 10m, memory: 5MB}
    verdict: {status: 403, text: Not here.}
"""
ENVIRONMENT = {"OPENAI_API_KEY": "sk-planted-0123456789"}


@pytest.fixture
def reading(tmp_path):
    """Reads a gateway file with this text, beside a good policy and some keys."""
    (tmp_path / "guard.yaml").write_text(POLICY)
    (tmp_path / "keys.txt").write_text(f"# ours\n{line_of_key('team-a', new_key())}\n")

    def read(text, environment=None):
        (tmp_path / "gateway.yaml").write_text(text)
        return read_gateway(tmp_path / "gateway.yaml", environment=environment or ENVIRONMENT)

    return read


def faults(reading, text, environment=None):
    """The faults of a file, each with its line."""
    with pytest.raises(PolicyError) as caught:
        reading(text, environment)
    return [f"{one.place.line}: {one.message}" for one in caught.value.problems]


def test_a_file_is_read_whole(reading, tmp_path) -> None:
    """Times, sizes, shares, variables; and the files that it was made of, for those who look whether they change."""
    document = reading(GOOD)
    embeddings, big = document.section.routes

    assert [share.name for share in big.upstream] == ["openai", "local"]
    assert (big.upstream[1].weight, big.rate.per, big.cache.memory) == (0.5, 60, 5_000_000)
    assert (embeddings.policy, embeddings.paths) == ("guard.yaml", ("/v1/embeddings",))
    assert document.section.upstreams["openai"].timeouts.first == 120
    assert document.section.upstreams["local"].headers == {"x-team": "red"}
    assert document.policies["guard.yaml"].name == "guard"
    assert set(document.files) == {str(tmp_path / "gateway.yaml"), str(tmp_path / "guard.yaml")}
    assert ENVIRONMENT["OPENAI_API_KEY"] not in repr(document)


def test_the_shortest_file_has_one_route(reading) -> None:
    """For everything, to the only provider."""
    document = reading("gateway: 1\npolicy: guard.yaml\nupstreams: {local: {url: http://127.0.0.1:1/v1}}\n")

    assert [(route.name, route.upstream[0].name) for route in document.section.routes] == [("all", "local")]


SHORT = "gateway: 1\npolicy: guard.yaml\nupstreams: {local: {url: http://127.0.0.1:1/v1}}\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (SHORT + "rout: []\n", "4: a gateway file has no key rout; did you mean routes?"),
        (SHORT + "routes: [{upstream: locl}]\n", "4: there is no upstream locl; did you mean local?"),
        (SHORT + "routes: [{name: a}, {name: b}]\n", "4: route b is never reached: a before it takes every request"),
        (
            SHORT + "routes: [{name: a, models: x}, {name: a}]\n",
            "4: two routes have the name a; their metrics and limits would be one",
        ),
        (
            SHORT + "routes: [{paths: /v1/chat/completion}]\n",
            "4: the gateway serves nothing at /v1/chat/completion; did you mean /v1/chat/completions?",
        ),
        (
            SHORT + "routes: [{budget: {max_cost: 1, ledger: 'nowhere:ledger'}}]\n",
            "4: the ledger nowhere:ledger cannot be used: ModuleNotFoundError: No module named 'nowhere'",
        ),
        (
            SHORT + "state: mysql://u:secret@host/x\n",
            "4: url must be an address such as valkey://host:6379/0 or postgresql://host/database",
        ),
        (
            SHORT + "state: valkey://u:sec@ret@host:x\n",
            (
                "4: the state cannot be used: ValkeyState: option 'url' is a text that is not shown (it may hold a "
                "password), but must be a URL such as valkey://user:password@host:6379/0, its password percent-encoded"
            ),
        ),
        (
            SHORT + "routes: [{budget: {max_cost: 1, ledger: no-module}}]\n",
            "4: ledger must be memory, module:name of a CostLedger, or the address of a server",
        ),
        (SHORT + "limits: {body: 5 stones}\n", "4: body must be a size above 0, such as 500kB or 20MB"),
        (SHORT + "limits: {total: -1}\n", "4: total must be a time above 0, such as 2s, 500ms or 1.5m"),
        (
            SHORT + "keys: keys.txt\nroutes: [{keys: [team-b]}]\n",
            "5: no key of a client has the name team-b; did you mean team-a?",
        ),
        (
            SHORT + "routes: [{keys: [team-a]}]\n",
            "4: a route for some keys needs the keys of clients: keys: at the file's top",
        ),
        (
            SHORT.replace("{url", "{pass_keys: true, url") + "keys: keys.txt\n",
            "3: local: pass_keys: would send the keys of this gateway to the provider; name key_env: instead",
        ),
        (
            SHORT.replace("policy: guard.yaml\n", ""),
            "1: route all has no policy; name one under policy:, there or for the file",
        ),
        (SHORT.replace("http:", "ftp:"), "3: url must be a URL with http:// or https:// and a host"),
        (
            SHORT.replace("127", "me:secret@127"),
            "3: url must not hold a user or a password; name the variable with the key under key_env:",
        ),
        (
            SHORT.replace("{url", "{key_env: OPENAI_KEY, url"),
            "3: local: the environment has no variable OPENAI_KEY; did you mean OPENAI_API_KEY?",
        ),
        (
            SHORT.replace("{url", "{key_env: sk-1234, url"),
            "3: key_env must be the name of a variable of the environment, not its value",
        ),
        (
            SHORT.replace("{url", "{key_env: OPENAI_API_KEY, url") + "listen: {host: 0.0.0.0}\n",
            (
                "4: anyone who reaches 0.0.0.0 could use the key of local; name the keys of clients under keys:, "
                "or write `anyone: true` if something before the gateway checks them"
            ),
        ),
        ("penstock: 1\nsteps: []\n", "1: this is no gateway file; its first line is `gateway: 1`"),
        (SHORT.replace("gateway: 1", "gateway: 2"), "1: gateway must be a whole number from 1 to 1"),
    ],
)
def test_a_fault_is_told_at_its_place(reading, text, expected) -> None:
    """With its cure, and without the value of a key."""
    assert expected in faults(reading, text)


def test_faults_of_a_policy_are_told_at_their_own_places(reading, tmp_path) -> None:
    """In its file, together with those of the gateway."""
    (tmp_path / "guard.yaml").write_text(POLICY.replace("pii-detector", "pii-detectr"))
    with pytest.raises(PolicyError) as caught:
        reading(f"{SHORT}keys: missing.txt\n")

    told = str(caught.value)
    assert "guard.yaml:3:10: unknown processor pii-detectr; did you mean pii-detector?" in told
    assert "gateway.yaml:4:7: " in told
    assert "missing.txt cannot be read" in told


ASKING = """
from penstock import Processor, Workflow


class Late(Processor):
    id = "late"
    asks = True
    edits = "nothing"

    def process_output_stream(self, chunk, ctx):
        return chunk

    def process_output_result(self, ctx):
        ctx.suspend("Is this allowed?")


live = Workflow("live").then(Late())
"""


def test_a_question_about_an_answer_that_has_left_is_a_fault(reading, tmp_path) -> None:
    """A person cannot withhold it any more; one that holds answers is none."""
    (tmp_path / "late.py").write_text(ASKING)
    (fault,) = faults(reading, SHORT.replace("guard.yaml", "late.py:live"))
    assert "the step late asks a person about an answer of which a part has left" in fault
    (tmp_path / "guard.yaml").write_text("penstock: 1\nsteps: [{use: human-review, with: {at: [output]}}]\n")
    reading(SHORT)


def test_a_policy_that_guards_nothing_is_a_fault(reading, tmp_path) -> None:
    """A configured guard really runs."""
    (tmp_path / "guard.yaml").write_text("penstock: 1\nsteps: []\n")
    assert "2: policy guard.yaml has no steps, so that it guards nothing" in faults(reading, SHORT)

    (tmp_path / "guard.yaml").write_text("penstock: 1\nsteps: [{use: stream-error-retry}]\n")
    assert faults(reading, SHORT) == [
        "2: policy guard.yaml: the step stream-error-retry would never run in a gateway; it has only process_api_error"
    ]


def test_a_gateway_file_is_told_from_a_policy(tmp_path) -> None:
    """By its first key."""
    (tmp_path / "a.yaml").write_text(SHORT)
    (tmp_path / "b.yaml").write_text(POLICY)
    names = [str(tmp_path / name) for name in ("a.yaml", "b.yaml", "none.yaml")]

    assert [is_gateway_file(name) for name in names] == [True, False, False]


def test_the_published_schema_is_the_one_of_the_code() -> None:
    """`penstock schema gateway >docs/gateway.schema.json` makes it so."""
    published = Path(__file__).parents[3] / "docs" / "gateway.schema.json"
    assert json.loads(published.read_text("utf-8")) == gateway_schema()


def test_the_example_is_read(tmp_path) -> None:
    """With a key of a client, and those of the providers."""
    for file in (Path(__file__).parents[3] / "examples" / "gateway").glob("*.yaml"):
        (tmp_path / file.name).write_text(file.read_text("utf-8"), "utf-8")
    (tmp_path / "keys.txt").write_text(f"{line_of_key('team-a', new_key())}\n")
    document = read_gateway(tmp_path / "gateway.yaml", environment={"OPENAI_API_KEY": "a", "ANTHROPIC_API_KEY": "b"})

    assert [route.name for route in document.section.routes] == ["claude", "large", "small"]


def test_the_schema_takes_what_the_reader_takes() -> None:
    """And refuses an unknown key."""
    schema = gateway_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    check = jsonschema.Draft202012Validator(schema).is_valid

    assert check(yaml.safe_load(GOOD))
    assert check(yaml.safe_load(SHORT))
    assert not check(yaml.safe_load(SHORT + "rout: []\n"))
    assert json.dumps(schema)


# Reviews


def test_reviews_name_a_store_and_operators(tmp_path) -> None:
    """Files are found from the folder of the file; no address of a server is shown."""
    (tmp_path / "guard.yaml").write_text(POLICY)
    (tmp_path / "ops.txt").write_text(f"{line_of_key('eve', new_key())}\n")
    path = tmp_path / "gateway.yaml"

    def read(store: str, operators: str = "ops.txt"):
        path.write_text(
            "gateway: 1\npolicy: guard.yaml\nupstreams: {up: {url: https://a.example/v1}}\n"
            f"reviews: {{store: '{store}', operators: {operators}}}\n"
        )
        return read_gateway(path, environment={"DB": "postgresql://eve:secret-word@db.example/app"})

    for store in ("reviews.db", "sqlite:reviews.db"):
        assert read(store).review_store.reveal() == str(tmp_path / "reviews.db")
    document = read("${DB}")
    assert document.review_store.reveal() == "postgresql://eve:secret-word@db.example/app"
    assert "secret-word" not in repr(document)
    assert document.operators.keys[0].name == "eve"
    for store, operators, fault in (("valkey://a", "ops.txt", "must be the path"), ("a.db", "none.txt", "none.txt")):
        with pytest.raises(PolicyError, match=fault):
            read(store, operators)


# Keys of clients


def test_a_key_is_known_by_its_hash() -> None:
    """And by nothing else."""
    key, other = new_key(), new_key()
    problems = Problems()
    keys = read_keys(f"{line_of_key('a', key)}\n\n# b\n{line_of_key('b', other)} until=2026-12-31\n", "keys", problems)

    assert not len(problems)
    assert [keys.name_of(one, date(2026, 12, 31)) for one in (key, other, key + "x", "", None)] == [
        "a",
        "b",
        None,
        None,
        None,
    ]
    assert keys.name_of(other, date(2027, 1, 1)) is None
    assert key not in repr(keys)


def test_a_line_that_is_no_hash_is_never_quoted() -> None:
    """Somebody may have written the key itself."""
    problems = Problems()
    read_keys(
        "team-a psk-plain-key-by-mistake\nx sha256:12\ny sha256:" + "0" * 64 + " until=2026-13-01\n", "keys", problems
    )

    assert [one.place.line for one in problems.found] == [1, 2, 3]
    assert "plain" not in str(problems.found)


def test_a_short_key_is_refused() -> None:
    """Its hash could be guessed."""
    with pytest.raises(ValueError, match="at least 24"):
        line_of_key("a", "letmein")
    with pytest.raises(ValueError, match="the name of a client"):
        line_of_key("a b", new_key())


def test_the_command_checks_a_file_and_serves_nothing(tmp_path, capsys) -> None:
    """A fault is told with its line."""
    from penstock.workflows.cli import main

    path = tmp_path / "gateway.yaml"
    path.write_text("gateway: 1\npolicy: privacy\nupstreams: {up: {url: 'http://127.0.0.1:9/v1'}}\n")
    assert main(["serve", str(path), "--check"]) == 0
    assert "is valid: 1 route" in capsys.readouterr().out
    path.write_text("gateway: 1\npolicy: privacy\nupstreams: {up: {url: 'http://127.0.0.1:9/v1'}}\nlimts: {}\n")
    assert main(["serve", str(path), "--check"]) != 0
    shown = capsys.readouterr()
    assert "gateway.yaml:4" in shown.out + shown.err
