"""Finding what rules and check sums describe, in whole texts and in streams; it knows no processor and no stage."""
