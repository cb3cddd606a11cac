"""Text guards: processors that judge texts, in messages, tool calls, results and streams.

`text_guard` holds `TextGuard`, `components` the two parts that it can be made of, `scope` which texts it reads, and
`window` the windows in which it reads them. `reporting` tells the record, the log and callbacks what was found.
"""
