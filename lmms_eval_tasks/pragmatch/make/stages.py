"""The stages of a PragMatch build, from the posts to all rows of the dataset.

Each stage is a function of its inputs; the slow ones keep their results in a work folder. What is
left out on the way is counted, never made up for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np

from lmms_eval_tasks.dataset.checks import text_key
from lmms_eval_tasks.dataset.journal import Journal
from lmms_eval_tasks.pragmatch.make import audit, cues, donors, literal, mmsd
from lmms_eval_tasks.pragmatch.make.normalise import normalise
from lmms_eval_tasks.pragmatch.make.pictures import Picture, Pictures, tell
from lmms_eval_tasks.pragmatch.make.rows import make_rows, masks

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


class Plan(NamedTuple):
    """All rows of a dataset, and what the manifest says of them."""

    rows: list[dict[str, Any]]
    m_candidates: list[dict[str, Any]]
    pictures: dict[str, Picture]
    counts: dict[str, int]
    cues: dict[str, dict[str, int]]
    donors: dict[str, int]
    audit: dict[str, Any]


class Stages:
    """The stages of one build. Each is a function of its inputs; the slow ones keep journals."""

    def __init__(
        self,
        source: mmsd.Source,
        human: literal.Literal | None,
        captioner: literal.Captioner,
        encoders: Encoders,
        settings: Mapping[str, Any],
        pictures: Pictures,
        work: Path,
        ocr: bool,
    ) -> None:
        """Take the inputs of every stage."""
        self.source, self.human, self.captioner = source, human, captioner
        self.encoders, self.settings, self.work, self.ocr = encoders, settings, work, ocr
        self.counts: Counter[str] = Counter(dict.fromkeys(_COUNTS, 0))
        self.pictures = pictures
        self.form: Callable[[str], str] = normalise if settings["normalise"] else _one_line

    def plan(self, retries: int, retry_failed: bool, n_donors: int | None) -> Plan:
        """All stages up to the rows."""
        seed = self.settings["seed"]
        drawn = self._draw()
        offered = self._donor_pictures(drawn, n_donors or len(drawn))
        wanted = [post.image_id for post in drawn] + offered
        literals = self._literals(wanted, retries, retry_failed)
        posts = {post.image_id: self.form(post.text) for post in drawn if post.image_id in literals}
        # A caption cannot be sarcastic and literal at once.
        posts = {x: post for x, post in posts.items() if text_key(post) != text_key(literals[x])}
        self.counts["without_literal_caption"] += len(drawn) - len(posts)
        if not posts:
            raise BuildError("no picture of the set has a literal caption")
        texts = {}
        if self.ocr:
            texts = self.pictures.texts(posts)
            self.counts["pictures_with_text"] = sum(map(bool, texts.values()))
        masked = {x: masks(post, texts.get(x)) for x, post in posts.items()}
        strings = {x: [posts[x], literals[x], *masked[x].values()] for x in posts}
        # One picture under two ids keeps to one fold as well.
        shared = {x: [*found, self.pictures.usable[x].digest] for x, found in strings.items()}
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
        rows, cue_counts, lost = make_rows(posts, literals, masked, texts, ms, folds, seed)
        self.counts["injected_dropped_as_leaks"] = lost
        donors.check_leaks(rows)
        others: dict[str, Mapping[str, str] | str] = {
            name: found
            if isinstance(found, str)
            else {
                x: choice.caption
                for x, choice in sorted(found.by_picture.items())
                if x in ms.by_picture
            }
            for name, found in chosen.items()
            if name != m_source
        }
        candidates = [
            {"image_id": x, "m_source": name, "caption": caption}
            for name, found in others.items()
            if not isinstance(found, str)
            for x, caption in found.items()
        ]
        uses = Counter(ms.uses.values())
        self.counts["pictures"] = len(ms.by_picture)
        self.counts["rows"] = len(rows)
        return Plan(
            rows=rows,
            m_candidates=candidates,
            pictures=self.pictures.usable,
            counts=dict(sorted(self.counts.items())),
            cues=cue_counts,
            donors={
                "offered": ms.offered,
                "used": len(ms.uses),
                "fewest_uses": min(uses) if len(ms.uses) == ms.offered else 0,
                "most_uses": max(uses),
            },
            audit=audit.report(rows, m_source, others, self.encoders.embed),
        )

    def _draw(self) -> list[mmsd.Post]:
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
            reason = self.pictures.fault(post.image_id)
            if reason is None:
                drawn.append(post)
            else:
                kind = "missing" if reason.startswith("is missing") else "corrupt"
                self.counts[f"pictures_{kind}"] += 1
                tell(f"left out picture {post.image_id}: {reason}")
        if not drawn:
            raise BuildError(
                f"no sarcastic post of {len(self.source.posts)} can be used: " + told(self.counts)
            )
        if wanted is not None and len(drawn) < wanted:
            tell(f"only {len(drawn)} of the {wanted} pictures asked for can be used")
        return drawn

    def _donor_pictures(self, drawn: Sequence[mmsd.Post], wanted: int) -> list[str]:
        """Pictures outside the set that give captions: no id and no file of the set's."""
        inside = {post.image_id for post in drawn}
        if self.human:
            return [x for x in self.human.captions if x not in inside]
        if self.settings["m_source"] != "captions":
            return []
        files = {self.pictures.usable[image_id].digest for image_id in inside}
        order = [post.image_id for post in self.source.posts if post.image_id not in inside]
        Random(f"{self.settings['seed']}:donor pictures").shuffle(order)
        found: list[str] = []
        for image_id in order:
            if len(found) == wanted:
                break
            usable = self.pictures.fault(image_id) is None
            if usable and self.pictures.usable[image_id].digest not in files:
                found.append(image_id)
        return found

    def _literals(
        self, image_ids: Sequence[str], retries: int, retry_failed: bool
    ) -> dict[str, str]:
        """Literal captions of the set and of the donors, in the surface form asked for."""
        if self.human:
            raw = {x: self.human.captions[x] for x in image_ids}
        else:
            pictures = [
                (x, self.pictures.usable[x].digest, self.pictures.usable[x].path) for x in image_ids
            ]
            with Journal(self.work / f"captions-{self.captioner.key}.jsonl") as journal:
                raw, failed = literal.caption_pictures(
                    self.captioner, pictures, journal, retries, retry_failed
                )
            self.counts["captioner_failures"] = len(failed)
            for image_id, reason in failed.items():
                tell(f"no caption for picture {image_id}: {reason}")
        formed = {x: self.form(caption) for x, caption in raw.items()}
        return {x: caption for x, caption in formed.items() if cues.content_words(caption)}

    def _known(
        self, posts: Mapping[str, str], literals: Mapping[str, str]
    ) -> dict[str, tuple[str, ...]]:
        """What is known of each picture, as texts that M must stay away from."""
        describe = self.encoders.describe
        return {
            x: (
                literals[x],
                posts[x],
                *([describe(self.pictures.usable[x].path)] if describe else []),
            )
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


def _some(pool: Sequence[donors.Donor], limit: int, seed: str) -> list[donors.Donor]:
    """At most so many donors, by lot: more choice than that changes nothing but the time."""
    if len(pool) <= limit:
        return list(pool)
    return sorted(Random(seed).sample(list(pool), limit))


def _has_substance(caption: str) -> bool:
    return bool(cues.content_words(caption))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def told(counts: Mapping[str, int]) -> str:
    """Counts in one line."""
    return ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in counts.items())
