"""What 1, 10 and 1,000 cores hold: measured on one core, and computed from it. docs/scale.md has the result."""
