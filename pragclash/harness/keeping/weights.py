"""Which weights stand behind the arguments of a model: fingerprints of files, revisions, cards.

A path or a name in `--model_args` stays the same while what lies behind it is trained anew. Every
value that is a local path is therefore known by the contents of its files, a hub id by the commit
that the local hub cache holds, a server by what it says of its model. Nothing here may change an
evaluation or end it: what cannot be read or reached is known by its name alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import tempfile
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from platformdirs import user_cache_dir

NAMED = re.compile(r"pretrained|model|model_version|model_name|peft|.*(adapter|lora|processor)")
"""Names of arguments whose value may be an id on the hub, or a folder named by one bare word."""

WRITTEN = {"out", "output", "log", "logs", "tmp", "cache", "offload", "download", "save", "work"}
"""Words in the names of arguments whose path a run writes to."""

NOT_WEIGHTS = {".md", ".log", ".lock", ".tmp", ".partial"}

MANY_FILES = 5000
"""A folder of more is known by the names, sizes and times of its files."""

RACY_SECONDS = 2.0
"""A file read so short a time after it changed may change again within its time stamp."""

CARD_SECONDS = 3.0
CARD = "card:"
_PASSING = {"created", "permission"}
"""What servers write anew into a model's card whenever it is asked for."""


def weights_of(model_args: str | Mapping[str, Any] | None) -> dict[str, str]:
    """The fingerprints of what the arguments name, by argument; an id alone has none.

    Args:
        model_args: The harness's `name=value,name=value`, or the same as a mapping.
    """
    arguments = arguments_of(model_args)
    found = {}
    known = _Known(Path(os.environ.get("PRAGCLASH_CACHE") or user_cache_dir("pragclash")))
    for name, value in arguments.items():
        seen = _fingerprint(name, value, arguments.get("revision") or "main", known)
        if seen is not None:
            found[name] = seen
    known.save()
    card = _card(arguments)
    return {**found, "base_url": f"{CARD}{card}"} if card is not None else found


def same_weights(then: Mapping[str, str], now: Mapping[str, str]) -> bool:
    """Whether two looks saw the same; a server that cannot be reached now has not changed.

    >>> same_weights({"base_url": "card:1", "peft": "sha256:a"}, {"peft": "sha256:a"})
    True
    >>> same_weights({"peft": "sha256:a"}, {"peft": "sha256:b"})
    False
    """
    lost = {name for name in then if name not in now and then[name].startswith(CARD)}
    return {name: then[name] for name in then if name not in lost} == dict(now)


def arguments_of(model_args: str | Mapping[str, Any] | None) -> dict[str, str]:
    """The arguments as the harness splits them: at commas, then at the first equals sign."""
    if isinstance(model_args, Mapping):
        return {str(name): str(value) for name, value in model_args.items()}
    pairs = (part.partition("=") for part in (model_args or "").split(","))
    return {name.strip(): value.strip() for name, equals, value in pairs if equals}


def _fingerprint(name: str, value: str, revision: str, known: _Known) -> str | None:
    named = NAMED.fullmatch(name) is not None
    with contextlib.suppress(OSError, ValueError):
        path = Path(value).expanduser()
        # A device or a data type may happen to be the name of a folder that is there.
        if value and (path.is_file() or (path.is_dir() and (named or os.sep in value))):
            written = WRITTEN & set(re.split(r"[\W_]+", name.lower()))
            return None if written else f"sha256:{_of_path(path, known)}"
        return _hub_commit(value, revision) if named else None
    return None


def _of_path(path: Path, known: _Known) -> str:
    """The fingerprint of a file's content, or of a folder's files by their names and contents."""
    if path.is_file():
        return known.sha256(path)
    files = sorted(_files(path))
    lines = []
    for file in files:
        if len(files) > MANY_FILES:
            status = file.stat()
            seen = f"{status.st_size} {status.st_mtime_ns}"
        else:
            seen = known.sha256(file)
        lines.append(f"{file.relative_to(path).as_posix()} {seen}")
    base = _base_of(path / "adapter_config.json")
    if base is not None:
        lines.append(f"base {_fingerprint('pretrained', base, 'main', known)}")
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def _files(folder: Path) -> list[Path]:
    """What a model can be loaded from: not a training's checkpoints, hidden files or notes."""
    found = []
    for parent, folders, names in os.walk(folder):
        folders[:] = [x for x in folders if not x.startswith((".", "checkpoint-", "__pycache__"))]
        for name in names:
            path = Path(parent, name)
            if not name.startswith(".") and path.suffix not in NOT_WEIGHTS and path.is_file():
                found.append(path)
    return found


def _base_of(config: Path) -> str | None:
    """The model that an adapter was trained on: the adapter's own folder does not hold it."""
    try:
        base = json.loads(config.read_bytes()).get("base_model_name_or_path")
    except (OSError, ValueError, AttributeError):
        return None
    return base if isinstance(base, str) and Path(base) != config.parent else None


def _hub_commit(name: str, revision: str) -> str | None:
    """The commit that the local hub cache would load for an id, where it has one."""
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name) or not re.fullmatch(r"[\w./-]+", revision):
        return None
    hub = os.environ.get("HF_HUB_CACHE") or os.path.join(
        os.environ.get("HF_HOME") or "~/.cache/huggingface", "hub"
    )
    folder = Path(hub).expanduser() / f"models--{name.replace('/', '--')}"
    commit = (folder / "refs" / revision).read_text(encoding="utf-8").strip()
    return f"commit:{commit}" if re.fullmatch(r"[0-9a-f]{40}", commit) else None


def _card(arguments: Mapping[str, str]) -> str | None:
    """The hash of what a server says of the model; None where there is no server, or no answer."""
    url = arguments.get("base_url", "").rstrip("/")
    model = arguments.get("model") or arguments.get("model_version")
    if not url.startswith(("http://", "https://")) or not model:
        return None
    key = arguments.get("api_key") or os.environ.get("OPENAI_API_KEY")
    request = urllib.request.Request(f"{url}/models")
    if key:
        request.add_unredirected_header("Authorization", f"Bearer {key}")
    try:
        with urllib.request.urlopen(request, timeout=CARD_SECONDS) as answer:
            listed = json.loads(answer.read(1_000_000))["data"]
        (card,) = (entry for entry in listed if entry["id"] == model)
        stable = {name: card[name] for name in card if name not in _PASSING}
    except Exception:
        # Whatever a server says, or whether it is there, is the run's business and not this one's.
        return None
    return hashlib.sha256(json.dumps(stable, sort_keys=True).encode()).hexdigest()


class _Known:
    """Hashes of files, kept while size, times and place of the file stay what they were."""

    def __init__(self, home: Path) -> None:
        self.path = home / "weights.json"
        self.changed = False
        self.entries: dict[str, list[Any]] = {}
        with contextlib.suppress(OSError, ValueError, RecursionError):
            entries = json.loads(self.path.read_bytes())
            self.entries = entries if isinstance(entries, dict) else {}

    def sha256(self, path: Path) -> str:
        path = path.resolve()
        status = path.stat()
        seen = [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
        entry = self.entries.get(str(path))
        if isinstance(entry, list) and entry[:-1] == seen and isinstance(entry[-1], str):
            return entry[-1]
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        if time.time() - max(status.st_mtime, status.st_ctime) > RACY_SECONDS:
            self.entries[str(path)] = [*seen, digest]
            self.changed = True
        return digest

    def save(self) -> None:
        """Keep what was hashed; without it the next run hashes again, and no more."""
        if not self.changed:
            return
        with contextlib.suppress(OSError, UnicodeError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle, partial = tempfile.mkstemp(dir=self.path.parent, prefix=".weights-")
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as stream:
                    json.dump(self.entries, stream)
                os.replace(partial, self.path)
            except OSError:
                os.unlink(partial)
                raise
