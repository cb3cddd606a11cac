"""Finding API keys, tokens and passwords in text."""
