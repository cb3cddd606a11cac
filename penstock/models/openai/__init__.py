"""Models and embedders that speak OpenAI's protocol: chat completions and embeddings."""
