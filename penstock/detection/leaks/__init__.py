"""System prompts in what a model says: compared with the prompts in use, exactly, nearly, and through disguises."""
