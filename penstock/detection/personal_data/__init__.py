"""Personal data in text: patterns, check digits and words nearby."""
