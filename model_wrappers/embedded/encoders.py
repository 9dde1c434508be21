"""The encoders of the embedded models: what a picture shows, and where a sentence lies.

EfficientNet-Lite0 names a picture among the 1,000 classes of ImageNet, MiniLM embeds a sentence.
Both are loaded once a process, on first use, from installed packages; nothing is downloaded. Each
picture and each sentence is computed alone and on one thread: then the numbers are the same bit by
bit for every order, batch and number of processes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from model_wrappers.embedded.weights import EFFICIENTNET, MINILM, locate
from model_wrappers.verdict.requests import picture_digest
from postprocess.pictures import picture_of

TOP_CLASSES = 5
"""Number of class names that stand for a picture."""

_SIDE, _RESIZED = 224, 256
"""The central square the network sees, and the shorter side it is cut from, in pixels."""

_MEAN, _STD = 127.0, 128.0
"""Pixel values (0 to 255) are centred and scaled by these, as the weights were trained."""

_MAX_TOKENS = 256
"""MiniLM was trained on no longer sentences."""


class PictureClasses(NamedTuple):
    """The likeliest classes of a picture."""

    indices: tuple[int, ...]
    """Numbers of the classes, the likeliest first."""
    probabilities: tuple[float, ...]
    """Their softmax probabilities; they do not sum to one, the rest lies on other classes."""

    @property
    def names(self) -> tuple[str, ...]:
        """Their ImageNet names."""
        return tuple(class_names()[index] for index in self.indices)


@contextmanager
def one_thread() -> Iterator[None]:
    """Inference on one thread: a sum split over threads would round differently."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.inference_mode():
            yield
    finally:
        torch.set_num_threads(threads)


def pixels(image: Image.Image) -> Tensor:
    """A picture as the network's input, (1, 3, 224, 224): shorter side to 256, central square."""
    image = picture_of(image)
    scale = _RESIZED / min(image.size)
    width, height = (max(_RESIZED, round(side * scale)) for side in image.size)
    image = image.resize((width, height), Image.Resampling.BICUBIC)
    left, top = (width - _SIDE) // 2, (height - _SIDE) // 2
    image = image.crop((left, top, left + _SIDE, top + _SIDE))
    array = (np.asarray(image, dtype=np.float32) - _MEAN) / _STD
    return torch.from_numpy(array).permute(2, 0, 1).unsqueeze(0)


@lru_cache(maxsize=1)
def class_names() -> tuple[str, ...]:
    """The 1,000 ImageNet class names in the order of the network's outputs."""
    from torchvision.models._meta import _IMAGENET_CATEGORIES

    return tuple(_IMAGENET_CATEGORIES)


@lru_cache(maxsize=1)
def _network() -> nn.Module:
    """EfficientNet-Lite0 with the packaged weights, which name the same layers otherwise."""
    from timm.models.efficientnet import tf_efficientnet_lite0

    network: nn.Module = tf_efficientnet_lite0()
    state = torch.load(locate(EFFICIENTNET), weights_only=True, map_location="cpu")
    names = network.state_dict()
    network.load_state_dict(dict(zip(names, state.values(), strict=True)))
    return network.eval().requires_grad_(False)


_PICTURES: dict[str | None, PictureClasses] = {}
_MAX_PICTURES = 100_000
"""Bound of the cache of class names; one entry is well under a kilobyte."""


def classify(image: Image.Image) -> PictureClasses:
    """The likeliest classes of a picture, computed once for all captions of it.

    Raises:
        MissingWeightsError: The package of the weights is not installed.
        OSError: The picture cannot be decoded.
    """
    key = picture_digest(image)
    if key not in _PICTURES:
        with one_thread():
            probabilities = _network()(pixels(image))[0].double().softmax(-1)
            values, indices = probabilities.topk(TOP_CLASSES)
        if len(_PICTURES) >= _MAX_PICTURES:
            _PICTURES.clear()
        _PICTURES[key] = PictureClasses(tuple(indices.tolist()), tuple(values.tolist()))
    return _PICTURES[key]


@lru_cache(maxsize=1)
def _minilm() -> tuple[Any, Any]:
    """MiniLM and its tokenizer."""
    from tokenizers import Tokenizer
    from transformers import BertModel

    folder = locate(MINILM)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(_MAX_TOKENS)
    model = BertModel.from_pretrained(folder, local_files_only=True, dtype=torch.float32)
    return model.eval().requires_grad_(False), tokenizer


@lru_cache(maxsize=100_000)
def embed(text: str) -> np.ndarray:
    """The sentence embedding of a text: mean of the token states, length one, shape (384,).

    Raises:
        MissingWeightsError: The package of the weights is not installed.
    """
    # A lone surrogate out of a hostile file is no text that a tokenizer can take.
    text = text.encode("utf-8", "replace").decode("utf-8")
    model, tokenizer = _minilm()
    with one_thread():
        states = model(torch.tensor([tokenizer.encode(text).ids])).last_hidden_state[0]
        vector = states.double().mean(0)
        vector = vector / vector.norm()
    array: np.ndarray = vector.numpy()
    array.flags.writeable = False
    return array


@lru_cache(maxsize=1)
def class_embeddings() -> np.ndarray:
    """Sentence embeddings of the class names in their order, shape (1000, 384).

    Names of equal token count go through together: the batches are the same in every process, so
    this is as reproducible as one name at a time, and several times faster.
    """
    model, tokenizer = _minilm()
    encoded = [tokenizer.encode(name).ids for name in class_names()]
    out = np.empty((len(encoded), model.config.hidden_size))
    with one_thread():
        for length in sorted({len(ids) for ids in encoded}):
            rows = [row for row, ids in enumerate(encoded) if len(ids) == length]
            states = model(torch.tensor([encoded[row] for row in rows])).last_hidden_state
            vectors = states.double().mean(1)
            out[rows] = (vectors / vectors.norm(dim=1, keepdim=True)).numpy()
    out.flags.writeable = False
    return out


@lru_cache(maxsize=1)
def mean_class_embedding() -> np.ndarray:
    """Mean of the embeddings of all class names, shape (384,); shorter than one.

    Its product with a sentence's embedding is the sentence's mean cosine with class names in
    general: how close that sentence lies to *any* picture.
    """
    mean: np.ndarray = class_embeddings().mean(0)
    return mean
