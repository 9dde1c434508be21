"""Reads the source of P: a local MMSD2.0, or posts of one's own in the same layout.

MMSD2.0 lies in a repository layout (JSON lists, and `{image_id}.jpg` in a folder of their own) or
in a copy of the hub data set (parquet). Sibling data sets have the same names, the same row counts
and other texts, so a known post is looked up before anything is used. Ids have eighteen digits and
must never go through a float. Nothing is downloaded, and nothing outside the folders is read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from lmms_eval_tasks.dataset.checks import Fault, check_id, check_text, rounded_ids
from lmms_eval_tasks.dataset.files import sha256

SPLITS = {"train": 19_816, "valid": 2_410, "test": 2_409}
"""Split to the number of posts MMSD2.0 has in it."""

KNOWN_POST = ("892551658487631873", "it 's the insensitive strikeouts at suntrust park .")
"""A post of the test split; the siblings keep its hash signs."""

SOURCES = ("mmsd2", "posts")

_COLUMNS = {"image_id", "text", "label"}
_HUB_COLUMNS = {"id", "text", "label", "image"}
_SPLIT_NAMES = {"valid": ("valid", "validation", "val")}
_PICTURE_FOLDERS = ("", "images", "dataset_image", "data/dataset_image", "data/images")
_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp")
_MAX_SHOWN = 5


class SourceError(ValueError):
    """A source that cannot be used; `faults` names each reason with file and row."""

    def __init__(self, where: Path | str, faults: Sequence[Fault]) -> None:
        """Keep the faults and put the first ones into the message."""
        self.faults = list(faults)
        shown = "; ".join(map(str, self.faults[:_MAX_SHOWN]))
        more = len(self.faults) - _MAX_SHOWN
        super().__init__(f"{where}: {shown}" + (f"; and {more} more" if more > 0 else ""))


class Post(NamedTuple):
    """One post: a text and the picture it came with."""

    image_id: str
    text: str
    label: int
    """1 where its author marked it sarcastic."""


class PictureStore(Protocol):
    """Where a source keeps its pictures."""

    def find(self, image_id: str) -> Path | bytes | str:
        """A picture's file or content, or a string that says why there is none."""


class Source(NamedTuple):
    """A split of a source, read and checked."""

    name: str
    split: str
    posts: list[Post]
    """In the file's order."""
    pictures: PictureStore
    provenance: dict[str, Any]
    """For the manifest: file name, hash, row count."""


class PictureFolder:
    """Pictures as files `{image_id}.jpg` (or .jpeg, .png, .webp) of one folder."""

    def __init__(self, folder: Path) -> None:
        """Remember the folder."""
        self.folder = folder.resolve()

    def find(self, image_id: str) -> Path | bytes | str:
        """The file, as long as it does not lead out of the folder."""
        for suffix in _SUFFIXES:
            path = self.folder / f"{image_id}{suffix}"
            if path.is_symlink() and not path.resolve().is_relative_to(self.folder):
                return "is a link that leaves the folder"
            if path.is_file():
                return path
        return "is missing"


class PictureColumn:
    """Pictures inside parquet files; one row group is held in memory at a time."""

    def __init__(self, files: Sequence[Path]) -> None:
        """Index which row of which group holds which picture."""
        import pyarrow.parquet as pq

        self._place: dict[str, tuple[Path, int, int]] = {}
        for file in files:
            parquet = pq.ParquetFile(file)
            for group in range(parquet.num_row_groups):
                ids = parquet.read_row_group(group, columns=["id"])["id"].to_pylist()
                self._place |= {str(x): (file, group, row) for row, x in enumerate(ids)}
        self._held: tuple[tuple[Path, int], list[Any]] | None = None

    def find(self, image_id: str) -> Path | bytes | str:
        """The content of the picture's cell."""
        import pyarrow.parquet as pq

        place = self._place.get(image_id)
        if place is None:
            return "is missing"
        file, group, row = place
        if self._held is None or self._held[0] != (file, group):
            table = pq.ParquetFile(file).read_row_group(group, columns=["image"])
            self._held = (file, group), table["image"].to_pylist()
        cell = self._held[1][row]
        content = cell.get("bytes") if isinstance(cell, Mapping) else cell
        return content if isinstance(content, bytes) else "is missing"


def read_source(
    name: str, root: Path | str, split: str = "test", images: Path | str | None = None
) -> Source:
    """Read a split of a source.

    Args:
        name: `mmsd2`, or `posts` for one's own posts (`posts.json` or `posts.jsonl` under `root`,
            with the columns `image_id`, `text`, `label`).
        root: The folder that holds the data.
        split: `train`, `valid` or `test`; of `posts` there is one, whatever its name.
        images: The folder of pictures, where it is none of the usual places under `root`.

    Raises:
        SourceError: Nothing readable is there, it is a sibling of MMSD2.0, or rows are faulty.
    """
    root = Path(root)
    if not root.is_dir():
        raise SourceError(root, [Fault(str(root), None, "is not a folder")])
    if name == "posts":
        files = [root / file for file in ("posts.json", "posts.jsonl") if (root / file).is_file()]
        if not files:
            raise SourceError(root, [Fault("posts.json", None, "is missing")])
        posts = _checked(read_json(files[0]), files[0].name)
        pictures: PictureStore = PictureFolder(_picture_folder(root, images, posts))
        return Source(name, split, posts, pictures, _provenance("posts", files[:1], posts))
    if name != "mmsd2":
        raise SourceError(root, [Fault(str(root), None, f"unknown source {name!r}: {SOURCES}")])
    if split not in SPLITS:
        raise SourceError(root, [Fault(str(root), None, f"unknown split {split!r}")])
    return _read_mmsd2(root, split, images)


def _read_mmsd2(root: Path, split: str, images: Path | str | None) -> Source:
    """The first layout under `root` whose test split is MMSD2.0's."""
    refused: list[Fault] = []
    for kind, test_files in _candidates(root, "test"):
        test_rows = _read(kind, test_files)
        where = _relative(test_files[0], root)
        reason = _why_not_mmsd2(test_rows)
        if reason:
            refused.append(Fault(where, None, reason))
            continue
        files = [
            files
            for other, files in _candidates(root, split)
            if other == kind and files[0].parent == test_files[0].parent
        ]
        if not files:
            refused.append(Fault(where, None, f"is MMSD2.0, but has no {split} split beside it"))
            continue
        posts = _checked(_read(kind, files[0]), _relative(files[0][0], root))
        provenance = _provenance("MMSD2.0", files[0], posts)
        provenance |= {"split": split, "rows_expected": SPLITS[split]}
        store: PictureStore
        if kind == "parquet":
            store = PictureColumn(files[0])
        else:
            store = PictureFolder(_picture_folder(root, images, posts))
        return Source("mmsd2", split, posts, store, provenance)
    if not refused:
        message = f"holds no test.json and no test*.parquet; MMSD2.0's {split} split is looked for"
        refused = [Fault(str(root), None, message)]
    raise SourceError(root, refused)


def _candidates(root: Path, split: str) -> list[tuple[str, list[Path]]]:
    """Files that may hold a split, each layout once, in the order of their paths."""
    names = _SPLIT_NAMES.get(split, (split,))
    found = [("json", [path]) for name in names for path in sorted(root.rglob(f"{name}.json"))]
    for name in names:
        shards: dict[Path, list[Path]] = {}
        for path in sorted(root.rglob(f"{name}*.parquet")):
            shards.setdefault(path.parent, []).append(path)
        found += [("parquet", files) for files in shards.values()]
    return [(kind, files) for kind, files in found if not files[0].is_symlink()]


def _why_not_mmsd2(rows: list[tuple[int, Any]]) -> str | None:
    """Why rows are not MMSD2.0's test split, or None where the known post stands among them."""
    image_id, text = KNOWN_POST
    for _, row in rows:
        if not isinstance(row, Mapping) or str(row.get("image_id")) != image_id:
            continue
        found = row.get("text")
        if isinstance(found, str) and found.split() == text.split():
            return None
        return (
            f"is not MMSD2.0 but a sibling of it: post {image_id} reads {str(found)[:80]!r}, in "
            f"MMSD2.0 it is {text!r} (hub: config mmsd-v2; repository: text_json_final)"
        )
    for _, row in rows:
        damaged = row.get("image_id") if isinstance(row, Mapping) else None
        if _lost_in_a_float(damaged, int(image_id)):
            return f"ids went through a float ({damaged} for {image_id}): read ids as text"
    return f"is not MMSD2.0's test split: post {image_id} is not in it"


def _lost_in_a_float(value: object, image_id: int) -> bool:
    """Whether a value is what a float makes of an id."""
    try:
        return not isinstance(value, bool) and float(str(value)) == float(image_id)
    except ValueError:
        return False


def _read(kind: str, files: Sequence[Path]) -> list[tuple[int, Any]]:
    return read_json(files[0]) if kind == "json" else _read_parquet(files)


def read_json(path: Path) -> list[tuple[int, Any]]:
    """Rows of a JSON list, or of JSON lines where the name ends so, numbered from 1.

    Raises:
        SourceError: The file cannot be read, or holds something else.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
        if path.suffix == ".jsonl":
            lines = enumerate(text.split("\n"), start=1)
            return [(number, json.loads(line)) for number, line in lines if line.strip()]
        rows = json.loads(text)
    except OSError as error:
        fault = Fault(path.name, None, error.strerror or str(error))
        raise SourceError(path, [fault]) from error
    except UnicodeDecodeError as error:
        raise SourceError(path, [Fault(path.name, None, f"is not UTF-8 ({error})")]) from error
    except (ValueError, RecursionError) as error:
        fault = Fault(path.name, None, f"is not JSON ({str(error)[:120]})")
        raise SourceError(path, [fault]) from error
    if not isinstance(rows, list):
        raise SourceError(path, [Fault(path.name, None, "is not a JSON list")])
    return list(enumerate(rows, start=1))


def _read_parquet(files: Sequence[Path]) -> list[tuple[int, Any]]:
    """Rows of the hub's columns, under the repository's names; pictures are not read here."""
    import pyarrow.parquet as pq

    rows: list[dict[str, Any]] = []
    for file in files:
        try:
            schema = pq.read_schema(file)
            unknown = [name for name in schema.names if name not in _HUB_COLUMNS]
            missing = sorted(_HUB_COLUMNS - set(schema.names))
            if unknown or missing:
                message = f"columns unknown: {unknown}, missing: {missing}"
                raise SourceError(file, [Fault(file.name, None, message)])
            table = pq.read_table(file, columns=["id", "text", "label"])
        except OSError as error:
            raise SourceError(file, [Fault(file.name, None, str(error)[:120])]) from error
        except ValueError as error:
            if isinstance(error, SourceError):
                raise
            raise SourceError(file, [Fault(file.name, None, str(error)[:120])]) from error
        rows += table.rename_columns(["image_id", "text", "label"]).to_pylist()
    return list(enumerate(rows, start=1))


def _checked(rows: Iterable[tuple[int, Any]], file: str) -> list[Post]:
    """Posts out of raw rows.

    Raises:
        SourceError: Any row is faulty; all faults are named.
    """
    faults: list[Fault] = []
    posts: list[Post] = []
    seen: dict[str, int] = {}
    for number, row in rows:
        messages = _row_faults(row)
        if not messages:
            post = Post(str(row["image_id"]), row["text"], int(row["label"]))
            first = seen.setdefault(post.image_id, number)
            if first != number:
                messages.append(f"image_id {post.image_id} stands in row {first} already")
            posts.append(post)
        faults += [Fault(file, number, message) for message in messages]
    if rounded_ids(seen):
        faults.append(Fault(file, None, "every image_id looks rounded by a float: read it as text"))
    if not posts and not faults:
        faults.append(Fault(file, None, "holds no rows"))
    if faults:
        raise SourceError(file, faults)
    return posts


def _row_faults(row: object) -> list[str]:
    if not isinstance(row, Mapping):
        return ["is not a JSON object"]
    missing = sorted(_COLUMNS - set(row))
    unknown = sorted(str(name)[:40] for name in set(row) - _COLUMNS)
    messages = [f"has no {name!r}" for name in missing]
    messages += [f"has the unknown column {name!r}" for name in unknown]
    if messages:
        return messages
    image_id, label = row["image_id"], row["label"]
    whole = isinstance(image_id, int) and not isinstance(image_id, bool)
    messages = check_id("image_id", str(image_id) if whole else image_id)
    # Lone surrogates and lengths matter; an empty text is a post without a caption, dropped later.
    if not isinstance(row["text"], str) or row["text"].strip():
        messages += check_text("text", row["text"])
    if isinstance(label, bool) or label not in (0, 1) or not isinstance(label, int):
        messages.append(f"label must be 0 or 1, not {str(label)[:40]!r}")
    return messages


def _picture_folder(root: Path, images: Path | str | None, posts: Sequence[Post]) -> Path:
    """The folder that holds pictures of these posts.

    Raises:
        SourceError: None of the usual places has any.
    """
    folders = [Path(images)] if images else [root / name for name in _PICTURE_FOLDERS]
    for folder in folders:
        if folder.is_dir() and _holds_any(PictureFolder(folder), posts):
            return folder
    looked = ", ".join(str(folder) for folder in folders)
    message = (
        f"no picture of any post in {looked}: they are a separate download; name it (--images)"
    )
    raise SourceError(root, [Fault(str(root), None, message)])


def _holds_any(pictures: PictureFolder, posts: Sequence[Post]) -> bool:
    return any(isinstance(pictures.find(post.image_id), Path) for post in posts)


def _provenance(name: str, files: Sequence[Path], posts: Sequence[Post]) -> dict[str, Any]:
    return {
        "name": name,
        "files": [{"name": file.name, "sha256": sha256(file)} for file in files],
        "rows": len(posts),
        "sarcastic": sum(post.label for post in posts),
    }


def _relative(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()
