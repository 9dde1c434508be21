"""The annotation page's server: one annotator, one dataset, one votes file.

All addresses lie under a key that only the printed link holds, so other users of the machine and
other pages cannot read or vote. What goes to the page names no condition, label, id or file; a
vote is answered only once it is on disk.
"""

from __future__ import annotations

import hmac
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from lmms_eval_tasks.annotation.guard import Guard
from lmms_eval_tasks.annotation.pictures import PictureChangedError, picture
from lmms_eval_tasks.annotation.plan import Item, Task, arrange, keyed, token
from lmms_eval_tasks.annotation.store import Store

STATIC = Path(__file__).with_name("static")
PAGES = {
    "": ("index.html", "text/html"),
    "annotate.css": ("annotate.css", "text/css"),
    "annotate.js": ("annotate.js", "text/javascript"),
}
MAX_REASON = 2000
READING = "reading"
"""The task whose pictures stay hidden until they are asked for."""

_REQUEST = Field(pattern=r"^[A-Za-z0-9-]{8,64}$")


class _Refused(Exception):
    """A request that cannot be served: status and reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


class VoteIn(BaseModel):
    """A vote as the page sends it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    request: str = _REQUEST
    id: str = Field(max_length=64)
    label: str = Field(max_length=16)
    reason: str = Field(default="", max_length=MAX_REASON)


class UndoIn(BaseModel):
    """An undo as the page sends it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    request: str = _REQUEST


class Session:
    """What one annotator is asked, and the votes so far."""

    def __init__(
        self,
        folder: Path,
        task: Task,
        items: list[Item],
        store: Store,
        annotator: str,
        seed: int,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """Arrange the items and note in the store what is asked.

        Args:
            folder: Where the pictures are.
            task: What is asked.
            items: About what.
            store: The votes file.
            annotator: Who votes.
            seed: Seed of the order.
            changed: Called with every vote and undo on disk, before the page hears of it.
        """
        self.changed, self._changing = changed, threading.Lock()
        self.folder, self.task, self.store, self.annotator = folder, task, store, annotator
        secret = store.secret
        self.key = keyed(secret, "page", annotator)[:32]
        self.items = {
            token(secret, annotator, item): item for item in arrange(items, seed, annotator)
        }
        self._token_of = {(x.sample_id, x.content): name for name, x in self.items.items()}
        store.ask(annotator, self._token_of)

    def given(self) -> dict[str, tuple[str, str]]:
        """Label and reason of every item of this session that has a vote, by token."""
        return {
            self._token_of[vote.sample_id, vote.content]: (vote.label, vote.reason)
            for vote in self.store.votes(self.annotator)
            if (vote.sample_id, vote.content) in self._token_of
        }

    def state(self) -> dict[str, Any]:
        """Everything the page shows."""
        given = self.given()
        blank = (None, "")
        return {
            "annotator": self.annotator,
            "task": self.task.name,
            "title": self.task.title,
            "question": self.task.question,
            "labels": [label._asdict() for label in self.task.labels],
            "reason": MAX_REASON if self.task.reason else 0,
            "hidden": self.task.name == READING,
            "items": [
                {
                    "id": name,
                    "shown": item.shown,
                    **({"picture": bool(item.image)} if self.task.name == READING else {}),
                    "label": given.get(name, blank)[0],
                    "reason": given.get(name, blank)[1],
                }
                for name, item in self.items.items()
            ],
        }

    def vote(self, vote: VoteIn) -> dict[str, Any]:
        """Store a vote.

        Raises:
            _Refused: An unknown item or label.
        """
        item = self.items.get(vote.id)
        if item is None:
            raise _Refused(404, "this item is not in the dataset any more; reload the page")
        if vote.label not in [label.value for label in self.task.labels]:
            raise _Refused(422, f"unknown label {vote.label!r}")
        reason = vote.reason.strip() if self.task.reason else ""
        sample = (item.sample_id, item.content)
        self.store.vote(vote.request, self.annotator, sample, vote.label, reason)
        self._tell()
        return self._standing(vote.id)

    def undo(self, undo: UndoIn) -> dict[str, Any]:
        """Take back the last vote on this session's items."""
        reverted = self.store.undo(undo.request, self.annotator, self._token_of)
        self._tell()
        return self._standing(self._token_of.get(reverted) if reverted else None)

    def _tell(self) -> None:
        with self._changing:
            self.changed()

    def _standing(self, name: str | None) -> dict[str, Any]:
        label, reason = self.given().get(name or "", (None, ""))
        return {"id": name, "label": label, "reason": reason}


def application(session: Session, listening: str, names: tuple[str, ...] = ()) -> Guard:
    """The application, guarded.

    Args:
        session: Whose votes on what.
        listening: The host that is listened on.
        names: Further host names that it is reached by.
    """
    # The documentation pages would load scripts from elsewhere.
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)

    def check(key: str) -> None:
        if not hmac.compare_digest(key.encode(), session.key.encode()):
            raise _Refused(404, "open the link that the terminal shows")

    @app.get("/favicon.ico")
    def favicon() -> Response:
        return Response(status_code=204)

    @app.get("/{key}/api/state")
    def state(key: str) -> Response:
        check(key)
        return JSONResponse(session.state())

    @app.post("/{key}/api/vote")
    def vote(key: str, vote: VoteIn) -> Response:
        check(key)
        return JSONResponse(session.vote(vote))

    @app.post("/{key}/api/undo")
    def undo(key: str, undo: UndoIn) -> Response:
        check(key)
        return JSONResponse(session.undo(undo))

    @app.get("/{key}/picture/{name}")
    def show(key: str, name: str) -> Response:
        check(key)
        item = session.items.get(name)
        if item is None or not item.image:
            raise _Refused(404, "no such picture")
        data, media_type = picture(session.folder / item.image, item.picture_hash)
        # The name changes with the content, so the copy never goes stale.
        headers = {"cache-control": "private, max-age=86400, immutable"}
        return Response(data, media_type=media_type, headers=headers)

    @app.get("/{key}/{name:path}")
    def page(key: str, name: str) -> Response:
        check(key)
        if name not in PAGES:
            raise _Refused(404, "no such page")
        file, media_type = PAGES[name]
        return FileResponse(STATIC / file, media_type=media_type)

    @app.exception_handler(_Refused)
    def refused(_: Request, error: _Refused) -> Response:
        return JSONResponse({"error": error.reason}, error.status)

    @app.exception_handler(PictureChangedError)
    def changed(_: Request, error: PictureChangedError) -> Response:
        # The file's name is no business of whoever judges.
        return JSONResponse({"error": "the picture is gone or has changed"}, 410)

    @app.exception_handler(RequestValidationError)
    def invalid(_: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return JSONResponse({"error": f"{where}: {first['msg']}"}, 422)

    @app.exception_handler(HTTPException)
    def unserved(_: Request, error: HTTPException) -> Response:
        return JSONResponse({"error": error.detail}, error.status_code)

    @app.exception_handler(sqlite3.Error)
    def unsaved(_: Request, error: sqlite3.Error) -> Response:
        return JSONResponse({"error": f"not saved: {error}"}, 503)

    return Guard(app, listening, names)
