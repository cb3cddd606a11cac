"""The recorded vectors of the built-in processors: one module a family of vectors, and the frame that judges them."""
