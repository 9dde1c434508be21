"""What this project registers with the harness, as the entry point `lmms_eval.models`.

The registry loads this at every start of the harness, so nothing heavy may be imported here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lmms_eval.models.registry_v2 import ModelManifest

MODELS: dict[str, tuple[str, str]] = {
    "mismatch_detector": (
        "model_wrappers.mismatch_detector.MismatchDetector",
        "model_wrappers.mismatch_detector.MismatchDetectorChat",
    ),
}
"""Model id to the class paths of its simple and chat forms."""


def manifests() -> list[ModelManifest]:
    """The manifests of all models of this project."""
    from lmms_eval.models.registry_v2 import ModelManifest

    return [
        ModelManifest(model_id=name, simple_class_path=simple, chat_class_path=chat)
        for name, (simple, chat) in MODELS.items()
    ]
