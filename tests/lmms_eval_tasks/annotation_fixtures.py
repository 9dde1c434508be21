"""A small dataset folder for the annotation tests, with captions that try to break out."""

import io
from pathlib import Path

from PIL import Image

from lmms_eval_tasks.dataset.folder import write_folder

HOSTILE = '<img src=x onerror="document.title=1"><script>document.title=2</script>&amp; \u202eabc'


def picture(shade: int, form: str = "PNG", size: tuple[int, int] = (64, 48)) -> bytes:
    """A plain picture in a format that Pillow writes."""
    out = io.BytesIO()
    Image.new("RGB", size, (shade * 20 % 256, 90, 160)).save(out, form)
    return out.getvalue()


def caption_rows(pictures: int) -> list[dict]:
    """P, M and L of each picture, and a masked P of the first."""
    rows = []
    for i in range(pictures):
        for condition in "PML":
            rows.append(
                {
                    "sample_id": f"pic{i}-{condition}",
                    "image_id": f"pic{i}",
                    "image": f"images/pic{i}.png",
                    "condition": condition,
                    "cue": None,
                    "edit": None,
                    "caption": f"words {3 * i + 'LMP'.index(condition)} of somebody",
                    "label": int(condition == "P"),
                }
            )
    masked = {**rows[0], "sample_id": "pic0-mask", "cue": "style", "edit": "mask"}
    rows[0]["caption"] += f" {HOSTILE}"
    return [*rows, masked]


def caption_folder(path: Path, pictures: int = 4) -> Path:
    """A PragMatch folder with those rows."""
    images = {f"images/pic{i}.png": picture(i) for i in range(pictures)}
    write_folder(path, "pragmatch", caption_rows(pictures), images, {"kind": "custom"})
    return path
