"""Streams: drives `process_output_stream` over a source of chunks. It knows plans and guards, no run.

`steps`: one step at work on one stream. `deltas`: what is decided of a text, and how it composes and merges. `tracks`:
a graph at work on one text. `lanes`: what opens tracks, and judges what is no text. `pipes`: what chunks go through.
`build`: makes pipes of a plan. `pull`: reads the source. `shape`: what leaves, block by block. `stream`: the whole.
"""
