"""What the page's server tells, stores and refuses."""

import json
import re

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("starlette.testclient")

from starlette.testclient import TestClient

from lmms_eval_tasks.annotation.guard import HEADERS, MAX_BODY
from lmms_eval_tasks.annotation.plan import TASKS, items_of
from lmms_eval_tasks.annotation.server import STATIC, Session, application
from lmms_eval_tasks.annotation.store import Store
from lmms_eval_tasks.dataset.folder import load_folder
from tests.lmms_eval_tasks.annotation_fixtures import HOSTILE, caption_folder, caption_rows, picture
from tests.lmms_eval_tasks.clash_fixtures import clash_folder


class Page:
    """A client that has the printed link."""

    def __init__(self, path, task="sarcasm", annotator="ada", listening="127.0.0.1", names=()):
        folder = load_folder(path, TASKS[task].benchmark)
        self.store = Store.open(path / "votes.sqlite3", task, create=True)
        items = items_of(folder, TASKS[task])
        self.session = Session(folder.path, TASKS[task], items, self.store, annotator, 0)
        app = application(self.session, listening, names)
        self.client = TestClient(app, base_url="http://127.0.0.1:8000")
        self.base = f"/{self.session.key}"
        self.sent = 0

    def get(self, path, **kwargs):
        return self.client.get(f"{self.base}/{path}", **kwargs)

    def state(self):
        return self.get("api/state").json()

    def post(self, path, body, **kwargs):
        self.sent += 1
        body = {"request": f"request-{self.sent}", **body}
        return self.client.post(f"{self.base}/api/{path}", json=body, **kwargs)


@pytest.fixture
def page(tmp_path):
    made = Page(caption_folder(tmp_path / "pragmatch"))
    yield made
    made.store.close()


@pytest.fixture
def clash_page(tmp_path):
    made = Page(clash_folder(tmp_path / "clash"), "clash")
    yield made
    made.store.close()


def test_the_page_never_learns_what_a_caption_is(page):
    state = page.state()
    assert len(state["items"]) == 12
    for item in state["items"]:
        assert set(item) == {"id", "shown", "label", "reason"}
        assert set(item["shown"]) == {"caption"}
        assert re.fullmatch(r"[0-9a-f]{24}", item["id"])
    text = json.dumps(state)
    for row in caption_rows(4):
        assert row["sample_id"] not in text
    assert not re.search(r"pic\d|condition|images/|\.png", text)


def test_clash_shows_all_that_an_item_consists_of_but_no_ids(clash_page):
    state = clash_page.state()
    assert set(state["items"][0]["shown"]) == set(TASKS["clash"].shown)
    assert not any(i.sample_id in json.dumps(state) for i in clash_page.session.items.values())


def test_a_vote_is_stored_under_the_sample_it_was_given_on(page):
    first, second = page.state()["items"][:2]
    reply = page.post("vote", {"id": first["id"], "label": "unclear"})
    assert reply.json() == {"id": first["id"], "label": "unclear", "reason": ""}
    page.post("vote", {"id": second["id"], "label": "no"})
    stored = {v.sample_id: v.label for v in page.store.votes("ada")}
    items = page.session.items
    assert stored == {
        items[first["id"]].sample_id: "unclear",
        items[second["id"]].sample_id: "no",
    }
    assert [x["label"] for x in page.state()["items"][:3]] == ["unclear", "no", None]
    assert page.post("undo", {}).json() == {"id": second["id"], "label": None, "reason": ""}
    assert page.post("undo", {}).json()["id"] == first["id"]
    assert page.post("undo", {}).json() == {"id": None, "label": None, "reason": ""}


def test_a_reason_is_kept_for_clash_and_not_for_sarcasm(clash_page, page):
    item = clash_page.state()["items"][0]["id"]
    body = {"id": item, "label": "reject", "reason": f" two changes {HOSTILE} "}
    assert clash_page.post("vote", body).json()["reason"] == f"two changes {HOSTILE}"
    item = page.state()["items"][0]["id"]
    assert page.post("vote", {"id": item, "label": "no", "reason": "x"}).json()["reason"] == ""


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"id": "0" * 24, "label": "yes"}, 404),
        ({"id": "pic0-P", "label": "yes"}, 404),
        ({"label": "yes"}, 422),
        ({"id": "ITEM", "label": "accept"}, 422),
        ({"id": "ITEM", "label": 1}, 422),
        ({"id": "ITEM", "label": "yes", "annotator": "bob"}, 422),
        ({"id": "ITEM", "label": "yes", "request": "'; DROP TABLE events; --"}, 422),
        ({"id": "ITEM", "label": "yes", "reason": "x" * 2001}, 422),
        ({"id": "ITEM", "label": "yes", "reason": "x" * MAX_BODY}, 413),
    ],
)
def test_a_vote_that_means_nothing_is_refused(page, body, status):
    item = page.state()["items"][0]["id"]
    body = {key: item if value == "ITEM" else value for key, value in body.items()}
    reply = page.post("vote", body)
    assert reply.status_code == status
    assert reply.json()["error"]
    assert page.store.votes() == []


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"\xff", b'{"request":"\\ud800"}', b"[" * 9999]
)
def test_a_body_that_is_no_vote_is_refused(page, content):
    headers = {"content-type": "application/json"}
    reply = page.client.post(f"{page.base}/api/vote", content=content, headers=headers)
    assert reply.status_code in (400, 422)
    assert reply.json()["error"]
    assert page.store.votes() == []


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9000"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
    ],
)
def test_another_site_cannot_vote(page, headers):
    item = page.state()["items"][0]["id"]
    content = json.dumps({"request": "request-1", "id": item, "label": "yes"})
    headers = {"content-type": "application/json", **headers}
    reply = page.client.post(f"{page.base}/api/vote", content=content, headers=headers)
    assert reply.status_code in (403, 415)
    assert page.store.votes() == []


def test_the_page_itself_can_vote(page):
    item = page.state()["items"][0]["id"]
    headers = {"origin": "http://127.0.0.1:8000", "sec-fetch-site": "same-origin"}
    assert page.post("vote", {"id": item, "label": "yes"}, headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8000", 200),
        ("localhost:9999", 200),
        ("[::1]:8000", 200),
        ("evil.example", 421),
        ("evil.example:8000", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost.evil.example:8000", 421),
        ("192.168.1.7:8000", 421),
        ("", 421),
    ],
)
def test_a_name_that_was_rebound_to_this_machine_is_not_served(page, host, status):
    assert page.get("api/state", headers={"host": host}).status_code == status


def test_a_page_for_the_network_is_served_by_address_and_by_allowed_names(tmp_path):
    made = Page(caption_folder(tmp_path / "p"), listening="0.0.0.0", names=["Lab.example"])
    for host, status in (("192.168.1.7:80", 200), ("lab.example", 200), ("evil.example", 421)):
        assert made.get("api/state", headers={"host": host}).status_code == status
    made.store.close()


def test_nothing_is_served_without_the_key(page):
    other = Page(page.session.folder, annotator="bob")
    assert other.session.key != page.session.key
    item = page.state()["items"][0]["id"]
    for key in ("", "x", page.session.key[:-1], page.session.key.upper() + "0", other.session.key):
        for path in ("", "api/state", "annotate.js", f"picture/{item}"):
            assert page.client.get(f"/{key}/{path}").status_code == 404
        body = {"request": "request-1", "id": item, "label": "yes"}
        assert page.client.post(f"/{key}/api/vote", json=body).status_code in (404, 405)
    assert page.store.votes() == []
    other.store.close()


@pytest.mark.parametrize(
    "path",
    [
        "../server.py",
        "..%2fserver.py",
        "%2e%2e/server.py",
        "static/index.html",
        "picture/../api/state",
        "picture/..%2f..%2fcaptions.jsonl",
        "picture/images/pic0.png",
        "picture/pic0-P",
        "docs",
        "openapi.json",
    ],
)
def test_only_the_pages_files_and_listed_pictures_are_served(page, path):
    reply = page.get(path)
    assert reply.status_code == 404 or "items" in reply.json()
    assert "import" not in reply.text


def test_every_answer_carries_the_protecting_headers(page):
    replies = [page.get(""), page.get("api/state"), page.get("nothing"), page.client.get("/")]
    replies += [page.get("api/state", headers={"host": "evil.example"})]
    replies += [page.client.delete(f"{page.base}/api/state"), page.get("annotate.css")]
    for reply in replies:
        for name, value in HEADERS.items():
            assert reply.headers[name] == value
        assert reply.headers["cache-control"] == "no-store"
    policy = page.get("").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_the_page_loads_nothing_from_elsewhere():
    for file in STATIC.iterdir():
        text = file.read_text(encoding="utf-8")
        assert not re.search(r"https?:|//\w+\.\w|@import|url\(", text), file.name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", text)
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<style|style=|<script>| on\w+=", page)


def test_pictures_are_those_that_the_item_was_made_with(page):
    state = page.state()
    name = state["items"][0]["id"]
    item = page.session.items[name]
    reply = page.get(f"picture/{name}")
    path = page.session.folder / item.image
    assert reply.content == path.read_bytes()
    assert reply.headers["content-type"] == "image/png"
    assert "immutable" in reply.headers["cache-control"]
    path.write_bytes(picture(99))
    changed = page.get(f"picture/{name}")
    assert changed.status_code == 410
    assert item.image_id not in changed.text
    path.unlink()
    assert page.get(f"picture/{name}").status_code == 410


def test_formats_that_browsers_do_not_know_go_out_as_png(tmp_path):
    import hashlib
    import io

    from PIL import Image

    from lmms_eval_tasks.annotation.pictures import PictureChangedError
    from lmms_eval_tasks.annotation.pictures import picture as served

    frames = [Image.new("RGB", (8, 8), shade) for shade in ("red", "blue")]
    moving = io.BytesIO()
    frames[0].save(moving, "GIF", save_all=True, append_images=frames[1:])
    cases = [(picture(1, "TIFF"), "image/png"), (moving.getvalue(), "image/png")]
    cases += [(picture(1, "BMP"), "image/png"), (picture(1, "JPEG"), "image/jpeg")]
    cases += [(picture(1, "WEBP"), "image/webp"), (picture(1, "GIF"), "image/png")]
    for number, (data, media_type) in enumerate(cases):
        path = tmp_path / f"{number}"
        path.write_bytes(data)
        got = served(path, hashlib.sha256(data).hexdigest())
        assert got.media_type == media_type
        with Image.open(io.BytesIO(got.data)) as opened:
            assert getattr(opened, "n_frames", 1) == 1
            assert opened.size == ((64, 48) if number != 1 else (8, 8))
    path.write_bytes(b"<svg onload='alert(1)'/>")
    with pytest.raises(PictureChangedError):
        served(path, hashlib.sha256(path.read_bytes()).hexdigest())


def test_votes_on_other_words_are_not_shown_again(tmp_path):
    path = caption_folder(tmp_path / "pragmatch")
    first = Page(path)
    for item in first.state()["items"]:
        first.post("vote", {"id": item["id"], "label": "yes"})
    first.store.close()
    file = path / "captions.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    rows[1]["caption"] = "quite other words"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    again = Page(path)
    open_items = [x for x in again.state()["items"] if x["label"] is None]
    assert [x["shown"]["caption"] for x in open_items] == ["quite other words"]
    again.store.close()


def test_a_store_that_cannot_write_is_told_as_not_saved(page):
    item = page.state()["items"][0]["id"]
    page.store._connection.execute("PRAGMA query_only = ON")
    reply = page.post("vote", {"id": item, "label": "yes"})
    assert reply.status_code == 503
    assert reply.json()["error"].startswith("not saved")
    page.store._connection.execute("PRAGMA query_only = OFF")
    assert page.post("vote", {"id": item, "label": "yes"}).status_code == 200
