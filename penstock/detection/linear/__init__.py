"""A small linear model over hashed words and letters: plain Python, int8 weights; it knows no category and no guard."""
