"""What a run did, as data: spans, traces, their JSON, text and differences; the logs they are made from."""
