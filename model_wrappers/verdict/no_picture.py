"""Prompts without a picture, for backends that take one for granted.

The harness's documented way to run text alone is a `doc_to_visual` that returns []. Some backends
then index the first picture, or hand an empty list to a processor that refuses it, or build no
prompt at all and answer with the row before. Nothing here may show a model a picture: what stands
in for one on the way through a backend is taken out again before the processor runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from PIL import Image

_PROCESSORS = ("processor", "_processor", "_image_processor")
_NEEDS_A_STAND_IN = frozenset({"lmms_eval.models.simple.llava_hf"})
"""Backends that build their prompt only where they see a picture."""

_PLACEHOLDER = "<image>\n"
"""What those backends write into the prompt for it."""


class NoPictures(list):  # type: ignore[type-arg]
    """An empty list of pictures whose first element can be asked for: there is none."""

    def __getitem__(self, index: Any) -> Any:
        """None for an index; an empty list for a slice."""
        return super().__getitem__(index) if isinstance(index, slice) else None


class StandIn(Image.Image):
    """Something that a backend takes for a picture and that no processor ever sees."""

    def __init__(self) -> None:
        """One pixel that is never read."""
        super().__init__()
        self._size = (1, 1)
        self._mode = "RGB"


class PictureFilter:
    """A processor that is called without pictures where there are none.

    Args:
        processor: The backend's processor; everything else is its own.
    """

    def __init__(self, processor: Any) -> None:
        """Stands before the processor."""
        self._wrapped = processor

    def __getattr__(self, name: str) -> Any:
        """The processor's own attribute."""
        return getattr(self.__dict__["_wrapped"], name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The processor's call, empty pictures and stand-ins left out."""
        if kwargs.get("images") is not None:
            pictures = _flat(kwargs["images"])
            if all(isinstance(picture, StandIn) for picture in pictures):
                kwargs["images"] = None
                if pictures and isinstance(kwargs.get("text"), str):
                    kwargs["text"] = kwargs["text"].replace(_PLACEHOLDER, "", 1)
        return self._wrapped(*args, **kwargs)


def allow_no_picture(backend: Any) -> None:
    """Put a `PictureFilter` before the processors of a backend."""
    for name in _PROCESSORS:
        processor = vars(backend).get(name)
        if callable(processor):
            setattr(backend, name, PictureFilter(processor))


def visuals_for(backend: Any, doc_to_visual: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A `doc_to_visual` whose empty answer the backend survives."""
    needs_stand_in = type(backend).__module__ in _NEEDS_A_STAND_IN

    def visuals(doc: Any) -> Any:
        found = doc_to_visual(doc)
        if found:
            return found
        return [StandIn()] if needs_stand_in else NoPictures()

    return visuals


def _flat(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in _flat(item)]
    return [value]
