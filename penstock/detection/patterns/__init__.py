"""Rules made of patterns and check sums, searched in whole texts and in streams."""
