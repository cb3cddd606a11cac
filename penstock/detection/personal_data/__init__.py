"""Finding personal data and keys in text."""
