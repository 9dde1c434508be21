"""Whether the packages that Python finds under this project's import names are this project's.

Python looks in the working directory first, and a file `postprocess.py` there would be imported in
place of ours. Every start asks here before it imports anything; nothing is imported by asking.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

PACKAGES = ("postprocess", "lmms_eval_tasks", "model_wrappers")
EXIT_USAGE = 2


def shadowed() -> str | None:
    """What stands in the way of our packages, in one line; None where nothing does."""
    home = Path(__file__).resolve().parents[1]
    for name in PACKAGES:
        loaded = sys.modules.get(name)
        spec = importlib.util.find_spec(name) if loaded is None else loaded.__spec__
        if spec is None:
            return f"the package {name} is missing beside {home / 'pragclash'}: reinstall pragclash"
        places = [*(spec.submodule_search_locations or ()), *([spec.origin] if spec.origin else ())]
        if not any(Path(place).resolve().is_relative_to(home / name) for place in places):
            return (
                f"{places[0] if places else name} is imported in place of pragclash's own package "
                f"{name}: rename it, or start the installed script (or `python -P -m ...`) in "
                "another folder"
            )
    return None


def require_own(prog: str) -> None:
    """End the process with one line where another package stands in the way.

    Raises:
        SystemExit: With status 2.
    """
    fault = shadowed()
    if fault is not None:
        print(f"{prog}: {fault}", file=sys.stderr)
        sys.exit(EXIT_USAGE)
