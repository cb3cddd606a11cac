"""Models and embedders that speak OpenAI's chat completions and embeddings; it knows no other protocol."""
