"""`lmms_eval`: the harness's own command line, with the embedded default model.

Every flag is the harness's. Installed, the harness's own script knows our tasks and their checks as
well (`plugin`); what only this launcher does is to run the embedded model where none is named, to
check every run, whichever tasks it names, and to say so under --help. Exit status: 0 done; 1 an
evaluation failed, all answers of a task were empty or failed, or more than 1% of its requests
failed; 2 arguments or data cannot be used.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from pragclash.names import require_own

PREFACE = """\
lmms_eval (pragclash): lmms-eval with the tasks pragmatch_* and clash_* and the models
{models}.
Without --model it runs the embedded mismatch_detector, which needs no GPU and no download:

  lmms_eval --tasks pragmatch_pm
  lmms_eval --tasks pragmatch_pm --model verdict \\
      --model_args backend=llava_hf,pretrained=llava-hf/llava-v1.6-mistral-7b-hf,device_map=auto

All flags are lmms-eval's; `lmms_eval eval --help` lists them.
"""


def main(argv: list[str] | None = None) -> None:
    """Run the harness with our tasks and exit with a status that says how it went."""
    require_own("lmms_eval")
    from model_wrappers.manifests import MODELS

    argv = list(sys.argv[1:] if argv is None else argv)
    models = ", ".join(MODELS)
    if argv in (["--help"], ["-h"]):
        print(PREFACE.format(models=models))
    _attached(argv)(lambda: _dispatch(argv))
    if argv[:1] == ["models"]:
        print(f"\nOf pragclash: {models}")


def _attached(argv: list[str]) -> Callable[[Callable[[], None]], Any]:
    """Attach what the command needs, and give back what runs it."""
    light = argv in (["--help"], ["-h"], ["eval"]) or "--tui" in argv
    if argv and not light and (argv[0].startswith("-") or argv[0] == "eval"):
        from pragclash.harness import evaluation, tasks

        tasks.expect(tasks.tasks_named(argv))
        outcome = evaluation.install(argv, default_model=True)
        if outcome is not None:
            return outcome.run
    elif argv[:1] in (["tasks"], ["power"]):
        import lmms_eval.tasks

        from pragclash.harness import tasks

        tasks.install(lmms_eval.tasks.TaskManager)
    return lambda call: call()


def _dispatch(argv: list[str]) -> None:
    from lmms_eval.cli import dispatch

    saved, sys.argv = sys.argv, [sys.argv[0], *argv]
    try:
        dispatch.main()
    finally:
        sys.argv = saved


if __name__ == "__main__":
    main()
