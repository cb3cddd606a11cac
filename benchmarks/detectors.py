"""What it brings to collect the texts of concurrent requests for one call of a detector, and what it costs.

``python benchmarks/detectors.py`` prints, for several sizes of a batch and times that a text waits for others: requests
in a second, their latency, and the longest stall of the event loop. The first detector is a fake one that sleeps: 5 ms
for a call and 0.5 ms for a text. The second is a model of matrices in onnxruntime, if onnx and onnxruntime are there.
"""

from __future__ import annotations

import importlib.util
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from penstock import ModerationProcessor, ScoreDetector, Workflow

CALL, TEXT = 0.005, 0.0005  # seconds
REQUESTS = 256
SETTINGS = ((1, 0.0), (32, 0.0), (32, 0.002), (32, 0.01))
AT_ONCE = (1, 8, 64)
PROSE = "the model reads a prompt of some words that are all harmless and looks for none that is not"
WORDS = PROSE.split()


class Sleeping:
    """A detector that takes a fixed time for each call and each text; the interpreter is free meanwhile."""

    categories = ("x",)
    thresholds: Mapping[str, float] = {"x": 0.5}

    def __init__(self, batch_size: int, batch_seconds: float) -> None:
        self.batch_size, self.batch_seconds = batch_size, batch_seconds

    def scores(self, texts: Sequence[str]) -> list[dict[str, float]]:
        """Sleep."""
        time.sleep(CALL + TEXT * len(texts))
        return [{"x": 0.0} for _ in texts]


async def measured(detector: ScoreDetector, at_once: int) -> tuple[float, float, float, float]:
    """Return requests in a second, the median and the 95th percentile of their latency, and the longest stall."""
    workflow = Workflow("w").then(ModerationProcessor(detector=detector, combine="replace"))
    await workflow.check("a first text, which loads everything")
    left = iter(range(REQUESTS))
    latencies: list[float] = []
    stall = 0.0

    async def client() -> None:
        for number in left:
            began = time.perf_counter()
            text = f"{number}: {' '.join(WORDS[number % len(WORDS) :] + WORDS[: number % len(WORDS)])}"
            outcome = await workflow.check(text)
            assert not outcome.blocked  # noqa: S101 - what is timed must be right
            latencies.append(time.perf_counter() - began)

    async def ticker() -> None:
        nonlocal stall
        last = time.perf_counter()
        while True:
            await anyio.sleep(0.001)
            now = time.perf_counter()
            stall, last = max(stall, now - last - 0.001), now

    began = time.perf_counter()
    async with anyio.create_task_group() as group:
        group.start_soon(ticker)
        async with anyio.create_task_group() as clients:
            for _ in range(at_once):
                clients.start_soon(client)
        group.cancel_scope.cancel()
    seconds = time.perf_counter() - began
    return REQUESTS / seconds, statistics.median(latencies), statistics.quantiles(latencies, n=20)[-1], stall


def table(name: str, make: Any) -> None:
    """Print the figures of a detector in all settings."""
    print(f"{name}, {REQUESTS} requests of {len(PROSE)} characters")
    print("  at once  batch  waits ms  requests/s  median ms  95 % ms  stall ms")
    for at_once in AT_ONCE:
        for size, seconds in SETTINGS:
            rate, median, most, stall = anyio.run(measured, make(size, seconds), at_once)
            figures = f"{rate:10.0f}  {median * 1000:9.1f}  {most * 1000:7.1f}  {stall * 1000:8.1f}"
            print(f"  {at_once:7}  {size:5}  {seconds * 1000:8.0f}  {figures}")


def matrices(folder: Path, *, width: int = 384, layers: int = 12) -> Path:
    """Write a model with the products of matrices that a small transformer has, and a tokenizer of words."""
    import json

    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import BertPreTokenizer

    words = ["[UNK]", *dict.fromkeys(WORDS)]
    tokenizer = Tokenizer(WordLevel({word: at for at, word in enumerate(words)}, unk_token="[UNK]"))  # noqa: S106
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text(json.dumps({"id2label": {"0": "y", "1": "x"}}))
    rng = np.random.default_rng(1)

    def weights(name: str, *shape: int) -> Any:
        return numpy_helper.from_array((rng.standard_normal(shape) * 0.03).astype(np.float32), name)

    tables = [weights("words", len(words), width), weights("head", width, 2)]
    tables.append(numpy_helper.from_array(np.array([1]), "axis"))
    nodes = [helper.make_node("Gather", ["words", "input_ids"], ["l0"])]
    for at in range(layers):
        tables += [weights(f"up{at}", width, 4 * width), weights(f"down{at}", 4 * width, width)]
        nodes += [
            helper.make_node("MatMul", [f"l{at}", f"up{at}"], [f"u{at}"]),
            helper.make_node("Relu", [f"u{at}"], [f"r{at}"]),
            helper.make_node("MatMul", [f"r{at}", f"down{at}"], [f"l{at + 1}"]),
        ]
    nodes.append(helper.make_node("ReduceMean", [f"l{layers}", "axis"], ["mean"], keepdims=0))
    nodes.append(helper.make_node("MatMul", ["mean", "head"], ["logits"]))
    given = helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "length"])
    made = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 2])
    graph = helper.make_graph(nodes, "matrices", [given], [made], tables)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 9
    onnx.save(model, str(folder / "model.onnx"))
    return folder


def main() -> None:
    """Print all tables."""
    table(f"sleeps {CALL * 1000:.0f} ms a call and {TEXT * 1000:.1f} ms a text", Sleeping)
    if all(importlib.util.find_spec(name) for name in ("onnx", "onnxruntime", "tokenizers")):
        from penstock.models import OnnxScores

        with tempfile.TemporaryDirectory() as folder:
            path = matrices(Path(folder))
            make = partial(OnnxScores, path, categories={"x": "x"}, thresholds=1.0)
            table("onnxruntime, 14 M weights", lambda size, seconds: make(batch_size=size, batch_seconds=seconds))


if __name__ == "__main__":
    main()
