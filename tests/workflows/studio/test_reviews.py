"""The reviews of the studio: what waits is listed and decided about, and an agent of the studio goes on with it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from penstock import SQLiteStorage
from penstock.workflows.review import Reviews
from tests.workflows.studio.served import Served, until

Serving = Callable[..., AbstractContextManager[Served]]

SHOP = """
from pathlib import Path
from penstock import Agent, PIIDetector, SQLiteStorage, Tool
from penstock.testing import ScriptedModel

def refund(order: int, note: str = "") -> str:
    "Refund an order."
    with open(Path(__file__).with_name("refunded.txt"), "a") as file:
        file.write(f"{order} {note}\\n")
    return f"order {order} is refunded, ann@example.com is told"

class Model(ScriptedModel):
    "Asks for the tool, and answers when it has the result."
    async def stream(self, request):
        done = any(part.type == "tool" for message in request.messages for part in message.parts)
        call = {"name": "refund", "args": {"order": 7, "note": "for ann@example.com"}}
        said = ["Done."] if done else [{"text": "I will refund it.", "tool_calls": [call]}]
        async for chunk in ScriptedModel(said).stream(request):
            yield chunk

store = SQLiteStorage(str(Path(__file__).with_name("runs.db")))
shop = Agent(Model([]), name="shop", tools=[Tool(refund, approval=True)], processors=[PIIDetector()], reviews=store)
desk_store = SQLiteStorage(str(Path(__file__).with_name("runs.db")))
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, serving_studio: Serving) -> Any:
    """A studio with an agent whose tool wants approval, and with the agent's store; shared by all tests."""
    folder = tmp_path_factory.mktemp("shop")
    (folder / "shop.py").write_text(SHOP)
    with serving_studio(folder, "shop.py:shop", reviews=str(folder / "runs.db"), reviewer="eve") as served:
        until(lambda: served.get("/api/workflows")["workflows"][0]["state"], lambda state: state == "ready")
        yield served


def asked(shop: Served) -> Any:
    """Return a request that waits: one that the agent was asked in this studio."""
    ended = shop.run("shop.py:shop", {"kind": "text", "text": "Refund order 7, I am ann@example.com"})
    assert ended["status"] == "suspended"
    return shop.get(f"/api/reviews/{ended['agent']['run_id']}")


def refunds(shop: Served) -> list[str]:
    """Return the calls of the tool."""
    path = shop.folder / "refunded.txt"
    return path.read_text().splitlines() if path.exists() else []


def post(shop: Served, path: str, **body: Any) -> tuple[int, Any]:
    """Return the status and the answer."""
    answer = shop.http.post(f"/api/reviews/{path}", json=body)
    return answer.status_code, answer.json()


def test_a_request_is_listed_decided_about_and_gone_on_with(shop: Served) -> None:
    """The tool runs once, with the arguments that were approved; the end is seen as a run of the studio."""
    waiting = asked(shop)
    assert shop.get("/api/workflows")["reviews"] == {
        "store": str(shop.folder / "runs.db"),
        "by": "eve",
        "fixed": False,
    }
    assert (waiting["status"], waiting["here"], waiting["can_go_on"]) == ("waiting", shop.id("shop.py:shop"), False)
    assert "ann@example.com" not in str(waiting)
    assert shop.get("/api/reviews")["runs"][-1] == waiting
    assert post(shop, f"{waiting['run_id']}/resume")[0] == 409
    status, decided = post(shop, f"{waiting['run_id']}/approve", arguments={"order": 8, "note": "by hand"})
    assert (status, decided["can_go_on"]) == (200, True)
    made = decided["calls"][0]["decision"]
    assert (made["verdict"], made["by"], made["arguments"]["order"]) == ("approve", "eve", 8)
    status, begun = post(shop, f"{waiting['run_id']}/resume")
    assert status == 202
    ended = shop.ended(begun["id"])
    assert (ended["status"], ended["agent"]["text"], ended["title"]) == (
        "edited",  # a guard has hidden an address in the result of the tool
        "I will refund it.Done.",
        waiting["question"],
    )
    assert refunds(shop)[-1] == "8 by hand"
    assert waiting["run_id"] not in {run["run_id"] for run in shop.get("/api/reviews")["runs"]}
    over = shop.get("/api/reviews", status="ended", limit=1)["runs"][0]
    assert (over["run_id"], over["calls"][0]["decision"]["by"]) == (waiting["run_id"], "eve")


def test_what_cannot_be_decided_is_said_in_words(shop: Served) -> None:
    """By the reason of the review room, with a status that fits."""
    run, before = asked(shop)["run_id"], refunds(shop)
    assert post(shop, f"{run}/answer", call="call-1", value=1) == (
        409,
        {"error": {"kind": "conflict", "message": "the call call-1 waits for approval: use approve or reject"}},
    )
    status, decided = post(shop, f"{run}/reject", reason="too late", by="kim")
    assert (status, decided["calls"][0]["decision"]["reason"]) == (200, "too late")
    status, answer = post(shop, f"{run}/approve", call="call-1")
    assert (status, answer["error"]["message"]) == (409, "the call call-1 was decided about already by kim: reject")
    assert post(shop, "nothing/approve")[0] == 409
    assert post(shop, f"{run}/approve", call=7)[0] == 400
    assert shop.http.get("/api/reviews/nothing").status_code == 404
    assert shop.http.get("/api/reviews", params={"status": "odd"}).status_code == 400
    assert shop.http.get("/api/reviews", params={"after": "odd"}).status_code == 400
    assert refunds(shop) == before


def test_a_run_that_another_process_went_on_with_is_refused_here(shop: Served) -> None:
    """Whoever comes second does not run the tool again."""
    run, before = asked(shop)["run_id"], refunds(shop)
    post(shop, f"{run}/approve")
    first, second = (post(shop, f"{run}/resume") for _ in range(2))
    ends = [shop.ended(body["id"]) for status, body in (first, second) if status == 202]
    assert [end["status"] for end in ends].count("edited") == 1
    for refused in (end for end in ends if end["status"] == "failed"):
        assert refused["error"]["kind"] == "input"
        assert any(word in refused["error"]["message"] for word in ("another process goes on", "it has ended"))
    assert len(refunds(shop)) == len(before) + 1


def test_other_pages_can_neither_read_nor_decide(shop: Served) -> None:
    """The studio's own protections are in front of these endpoints."""
    run = asked(shop)["run_id"]
    foreign = {"origin": "https://evil.example", "content-type": "application/json"}
    assert shop.http.post(f"/api/reviews/{run}/approve", content="{}", headers=foreign).status_code == 403
    assert shop.http.get("/api/reviews", headers={"sec-fetch-site": "cross-site"}).status_code == 403
    form = {"content-type": "application/x-www-form-urlencoded"}
    assert shop.http.post(f"/api/reviews/{run}/approve", content="call=", headers=form).status_code == 415
    assert shop.get(f"/api/reviews/{run}")["calls"][0]["decision"] is None


async def test_what_another_process_decides_is_seen(shop: Served) -> None:
    """The store is the same one."""
    run = asked(shop)["run_id"]
    store = SQLiteStorage(str(shop.folder / "runs.db"))
    await Reviews(store).reject(run, reason="no", by="kim")
    await store.close()
    assert shop.get(f"/api/reviews/{run}")["calls"][0]["decision"]["by"] == "kim"


def test_a_store_that_is_not_there_and_no_store_at_all_are_said(tmp_path: Path, serving_studio: Serving) -> None:
    """A file that an agent makes later is found then."""
    path = tmp_path / "runs.db"
    with serving_studio(tmp_path, reviews=str(path)) as served:
        answer = served.http.get("/api/reviews")
        assert (answer.status_code, "there is no file" in answer.text) == (404, True)
        path.touch()
        assert served.get("/api/reviews") == {"runs": [], "following": None}
    with serving_studio(tmp_path) as served:
        assert "--reviews STORE" in served.http.get("/api/reviews").text
        assert served.get("/api/workflows")["reviews"] is None


def test_with_a_token_nobody_decides_without_it(tmp_path: Path, serving_studio: Serving) -> None:
    """As for all else of the studio."""
    (tmp_path / "runs.db").touch()
    with serving_studio(tmp_path, reviews=str(tmp_path / "runs.db"), token="t" * 20) as served:
        assert served.http.get("/api/reviews").status_code == 401
        bearer = {"authorization": f"Bearer {'t' * 20}"}
        assert served.http.get("/api/reviews", headers=bearer).status_code == 200


def test_who_may_decide_is_asked_in_the_studio_too(tmp_path: Path, serving_studio: Serving) -> None:
    """Under the one name that the studio decides with; the record has it."""
    (tmp_path / "shop.py").write_text(SHOP.replace("reviews=store)", "reviews=Reviews(store, may_decide=boss))"))
    rule = "from penstock.workflows.review import Reviews\n\ndef boss(run, by):\n    return by == 'boss'\n"
    (tmp_path / "shop.py").write_text(rule + (tmp_path / "shop.py").read_text())
    store = str(tmp_path / "runs.db")
    for name, may_decide in (("boss", None), ("eve", f"{tmp_path}/shop.py:boss"), ("boss", f"{tmp_path}/shop.py:boss")):
        options = {"reviews": store, "reviewer": name, "reviewer_is_fixed": True, "may_decide": may_decide}
        with serving_studio(tmp_path, "shop.py:shop", **options) as served:
            until(
                lambda served=served: served.get("/api/workflows")["workflows"][0]["state"], lambda one: one == "ready"
            )
            assert served.get("/api/workflows")["reviews"]["fixed"]
            run_id = asked(served)["run_id"]
            assert post(served, f"{run_id}/approve", by="somebody")[0] == 409
            status, told = post(served, f"{run_id}/approve")
            if name == "boss" and may_decide:
                assert (status, told["calls"][0]["decision"]["by"]) == (200, "boss")
            else:
                assert status == 409
                assert "may decide" in str(told) or "may not decide" in str(told)
