"""Places: what stands around a value says for and against a finding: labels, keys, headers of columns, commands."""
