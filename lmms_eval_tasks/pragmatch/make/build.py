"""Build PragMatch from MMSD2.0, or from posts of your own, and audit what comes out.

P is drawn from the sarcastic posts; L is a human caption or a backend's; M is a caption of a
picture outside the set (or a post that is not sarcastic). Every slow step keeps its results in a
work folder, so an interrupted build goes on where it stopped and ends in the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np

from lmms_eval_tasks.dataset import folder
from lmms_eval_tasks.dataset.checks import Fault
from lmms_eval_tasks.dataset.current import current_folder, data_home
from lmms_eval_tasks.dataset.files import sha256
from lmms_eval_tasks.dataset.journal import Journal
from lmms_eval_tasks.dataset.pictures import picture_fault
from lmms_eval_tasks.pragmatch.make import audit, cues, donors, literal, mmsd, picture_text
from lmms_eval_tasks.pragmatch.make.card import card
from lmms_eval_tasks.pragmatch.make.normalise import normalise
from postprocess.benchmarks.pragmatch_tasks import CUES

BUILD_VERSION = 1
"""Raised when the same inputs would give other rows."""

PAPER_PICTURES = 1_000
M_CANDIDATES_FILE = "m_candidates.jsonl"
"""Beside the rows: an M of the source that was not used, so that both can be audited."""
CARD_FILE = "README.md"

_COUNTS = ("pictures_missing", "pictures_corrupt", "posts_without_content")
"""Counted in every build, also where there is none."""


class BuildError(ValueError):
    """A build that cannot be done as asked, and what to change."""


class Encoders(NamedTuple):
    """The frozen encoders that keep M away from its picture."""

    names: tuple[str, ...]
    """For the manifest: who had a hand in the selection."""
    embed: Callable[[str], np.ndarray]
    """A text to its vector of length one."""
    describe: Callable[[Path], str] | None = None
    """A picture file to the names of what it shows."""


class Picture(NamedTuple):
    """A picture that can be used."""

    path: Path
    digest: str
    """SHA-256 of the file."""


class Plan(NamedTuple):
    """All rows of a dataset, and what the manifest says of them."""

    rows: list[dict[str, Any]]
    m_candidates: list[dict[str, Any]]
    pictures: dict[str, Picture]
    counts: dict[str, int]
    cues: dict[str, dict[str, int]]
    donors: dict[str, int]
    audit: dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `pragclash data pragmatch`."""
    source = parser.add_argument_group("source")
    source.add_argument("--source", choices=mmsd.SOURCES, help="mmsd2, or posts of your own")
    source.add_argument("--root", type=Path, metavar="DIR", help="folder that holds the source")
    source.add_argument("--images", type=Path, metavar="DIR", help="folder of its pictures")
    source.add_argument("--split", choices=tuple(mmsd.SPLITS), default="test")
    source.add_argument("--n", type=_positive, help="pictures (default: 1000 of mmsd2, else all)")
    captions = parser.add_argument_group("literal captions (L, and M with --m-source captions)")
    captions.add_argument("--l-captions", type=Path, metavar="FILE", help="human captions")
    captions.add_argument("--captioner", metavar="MODEL", help="a backend of the harness by name")
    captions.add_argument("--captioner-args", default="", metavar="NAME=VALUE,...")
    captions.add_argument("--captioner-batch", type=_positive, default=1, metavar="N")
    captions.add_argument("--device", help="for the captioner")
    captions.add_argument("--retries", type=int, default=2, help="for a picture that fails")
    captions.add_argument("--retry-failed", action="store_true", help="ask again what failed")
    mismatch = parser.add_argument_group("mismatch captions (M)")
    mismatch.add_argument("--m-source", choices=audit.M_SOURCES, default="captions")
    mismatch.add_argument("--donors", type=_positive, metavar="N", help="donor pictures to caption")
    mismatch.add_argument(
        "--max-similarity", type=float, default=donors.MAX_SIMILARITY, metavar="COSINE"
    )
    build = parser.add_argument_group("build")
    build.add_argument("--out", type=Path, metavar="DIR", help="default: where the tasks look")
    build.add_argument("--work", type=Path, metavar="DIR", help="default: OUT.work")
    build.add_argument("--seed", type=int, default=0)
    build.add_argument("--folds", type=_positive, default=5)
    build.add_argument("--normalise", action="store_true", help="one surface form for P, L and M")
    build.add_argument("--ocr", choices=("auto", "on", "off"), default="auto")
    report = parser.add_argument_group("audit")
    report.add_argument(
        "--audit",
        nargs="?",
        const="",
        metavar="DIR",
        help="print what captions alone achieve: of DIR, of the build, or of the current dataset",
    )
    report.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace, encoders: Encoders) -> int:
    """Build, audit, or both.

    Raises:
        BuildError, SourceError, FolderError, DonorError, LeakError: See their classes.
    """
    if args.source is None:
        if args.audit is None:
            raise BuildError("give --source to build, or --audit to look at what is there")
        return _print_audit(audit_folder(args.audit or None, encoders), args.json)
    out = build(args, encoders)
    manifest = json.loads((out / folder.MANIFEST).read_text(encoding="utf-8"))
    if args.json:
        print(json.dumps({"out": str(out), **manifest}, indent=2, sort_keys=True))
        return 0
    print(f"{out}: {manifest['kind']}; {_told(manifest['counts'])}")
    if args.audit is not None:
        return _print_audit(manifest["audit"], False)
    _warn(manifest["audit"])
    return 0


def build(args: argparse.Namespace, encoders: Encoders) -> Path:
    """Build a dataset folder, or find it built already.

    Returns:
        The folder.

    Raises:
        BuildError: Arguments do not go together, or the folder holds another dataset.
    """
    if args.root is None:
        raise BuildError("--source needs --root, the folder that holds it")
    if bool(args.l_captions) == bool(args.captioner):
        raise BuildError(
            "give literal captions: --l-captions FILE (human) or --captioner MODEL, one of them"
        )
    if args.ocr == "on" and picture_text.engine_name() is None:
        raise BuildError("--ocr on: the extra is not installed; pip install 'pragclash[ocr]'")
    source = mmsd.read_source(args.source, args.root, args.split, args.images)
    human = literal.read_captions(args.l_captions) if args.l_captions else None
    captioner = literal.Captioner(
        args.captioner or "", args.captioner_args, args.captioner_batch, args.device
    )
    ocr = None if args.ocr == "off" else picture_text.engine_name()
    settings = _settings(args)
    sources = [source.provenance, (human or captioner).provenance]
    described = {
        "settings": settings,
        "sources": sources,
        "encoders": list(encoders.names),
        "ocr": ocr,
        "cue_lists": cues.list_versions(),
        "build_version": BUILD_VERSION,
    }
    key = hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()
    out = args.out or data_home() / "pragmatch"
    built = _build_key(out)
    if built not in (None, key):
        raise BuildError(f"{out} holds another dataset; choose another --out or remove it")
    if built == key and (out / CARD_FILE).is_file():
        _tell(f"{out} is built already")
        return Path(out)
    work = args.work or out.parent / f"{out.name}.work"
    builder = _Builder(source, human, captioner, encoders, settings, work, bool(ocr))
    plan = builder.plan(args.retries, args.retry_failed, args.donors)
    manifest = {
        "kind": _kind(source, human, plan),
        "build_key": key,
        **described,
        "counts": plan.counts,
        "cues": plan.cues,
        "donors": plan.donors,
        "audit": plan.audit,
        "licences": _licences(human, plan),
    }
    if built is None:
        images = {row["image"]: plan.pictures[row["image_id"]].path for row in plan.rows}
        folder.write_folder(out, "pragmatch", plan.rows, images, manifest)
    loaded = folder.load_folder(out, "pragmatch")
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in plan.m_candidates]
    (out / M_CANDIDATES_FILE).write_text("".join(lines), encoding="utf-8")
    # The card comes last: it says that everything else is there.
    (out / CARD_FILE).write_text(card(manifest, loaded.fingerprint), encoding="utf-8")
    return Path(out)


class _Builder:
    """The stages of one build. Each is a function of its inputs; the slow ones keep journals."""

    def __init__(
        self,
        source: mmsd.Source,
        human: literal.Literal | None,
        captioner: literal.Captioner,
        encoders: Encoders,
        settings: Mapping[str, Any],
        work: Path,
        ocr: bool,
    ) -> None:
        self.source, self.human, self.captioner = source, human, captioner
        self.encoders, self.settings, self.work, self.ocr = encoders, settings, work, ocr
        self.counts: Counter[str] = Counter(dict.fromkeys(_COUNTS, 0))
        self.pictures: dict[str, Picture] = {}
        self.form: Callable[[str], str] = normalise if settings["normalise"] else _one_line

    def plan(self, retries: int, retry_failed: bool, n_donors: int | None) -> Plan:
        """All stages up to the rows."""
        seed = self.settings["seed"]
        with Journal(self.work / f"pictures-{self._source_key()}.jsonl") as journal:
            drawn = self._draw(journal)
            offered = self._donor_pictures(journal, drawn, n_donors or len(drawn))
        wanted = [post.image_id for post in drawn] + offered
        literals = self._literals(wanted, retries, retry_failed)
        posts = {post.image_id: self.form(post.text) for post in drawn if post.image_id in literals}
        self.counts["without_literal_caption"] += len(drawn) - len(posts)
        if not posts:
            raise BuildError("no picture of the set has a literal caption")
        texts = self._picture_texts(posts) if self.ocr else {}
        masked = {x: _masks(post, texts.get(x)) for x, post in posts.items()}
        strings = {x: [posts[x], literals[x], *masked[x].values()] for x in posts}
        # One picture under two ids keeps to one fold as well.
        shared = {x: [*found, self.pictures[x].digest] for x, found in strings.items()}
        folds = donors.plan_folds(shared, self.settings["folds"], seed)
        known = self._known(posts, literals)
        targets = [donors.Target(x, known[x], folds[x]) for x in sorted(posts)]
        taken = [caption for captions in strings.values() for caption in captions]
        chosen = self._mismatches(targets, taken, literals, offered)
        m_source = self.settings["m_source"]
        ms = chosen[m_source]
        if isinstance(ms, str):
            raise BuildError(f"--m-source {m_source}: {ms}")
        self.counts["without_fitting_donor"] += len(ms.left_out)
        rows, cue_counts = self._rows(posts, literals, masked, texts, ms, folds)
        donors.check_leaks(rows)
        candidates = [
            {"image_id": x, "m_source": name, "caption": choice.caption}
            for name, found in chosen.items()
            if name != m_source and not isinstance(found, str)
            for x, choice in sorted(found.by_picture.items())
            if x in ms.by_picture
        ]
        others: dict[str, Mapping[str, str] | str] = {
            name: found
            if isinstance(found, str)
            else {x["image_id"]: x["caption"] for x in candidates if x["m_source"] == name}
            for name, found in chosen.items()
            if name != m_source
        }
        lines, missing = audit.audit_sources(rows, m_source, others, self.encoders.embed)
        uses = Counter(ms.uses.values())
        self.counts["pictures"] = len(ms.by_picture)
        self.counts["rows"] = len(rows)
        return Plan(
            rows=rows,
            m_candidates=candidates,
            pictures=self.pictures,
            counts=dict(sorted(self.counts.items())),
            cues=cue_counts,
            donors={
                "offered": ms.offered,
                "used": len(ms.uses),
                "fewest_uses": min(uses) if len(ms.uses) == ms.offered else 0,
                "most_uses": max(uses),
            },
            audit={
                "lines": audit.to_json(lines),
                "not_available": missing,
                "warnings": audit.warnings_of(lines),
            },
        )

    def _source_key(self) -> str:
        told = json.dumps(self.source.provenance, sort_keys=True)
        return hashlib.sha256(told.encode()).hexdigest()[:12]

    def _draw(self, journal: Journal) -> list[mmsd.Post]:
        """The P set: sarcastic posts in seeded order, as many as asked for and usable."""
        wanted = self.settings["n"]
        order = []
        for post in self.source.posts:
            if not post.label:
                continue
            if not cues.content_words(self.form(post.text)):
                self.counts["posts_without_content"] += 1
            elif self.human and post.image_id not in self.human.captions:
                self.counts["posts_without_human_caption"] += 1
            else:
                order.append(post)
        Random(f"{self.settings['seed']}:draw").shuffle(order)
        drawn: list[mmsd.Post] = []
        for post in order:
            if wanted is not None and len(drawn) == wanted:
                break
            reason = self._check_picture(post.image_id, journal)
            if reason is None:
                drawn.append(post)
            else:
                kind = "missing" if reason.startswith("is missing") else "corrupt"
                self.counts[f"pictures_{kind}"] += 1
                _tell(f"left out picture {post.image_id}: {reason}")
        if not drawn:
            raise BuildError(
                f"no sarcastic post of {len(self.source.posts)} can be used: " + _told(self.counts)
            )
        if wanted is not None and len(drawn) < wanted:
            _tell(f"only {len(drawn)} of the {wanted} pictures asked for can be used")
        return drawn

    def _donor_pictures(
        self, journal: Journal, drawn: Sequence[mmsd.Post], wanted: int
    ) -> list[str]:
        """Pictures outside the set that give captions: no id and no file of the set's."""
        inside = {post.image_id for post in drawn}
        if self.human:
            return [x for x in self.human.captions if x not in inside]
        if self.settings["m_source"] != "captions":
            return []
        files = {self.pictures[image_id].digest for image_id in inside}
        order = [post.image_id for post in self.source.posts if post.image_id not in inside]
        Random(f"{self.settings['seed']}:donor pictures").shuffle(order)
        found: list[str] = []
        for image_id in order:
            if len(found) == wanted:
                break
            usable = self._check_picture(image_id, journal) is None
            if usable and self.pictures[image_id].digest not in files:
                found.append(image_id)
        return found

    def _check_picture(self, image_id: str, journal: Journal) -> str | None:
        """Why a picture cannot be used, or None; a usable one is remembered with its hash."""
        found = self.source.pictures.find(image_id)
        if isinstance(found, str):
            return found
        if isinstance(found, bytes):
            path = self.work / "pictures" / f"{image_id}.jpg"
            if not path.is_file() or path.stat().st_size != len(found):
                path.parent.mkdir(parents=True, exist_ok=True)
                partial = path.with_suffix(".part")
                partial.write_bytes(found)
                partial.replace(path)
            found = path
        status = found.stat()
        key = f"{image_id}:{status.st_size}:{status.st_mtime_ns}"
        if key not in journal:
            journal.put(key, [picture_fault(found), sha256(found)])
        fault, digest = journal[key]
        if fault is None:
            self.pictures[image_id] = Picture(found, digest)
        return fault if fault is None else str(fault)

    def _literals(
        self, image_ids: Sequence[str], retries: int, retry_failed: bool
    ) -> dict[str, str]:
        """Literal captions of the set and of the donors, in the surface form asked for."""
        if self.human:
            raw = {x: self.human.captions[x] for x in image_ids}
        else:
            pictures = [(x, self.pictures[x].digest, self.pictures[x].path) for x in image_ids]
            with Journal(self.work / f"captions-{self.captioner.key}.jsonl") as journal:
                raw, failed = literal.caption_pictures(
                    self.captioner, pictures, journal, retries, retry_failed
                )
            self.counts["captioner_failures"] = len(failed)
            for image_id, reason in failed.items():
                _tell(f"no caption for picture {image_id}: {reason}")
        formed = {x: self.form(caption) for x, caption in raw.items()}
        return {x: caption for x, caption in formed.items() if cues.content_words(caption)}

    def _picture_texts(self, image_ids: Iterable[str]) -> dict[str, str]:
        """Text on each picture of the set."""
        from tqdm import tqdm

        engine = (picture_text.engine_name() or "").replace(" ", "-")
        texts: dict[str, str] = {}
        with Journal(self.work / f"text-{engine}.jsonl") as journal:
            waiting = [x for x in image_ids if self.pictures[x].digest not in journal]
            for image_id in tqdm(waiting, "text on pictures", file=sys.stderr, disable=not waiting):
                picture = self.pictures[image_id]
                if picture.digest in journal:
                    continue
                try:
                    found = picture_text.read_text(picture.path.read_bytes())
                except (ValueError, RuntimeError, MemoryError) as error:
                    _tell(f"text on picture {image_id} not read: {error}")
                    found = ""
                journal.put(picture.digest, found)
            texts = {x: journal[self.pictures[x].digest] for x in image_ids}
        self.counts["pictures_with_text"] = sum(bool(text) for text in texts.values())
        return texts

    def _known(
        self, posts: Mapping[str, str], literals: Mapping[str, str]
    ) -> dict[str, tuple[str, ...]]:
        """What is known of each picture, as texts that M must stay away from."""
        describe = self.encoders.describe
        return {
            x: (literals[x], posts[x], *([describe(self.pictures[x].path)] if describe else []))
            for x in posts
        }

    def _mismatches(
        self,
        targets: Sequence[donors.Target],
        taken: Sequence[str],
        literals: Mapping[str, str],
        offered: Sequence[str],
    ) -> dict[str, donors.Chosen | str]:
        """M of both sources, or why a source has none."""
        captions = [donors.Donor(x, literals[x]) for x in offered if x in literals]
        negatives = [
            donors.Donor(post.image_id, self.form(post.text))
            for post in self.source.posts
            if not post.label
        ]
        pools = {
            "captions": donors.usable(captions, taken),
            "mmsd_negatives": donors.usable(negatives, taken, _has_substance),
        }
        out: dict[str, donors.Chosen | str] = {}
        for name, pool in pools.items():
            if not pool:
                out[name] = {
                    "captions": "no literal caption of a picture outside the set is at hand",
                    "mmsd_negatives": "the source has no post that is not sarcastic",
                }[name]
                continue
            try:
                out[name] = donors.choose(
                    targets,
                    _some(pool, 3 * len(targets), f"{self.settings['seed']}:{name}"),
                    self.encoders.embed,
                    self.settings["seed"],
                    self.settings["max_similarity"],
                )
            except donors.DonorError as error:
                out[name] = str(error)
        for name, found in out.items():
            if not isinstance(found, str) and not found.by_picture:
                out[name] = "every donor is too similar to every picture (--max-similarity)"
        return out

    def _rows(
        self,
        posts: Mapping[str, str],
        literals: Mapping[str, str],
        masked: Mapping[str, Mapping[str, str]],
        texts: Mapping[str, str],
        ms: donors.Chosen,
        folds: Mapping[str, int],
    ) -> tuple[list[dict[str, Any]], dict[str, dict[str, int]]]:
        """Rows by picture, clean captions first; injected Ms that would cross folds are dropped."""
        seed = self.settings["seed"]
        rows: list[dict[str, Any]] = []
        found = {cue: Counter[str]() for cue in CUES}
        for x in sorted(ms.by_picture):
            choice = ms.by_picture[x]
            clean = {"P": posts[x], "L": literals[x], "M": choice.caption}
            for condition, caption in clean.items():
                rows.append(_row(x, condition, caption, folds[x]))
            rows[-1]["extra"] = {
                "donor": choice.donor_id,
                "similarity": round(choice.similarity, 4),
            }
            for cue in CUES:
                found[cue]["present"] += bool(cues.detect(clean["P"], cue, texts.get(x)))
                if cue in masked[x]:
                    rows.append(_row(x, "P", masked[x][cue], folds[x], cue, "mask"))
                    found[cue]["masked"] += 1
                rng = Random(f"{seed}:{x}:{cue}:inject")
                injected = cues.inject(clean["M"], cue, rng, texts.get(x))
                if injected is not None:
                    rows.append(_row(x, "M", injected, folds[x], cue, "inject"))
        leaking = {sample for ids in donors.find_leaks(rows).values() for sample in ids}
        kept = [r for r in rows if r["edit"] != "inject" or r["sample_id"] not in leaking]
        self.counts["injected_dropped_as_leaks"] = len(rows) - len(kept)
        for row in kept:
            if row["edit"] == "inject":
                found[row["cue"]]["injected"] += 1
        names = ("present", "masked", "injected")
        return kept, {cue: {name: found[cue][name] for name in names} for cue in CUES}


def audit_folder(path: str | None, encoders: Encoders) -> dict[str, Any]:
    """Audit a dataset folder, with both sources of M where the folder holds them.

    Args:
        path: The folder; None for the one that the tasks use.
        encoders: `embed` reads the captions.

    Returns:
        `lines` (see `audit.to_json`), `not_available` and `warnings`.
    """
    data = folder.load_folder(path, "pragmatch") if path else current_folder("pragmatch")
    m_source = data.manifest.get("settings", {}).get("m_source", data.kind)
    others: dict[str, Mapping[str, str] | str] = {
        name: "the folder holds no M of this source" for name in audit.M_SOURCES if name != m_source
    }
    others |= dict(data.manifest.get("audit", {}).get("not_available", {}))
    others |= _m_candidates(data.path)
    lines, missing = audit.audit_sources(data.rows, m_source, others, encoders.embed)
    return {
        "lines": audit.to_json(lines),
        "not_available": missing,
        "warnings": audit.warnings_of(lines),
    }


def _m_candidates(path: Path) -> dict[str, dict[str, str]]:
    file = path / M_CANDIDATES_FILE
    found: dict[str, dict[str, str]] = {}
    if file.is_file():
        for number, line in enumerate(file.read_text(encoding="utf-8").split("\n"), start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                by_picture = found.setdefault(str(row["m_source"]), {})
                by_picture[str(row["image_id"])] = str(row["caption"])
            except (ValueError, TypeError, KeyError, RecursionError) as error:
                raise folder.FolderError(
                    path, [Fault(file.name, number, f"is no candidate ({error!r})")]
                ) from error
    return found


def _print_audit(found: Mapping[str, Any], as_json: bool) -> int:
    if as_json:
        print(json.dumps(found, indent=2, sort_keys=True))
        return 0
    print(audit.table(found["lines"], found["not_available"]))
    _warn(found)
    return 0


def _warn(found: Mapping[str, Any]) -> None:
    for warning in found["warnings"]:
        _tell(f"WARNING: {warning}")


def _settings(args: argparse.Namespace) -> dict[str, Any]:
    """What decides the rows, beside sources and encoders."""
    n = args.n or (PAPER_PICTURES if args.source == "mmsd2" else None)
    return {
        "split": args.split,
        "n": n,
        "n_donors": args.donors,
        "seed": args.seed,
        "m_source": args.m_source,
        "normalise": args.normalise,
        "folds": args.folds,
        "max_similarity": args.max_similarity,
    }


def _kind(source: mmsd.Source, human: literal.Literal | None, plan: Plan) -> str:
    """`full` for the paper's size from the whole test split with human captions, else `custom`."""
    whole = source.provenance.get("rows") == source.provenance.get("rows_expected")
    full = source.name == "mmsd2" and source.split == "test" and whole and human is not None
    return "full" if full and plan.counts["pictures"] >= PAPER_PICTURES else "custom"


def _licences(human: literal.Literal | None, plan: Plan) -> dict[str, int]:
    """Licences named beside the human captions, with the number of pictures each."""
    if human is None:
        return {}
    used = {row["image_id"] for row in plan.rows}
    return dict(sorted(Counter(human.licences[x] for x in used if x in human.licences).items()))


def _build_key(out: Path) -> str | None:
    """The key of the dataset in a folder; None for an empty or missing one.

    Raises:
        BuildError: The folder holds something else.
    """
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return None
    try:
        manifest = json.loads((out / folder.MANIFEST).read_text(encoding="utf-8"))
        return str(manifest["build_key"])
    except (OSError, ValueError, KeyError, TypeError):
        raise BuildError(f"{out} exists and holds something else; choose another --out") from None


def _masks(post: str, text: str | None) -> dict[str, str]:
    found = {cue: cues.mask(post, cue, text) for cue in CUES}
    return {cue: caption for cue, caption in found.items() if caption is not None}


def _row(
    image_id: str,
    condition: str,
    caption: str,
    fold: int,
    cue: str | None = None,
    edit: str | None = None,
) -> dict[str, Any]:
    suffix = f"-{cue}-{edit}" if cue else ""
    return {
        "sample_id": f"{image_id}-{condition}{suffix}",
        "image_id": image_id,
        "image": f"images/{image_id}.jpg",
        "condition": condition,
        "cue": cue,
        "edit": edit,
        "caption": caption,
        "label": int(condition == "P"),
        "fold": fold,
    }


def _some(pool: Sequence[donors.Donor], limit: int, seed: str) -> list[donors.Donor]:
    """At most so many donors, by lot: more choice than that changes nothing but the time."""
    if len(pool) <= limit:
        return list(pool)
    return sorted(Random(seed).sample(list(pool), limit))


def _has_substance(caption: str) -> bool:
    return bool(cues.content_words(caption))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return number


def _told(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in counts.items())


def _tell(message: str) -> None:
    print(f"pragclash data pragmatch: {message}", file=sys.stderr)
