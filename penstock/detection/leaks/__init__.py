"""System prompts in a model's answers: compared with the prompts in use, exactly, nearly, and through disguises."""
