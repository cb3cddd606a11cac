"""The arguments of the commands that serve: `serve`, `studio` and `mcp`."""

from __future__ import annotations

import os

from penstock.workflows.cli.arguments.building import WORKFLOW, Subcommands, add_profile, command
from penstock.workflows.cli.arguments.memory import STORE
from penstock.workflows.cli.arguments.review import add_may_decide
from penstock.workflows.cli.arguments.values import address, natural, positive

STUDIO_PORT = 7374
"""The default port of the studio: no other program's by habit, so a bookmark stays right."""

_STUDIO = """\
Opens a page on this machine: presets and your workflows and agents as pictures; runs on a text, a conversation or a
JSONL file, watched live; options changed in a form; two workflows, versions or runs compared. A workflow is loaded
again when its file changes. Each is loaded and run in a process of its own.

The studio listens on 127.0.0.1. With another --host it demands the token in the URL that it prints.
"""

_STUDIO_EXAMPLES = """\
examples:
  penstock studio --open                        the presets, in a browser
  penstock studio guards.py:guard app.py:agent  a workflow and an agent, beside the presets
  penstock studio --port 0                      any free port; the URL is printed
  penstock studio app.py:agent --reviews runs.db   decide about requests that wait, and go on with them
  penstock studio --review to-label.jsonl       label rows that `penstock eval --undecided` has written
"""

_MCP = """\
A proxy for any MCP server. Messages to the server (arguments of tools, answers of users and models) pass
process_tool_call; messages from it (results, descriptions of tools, resources, prompts, requests, logs) pass
process_tool_result. A blocked call of a tool becomes a result that says so.

The server is a command after `--`, which gets the whole environment, or a URL of streamable HTTP. Clients connect over
stdin and stdout, or with --listen over streamable HTTP.
"""

_MCP_EXAMPLES = """\
examples:
  penstock mcp -w guards.py:guard -- uvx mcp-server-fetch
  penstock mcp -w guards.py:tools -- npx -y @modelcontextprotocol/server-filesystem /tmp
  penstock mcp -w guards.py:guard --url https://example.com/mcp --header 'Authorization: Bearer ${API_KEY}'
  penstock mcp -w guards.py:guard --listen 127.0.0.1:8000 -- uvx mcp-server-fetch

With a --listen address that other machines can reach, clients need a token: that of the environment variable
PENSTOCK_MCP_TOKEN, or one that is printed.

exit codes: 0 the client has ended, 2 wrong usage, or the server cannot be started or reached, 3 the server has ended,
130 interrupted
"""

_SERVE = """\
A guarded endpoint in front of any provider that speaks OpenAI's or Anthropic's protocol. Clients change their base URL
and nothing else. Untouched events leave as the bytes that came; edited ones are patched.

With a policy and --upstream it has one route. A gateway file (its first key is `gateway: 1`) has routes by path, model
and key, several providers, budgets, limits and a cache. Files are read again when they change; a broken one changes
nothing. SIGTERM lets streams end, SIGHUP reads the files again.
"""

_SERVE_EXAMPLES = """\
examples:
  penstock serve privacy --upstream https://api.openai.com/v1
  penstock serve guard.yaml --upstream https://api.openai.com/v1 --key-env OPENAI_API_KEY --keys keys.txt
  penstock serve gateway.yaml --port 8080
  penstock serve --new-key team-a --keys keys.txt       a key for a client; the file gets its hash

Without --key-env and --keys, the keys that clients send go on to the provider.
exit codes: 0 it was stopped, 2 wrong usage, or a file has problems, or the address is taken
"""


def add_serve(commands: Subcommands) -> None:
    """Add ``penstock serve``."""
    usage = "POLICY --upstream URL | GATEWAY_FILE"
    serve = command(commands, "serve", usage, "a guarded endpoint in front of a provider", _SERVE, _SERVE_EXAMPLES)
    serve.add_argument("policy", metavar="POLICY", nargs="?", help=f"{WORKFLOW}; or a gateway file")
    serve.add_argument("--upstream", metavar="URL", help="the base URL of the provider, as its own clients take it")
    serve.add_argument("--host", metavar="ADDRESS", help="the address to listen on (default: 127.0.0.1)")
    serve.add_argument("--port", type=natural, metavar="N", help="default: 8080; 0: any free one")
    serve.add_argument("--key-env", metavar="NAME", help="the environment variable with the key of the provider")
    serve.add_argument("--keys", metavar="FILE", help="hashes of the keys of clients, one a line")
    serve.add_argument("--anyone", action="store_true", help="let anyone who reaches the address use the key")
    unknown = serve.add_mutually_exclusive_group()
    unknown.add_argument(
        "--strict", action="store_true", help="refuse fields and events that no table knows (the default)"
    )
    unknown.add_argument("--read-unknown", action="store_true", help="let guards read them as values")
    serve.add_argument(
        "--shadow", action="append", default=[], metavar="POLICY", help="a policy that runs beside, and changes nothing"
    )
    serve.add_argument("--checks", action="store_true", help="answer checks of other products, too (/v1/check …)")
    serve.add_argument("--check", action="store_true", help="check the gateway file or the policy, and serve nothing")
    serve.add_argument("--checks-only", action="store_true", help="answer checks, and nothing else: no --upstream")
    serve.add_argument("--log-format", choices=("text", "json", "none"), help="the access log (default: text)")
    serve.add_argument("--records", metavar="FILE", help="write a line of JSON for each request, without texts")
    serve.add_argument("--traces", action="store_true", help="make spans of OpenTelemetry (extra `otel`)")
    serve.add_argument("--new-key", metavar="NAME", help="make a key for a client, and end")
    serve.add_argument("--hash-key", metavar="NAME", help="hash a key that stands on stdin, and end")


def add_studio(commands: Subcommands) -> None:
    """Add ``penstock studio``."""
    studio = command(
        commands, "studio", "[WORKFLOW ...]", "a page to see, run and compare workflows", _STUDIO, _STUDIO_EXAMPLES
    )
    studio.add_argument(
        "workflows",
        metavar="WORKFLOW",
        nargs="*",
        help="a policy file (.yaml, .json), or module:name or path.py:name of a workflow or an agent",
    )
    add_profile(studio)
    studio.add_argument("--open", action="store_true", help="open a browser")
    studio.add_argument(
        "--port", type=natural, default=STUDIO_PORT, metavar="N", help=f"default: {STUDIO_PORT}; 0: any free one"
    )
    studio.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS", help="the address to listen on (default: 127.0.0.1)"
    )
    studio.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME", help="a name under which it may be reached, too"
    )
    studio.add_argument(
        "--review", metavar="FILE", help="label the rows of this file (of `penstock eval --undecided`), a key each"
    )
    studio.add_argument(
        "--reviews",
        metavar="STORE",
        default=os.environ.get(STORE),
        help=f"the store of requests that wait for people, as of `penstock review` (default: ${STORE})",
    )
    studio.add_argument("--by", metavar="NAME", help="who decides about requests (default: the page asks)")
    add_may_decide(studio)
    studio.add_argument("--history", metavar="FILE", help="where the last runs are kept (default: a file of yours)")
    studio.add_argument("--no-history", action="store_true", help="keep no runs when the studio stops")
    studio.add_argument("--keep", type=positive, default=200, metavar="N", help="keep the last N runs (default: 200)")
    studio.add_argument(
        "--max-upload", type=positive, default=256, metavar="MIB", help="the largest file to upload (default: 256)"
    )
    studio.add_argument(
        "--max-text", type=positive, default=8, metavar="MIB", help="the largest text to run (default: 8)"
    )
    studio.add_argument(
        "--timeout", type=positive, default=600, metavar="S", help="stop a run after S seconds (default: 600)"
    )
    studio.add_argument(
        "--load-timeout", type=positive, default=30, metavar="S", help="stop importing after S seconds (default: 30)"
    )
    studio.add_argument(
        "-j", "--jobs", type=positive, default=4, metavar="N", help="how many runs are at work at once (default: 4)"
    )


def add_mcp(commands: Subcommands) -> None:
    """Add ``penstock mcp``."""
    line = "guard an MCP server: a proxy over stdio or streamable HTTP"
    usage = "--workflow WORKFLOW (--url URL | -- COMMAND [ARGUMENT ...])"
    mcp = command(commands, "mcp", usage, line, _MCP, _MCP_EXAMPLES)
    mcp.add_argument(
        "-w", "--workflow", action="append", required=True, metavar="WORKFLOW", help=f"{WORKFLOW}; may be repeated"
    )
    add_profile(mcp)
    mcp.add_argument("--url", metavar="URL", help="the server, if it speaks streamable HTTP")
    mcp.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="HEADER",
        help="a header for --url: 'NAME: VALUE'; ${NAME} in it is an environment variable",
    )
    mcp.add_argument("--listen", type=address, metavar="HOST:PORT", help="serve streamable HTTP there, not stdio")
    mcp.add_argument("--path", default="/mcp", metavar="PATH", help="where it is found with --listen (default: /mcp)")
    mcp.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME", help="a name under which it may be reached, too"
    )
    mcp.add_argument(
        "--descriptions",
        choices=("result", "input", "trusted"),
        default="result",
        help="how descriptions of tools are read: as results, as input, or not at all (default: result)",
    )
    mcp.add_argument(
        "--on-block", choices=("call", "session"), default="call", help="a verdict ends this (default: call)"
    )
    mcp.add_argument(
        "--lenient", action="store_true", help="go on if a processor of the workflow would read nothing here"
    )
    mcp.add_argument("server", nargs="*", metavar="COMMAND", help="the command of the server, after `--`")
