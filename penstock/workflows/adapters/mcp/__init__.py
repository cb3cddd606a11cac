"""A proxy that guards any MCP server, over stdio and streamable HTTP. Needs the extra ``mcp``.

``as_proxy(guard, server=["uvx", "mcp-server-time"])`` stands between a client and a server. It speaks the protocol to
both, whatever they can do, and passes on the guarded version. On the command line: ``penstock mcp``.
"""

from penstock.engine.values.errors import MissingExtraError

try:
    from penstock.workflows.adapters.mcp.serving import SUPPORT, GuardProxy, ProxyOptions, as_proxy
except ImportError as error:
    raise MissingExtraError("penstock.workflows.adapters.mcp", "mcp") from error

__all__ = ["SUPPORT", "GuardProxy", "ProxyOptions", "as_proxy"]
