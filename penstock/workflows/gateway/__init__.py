"""A guarded endpoint in front of any other: OpenAI's and Anthropic's protocols, patched and not translated."""
