"""Personal data in text: patterns, check sums and words nearby."""
