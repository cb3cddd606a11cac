"""Find what steps changed (`diff`), and merge the changes of parallel branches into one payload (`rules`)."""
