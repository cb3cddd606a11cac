"""A workflow as a plugin of Google's Agent Development Kit: ``Runner(…, plugins=[as_plugin(guard)])``.

Needs the extra ``google-adk``. The plugin wraps the model of each agent before its first call, so that the partial
events, the final event, the state and the session agree; its hooks check the user's message, tools around their calls,
and events that come from elsewhere.
"""

from penstock.engine.values.errors import MissingExtraError

try:
    from penstock.workflows.adapters.google_adk.answers import ERROR_CODE, tripwire_of
    from penstock.workflows.adapters.google_adk.plugin import GuardPlugin, as_plugin
except ImportError as error:
    raise MissingExtraError("penstock.workflows.adapters.google_adk", "google-adk") from error

__all__ = ["ERROR_CODE", "GuardPlugin", "as_plugin", "tripwire_of"]
