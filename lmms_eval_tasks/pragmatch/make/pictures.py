"""The pictures that a build uses: each decoded, hashed and read once, with the results on disk."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from lmms_eval_tasks.dataset.files import sha256
from lmms_eval_tasks.dataset.journal import Journal
from lmms_eval_tasks.dataset.pictures import picture_fault
from lmms_eval_tasks.pragmatch.make import picture_text
from lmms_eval_tasks.pragmatch.make.mmsd import Source


class Picture(NamedTuple):
    """A picture that can be used."""

    path: Path
    digest: str
    """SHA-256 of the file."""


class Pictures:
    """Pictures of a source; a context manager, because their journal is a file."""

    def __init__(self, source: Source, work: Path) -> None:
        """Open the journal of the source's pictures in a work folder."""
        told = json.dumps(source.provenance, sort_keys=True)
        key = hashlib.sha256(told.encode()).hexdigest()[:12]
        self._store, self._work = source.pictures, work
        self._journal = Journal(work / f"pictures-{key}.jsonl")
        self.usable: dict[str, Picture] = {}

    def __enter__(self) -> Pictures:
        """The pictures themselves."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the journal; what is in `usable` stays."""
        self._journal.close()

    def fault(self, image_id: str) -> str | None:
        """Why a picture cannot be used, or None; a usable one is remembered with its hash."""
        found = self._store.find(image_id)
        if isinstance(found, str):
            return found
        if isinstance(found, bytes):
            path = self._work / "pictures" / f"{image_id}.jpg"
            if not path.is_file() or path.stat().st_size != len(found):
                path.parent.mkdir(parents=True, exist_ok=True)
                partial = path.with_suffix(".part")
                partial.write_bytes(found)
                partial.replace(path)
            found = path
        status = found.stat()
        key = f"{image_id}:{status.st_size}:{status.st_mtime_ns}"
        if key not in self._journal:
            self._journal.put(key, [picture_fault(found), sha256(found)])
        fault, digest = self._journal[key]
        if fault is None:
            self.usable[image_id] = Picture(found, digest)
        return fault if fault is None else str(fault)

    def texts(self, image_ids: Iterable[str]) -> dict[str, str]:
        """The text on pictures that can be used, by id; read once each."""
        from tqdm import tqdm

        engine = (picture_text.engine_name() or "").replace(" ", "-")
        with Journal(self._work / f"text-{engine}.jsonl") as journal:
            waiting = [x for x in image_ids if self.usable[x].digest not in journal]
            for image_id in tqdm(waiting, "text on pictures", file=sys.stderr, disable=not waiting):
                picture = self.usable[image_id]
                if picture.digest in journal:
                    continue
                try:
                    found = picture_text.read_text(picture.path.read_bytes())
                except (ValueError, RuntimeError, MemoryError) as error:
                    tell(f"text on picture {image_id} not read: {error}")
                    found = ""
                journal.put(picture.digest, found)
            return {x: journal[self.usable[x].digest] for x in image_ids}


def tell(message: str) -> None:
    """Say something to whoever waits for the build."""
    print(f"pragclash data pragmatch: {message}", file=sys.stderr)
