"""Rules made of patterns and check digits, for whole texts and streams."""
