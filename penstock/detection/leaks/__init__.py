"""System prompts in what a model says: exact and near-exact matching against the prompts in use, behind disguises too.

Pure: it knows the texts it is given, and no message, no stage and no model.
"""
