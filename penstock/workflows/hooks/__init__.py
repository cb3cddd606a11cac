"""Guards for coding agents: programs that Claude Code and Codex call before and after each of their steps.

`client` is the program that the product starts; it imports next to nothing. It hands the product's JSON to `server`,
which holds the loaded policy, or to `cold`. `answering` reads the JSON, with a table of events for each product,
and `guarding` runs the policy. `installing` writes the hooks into the settings of a product.
"""
