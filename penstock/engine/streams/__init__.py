"""Streams: `process_output_stream` over a source of chunks. No module here knows `Run`; a stream gets a `StreamHost`.

A chunk goes through *pipes*. A pipe that guards texts hands them to a *lane*, which opens a *track* for each text::

    source           sources       an iterable of chunks, or a task that reads one
      │ Chunk
      ▼
    pipes            builder       made of the plan when the stream starts, in sequence
      ├─ HookPipe    hooks         calls hooks on chunks
      ├─ PolicyPipe  policy        hooks with a timeout, on_error= or a fallback
      ├─ ShadowPipe  policy        steps that only watch
      └─ TextPipe    text_pipe     holds text until it is decided
           │ text                  ▲ Decided(edits, until)
           ▼                       │
         lane → track              tracks     a text guard, or a hook that edits nothing, on one text
                  └─ tracks        combined_tracks   in sequence, in parallel, under a policy, in a dag
      │ Chunk
      ▼
    StreamNormalizer stream        no empty texts; keeps the answer
      │ Chunk
      ▼
    client

Pipe: takes a chunk and returns the chunks that leave. Lane: a part of the graph that judges texts; it lives as long as
the stream. Track: the same part of the graph on one text; it is fed text and returns up to where the text is decided,
and the edits to that. A chunk that holds whole texts, such as a tool call, is fed to a track in one final piece.

`feed` of a pipe or a track returns its result at once if nothing was found and nothing waits. Otherwise it returns a
coroutine, which goes on with the same piece; `OutputStream` awaits it in one place. While an async guard looks at a
text, `TaskReader` may read more of the source, and the guard is asked about all of it.

`decisions` composes and merges decisions, `chunk_texts` finds the whole texts in chunks, and `steps` holds what a step
keeps during a stream: its context, effects and record.
"""
