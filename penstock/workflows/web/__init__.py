"""Formats that browsers and clients speak: requests into messages and options, chunks into events.

    chat_completions    OpenAI's chat completions
    responses           OpenAI's Responses API

Each is a module of the same shape, imported when it is first needed. `sent` holds what all of them have to know about
an answer: what was sent of it, and how it ended.
"""

from penstock.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
