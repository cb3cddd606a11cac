"""Small linear models over hashed words and letters, in plain Python with int8 weights."""
