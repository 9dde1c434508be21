"""What this project registers with the harness, as the entry point `lmms_eval.models`.

The registry loads this at every start of the harness, so nothing heavy may be imported here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lmms_eval.models.registry_v2 import ModelManifest

MODELS: dict[str, tuple[str, str | None]] = {
    "verdict": ("verdict.wrapper.VerdictModelSimple", "verdict.wrapper.VerdictModel"),
    "mismatch_detector": ("embedded.mismatch_detector.MismatchDetector", None),
    "socratic": ("embedded.socratic.Socratic", None),
    "caption_bert": ("embedded.caption_baselines.CaptionBert", None),
    "caption_format": ("embedded.caption_baselines.CaptionFormat", None),
    "human_votes": ("embedded.human_votes.HumanVotes", None),
}
"""Model id to the classes of its simple and, where it has one, chat form, in `model_wrappers`."""


def manifests() -> list[ModelManifest]:
    """The manifests of all models of this project."""
    from lmms_eval.models.registry_v2 import ModelManifest

    return [
        ModelManifest(
            model_id=name,
            simple_class_path=f"model_wrappers.{simple}",
            chat_class_path=f"model_wrappers.{chat}" if chat else None,
        )
        for name, (simple, chat) in MODELS.items()
    ]
