"""Text on pictures, read by a real engine where it is installed."""

import pytest

from lmms_eval_tasks.pragmatch.make import picture_text
from lmms_eval_tasks.pragmatch.make.cues import mask
from tests.lmms_eval_tasks import fake_mmsd

needs_engine = pytest.mark.skipif(
    picture_text.engine_name() is None, reason="the extra `ocr` is not installed"
)


@needs_engine
def test_printed_words_are_read():
    text = picture_text.read_text(fake_mmsd.drawing(2, (480, 240), "SUNDAY"))
    assert "SUNDAY" in text.upper()
    assert mask("closed all of sunday they said", "ocr", text) == "closed all they said"


@needs_engine
def test_a_picture_without_text_gives_nothing():
    assert picture_text.read_text(fake_mmsd.drawing(1)) == ""


def test_without_the_engine_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(picture_text, "engine_name", lambda: None)
    picture_text._engine.cache_clear()
    try:
        with pytest.raises(picture_text.MissingEngineError, match=r"pragclash\[ocr\]"):
            picture_text.read_text(fake_mmsd.drawing(1))
    finally:
        picture_text._engine.cache_clear()
