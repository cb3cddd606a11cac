"""Formats that browsers and clients speak: requests into messages and options, chunks into events.

    chat_completions    OpenAI's chat completions
    responses           OpenAI's Responses API
    ui_messages         the AI SDK's UI message stream
    ag_ui               AG-UI, which CopilotKit and others speak
    plain_text          text and nothing else

Each is a module of the same shape, imported when it is first needed: ``HEADERS``, ``read_request``, an encoder,
``stream`` and ``stream_sync``, and ``answer`` for a whole answer. `client_request` holds the request of a client,
`sent` the answer as the client got it and how it ended, `sse` the framing as server-sent events, `whole` the chunks of
a whole answer, `asgi` responses that end the request when its client leaves, `released` the log for clients that come
back.
"""

from penstock.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
