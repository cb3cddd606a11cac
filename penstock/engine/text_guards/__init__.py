"""Text guards: processors that judge texts, in messages, tool calls, results and streams.

`text_guard` holds `TextGuard`, `window` the windows in which it reads texts, and `whole_texts` its base `WholeTexts`,
which finds the texts of messages and tool values.
"""
