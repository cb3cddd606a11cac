"""Small ONNX models in folders, as Hugging Face's tools export them: made here, and read with the real libraries.

A model looks up the logits of each token in a table. A sequence model takes the largest of each label over the tokens.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
FAR = -9.0  # the logit of a label that does not apply

Table = Mapping[str, Sequence[float]]


def folder(
    path: Path,
    labels: Sequence[str],
    table: Table,
    *,
    tokens: bool,
    file: str = "model.onnx",
    inputs: int = 3,
    **config: Any,
) -> Path:
    """Write a model whose logits for a word are those of the table, or those of ``*``; return the folder."""
    path.mkdir(parents=True, exist_ok=True)
    words = [*SPECIAL, *(word for word in table if word != "*")]
    tokenizer = Tokenizer(WordLevel({word: at for at, word in enumerate(words)}, unk_token="[UNK]"))  # noqa: S106 - no secret
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", words.index("[CLS]")), ("[SEP]", words.index("[SEP]"))]
    )
    tokenizer.save(str(path / "tokenizer.json"))
    written = {"id2label": {str(at): label for at, label in enumerate(labels)}, "pad_token_id": 0, **config}
    (path / "config.json").write_text(json.dumps(written))
    rows = [table["*"] if word == "[UNK]" else table.get(word, [FAR] * len(labels)) for word in words]
    (path / file).parent.mkdir(exist_ok=True)
    onnx.save(_model(np.array(rows, dtype=np.float32), tokens=tokens, inputs=inputs), str(path / file))
    return path


def _model(rows: Any, *, tokens: bool, inputs: int) -> Any:
    """Return a model: a look-up, without the tokens that the mask leaves out, and for sequences the largest."""
    names = ("input_ids", "attention_mask", "token_type_ids")[:inputs]
    given = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"]) for name in names]
    shape = ["batch", "length", rows.shape[1]] if tokens else ["batch", rows.shape[1]]
    made = helper.make_tensor_value_info("logits", TensorProto.FLOAT, shape)
    nodes = [helper.make_node("Gather", ["rows", "input_ids"], ["each"], axis=0)]
    if tokens:
        nodes.append(helper.make_node("Identity", ["each"], ["logits"]))
    else:
        nodes += [
            helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
            helper.make_node("Sub", ["mask", "one"], ["outside"]),
            helper.make_node("Mul", ["outside", "far"], ["below"]),
            helper.make_node("Unsqueeze", ["below", "last"], ["wide"]),
            helper.make_node("Add", ["each", "wide"], ["masked"]),
            helper.make_node("ReduceMax", ["masked", "middle"], ["logits"], keepdims=0),
        ]
    constants = {
        "rows": rows,
        "one": np.float32(1),
        "far": np.float32(99),
        "last": np.array([2]),
        "middle": np.array([1]),
    }
    graph = helper.make_graph(
        nodes,
        "table",
        given,
        [made],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 9  # one that older runtimes read, too
    onnx.checker.check_model(model)
    return model
