"""Checks an installed wheel: its top-level names, its YAML files, its task names.

Run with the Python of an environment that holds the wheel and nothing of this checkout.
"""

import sys
import zipfile
from pathlib import Path

NAMES = {"lmms_eval_tasks", "model_wrappers", "postprocess", "pragclash"}


def main() -> None:
    wheel = Path(sys.argv[1])
    with zipfile.ZipFile(wheel) as archive:
        files = archive.namelist()
    top = {name.split("/")[0] for name in files}
    packages = {name for name in top if not name.endswith(".dist-info")}
    assert packages == NAMES, f"top-level import names of {wheel.name}: {sorted(packages)}"

    import lmms_eval_tasks

    folder = Path(lmms_eval_tasks.__file__).parent
    assert "site-packages" in folder.parts, f"not the installed wheel: {folder}"
    yaml_files = sorted(folder.rglob("*.yaml"))
    in_wheel = {name for name in files if name.endswith(".yaml")}
    assert len(yaml_files) == len(in_wheel) > 0, f"{len(yaml_files)} YAML files of {len(in_wheel)}"

    from lmms_eval.tasks import TaskManager
    from lmms_eval.utils import load_yaml_config

    built_in = set(TaskManager("ERROR").all_tasks)
    ours = TaskManager("ERROR", include_path=str(folder), include_defaults=False)
    for name in ours.all_subtasks:
        config = load_yaml_config(ours.task_index[name]["yaml_path"], mode="full")
        assert callable(config["process_docs"]), f"{name}: process_docs does not load"
    clash = built_in & set(ours.all_tasks)
    assert not clash, f"names that a built-in task or tag takes first: {sorted(clash)}"
    print(f"{wheel.name}: {len(ours.all_subtasks)} tasks load, no name clashes, {len(NAMES)} names")


if __name__ == "__main__":
    main()
