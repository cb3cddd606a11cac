"""Workflows as graphs: nodes, conditions, plans, and the checks that are made when a graph is built."""
