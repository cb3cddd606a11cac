"""What several families need of conversations: pairs of calls and results, lists laid out anew. It knows no family."""
