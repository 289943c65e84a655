"""The streams of the pages: `/news` for lists, and that of a job, with the answer that is being generated, rendered."""

import asyncio
import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import count

import pytest

from api.pages.jobs.job_drafts import Drafts
from redraft.messages import Delta
from redraft.operations.jobs import lifecycle, queries
from redraft.operations.services import Services
from tests.support.api_server import ApiServer
from tests.support.event_stream import EventStream
from tests.support.html_pages import Reader
from tests.support.waiting import wait_until

Submit = Callable[..., str]


@contextmanager
def listening(api: ApiServer) -> Generator[EventStream]:
    with api.client().stream("GET", "/news") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        assert "content-encoding" not in response.headers
        stream = EventStream(response)
        # What came between the page and its ear is not missed.
        assert next(stream.events()).type == "changed"
        yield stream


def test_a_new_job_and_its_end_are_told(api: ApiServer, services: Services, submit_job: Submit):
    with listening(api) as stream:
        events = stream.events()
        job_id = submit_job()
        assert (next(events).type, api.client().get(f"/v1/jobs/{job_id}").status_code) == ("changed", 200)
        lifecycle.cancel(services, job_id)
        frame = next(events)
        assert (frame.type, frame.data) == ("changed", {})


def test_listeners_hold_nobody_up_when_the_server_stops(start_api: Callable[..., ApiServer]):
    api = start_api()
    with listening(api), listening(api):
        wait_until(lambda: api.open_requests >= 2, what="both listeners")
        api.stop()


def test_the_ear_is_closed_when_nobody_listens(api: ApiServer):
    with listening(api):
        wait_until(lambda: api.app.state.context.notifications.channels, what="the ear")
    wait_until(lambda: not api.app.state.context.notifications.channels, what="its end")


def drawn(*bundles: list[Delta], every_s: float = 1) -> list[dict[str, object]]:
    """What a page gets of these bundles."""
    drafts = Drafts(count(0, every_s).__next__)

    async def follow() -> list[bytes]:
        return [await drafts.write(bundle) for bundle in bundles]

    frames = [frame for frame in asyncio.run(follow()) if frame]
    assert all(frame.startswith(b"event: answer.draft\n") for frame in frames)
    return [json.loads(frame.split(b"data: ", 1)[1]) for frame in frames]


def delta(text: str, offset: int, iteration: int = 1, candidate: int = 1, attempt: int = 1) -> Delta:
    return Delta(iteration, candidate, attempt, offset, text)


def test_deltas_are_joined_and_rendered_without_what_could_act():
    first, second = drawn([delta("# A <script>", 0)], [delta("x</script>\n\n**b** [c](javascript:d)\u202e", 12)])
    assert first["iteration"] == 1
    assert "A &lt;script&gt;</h4>" in str(first["html"])
    assert "A &lt;script&gt;x&lt;/script&gt;</h4>" in str(second["html"])
    assert "<strong>b</strong>" in str(second["html"])
    assert "href" not in str(second["html"])
    assert "\u202e" not in str(second["html"])


def test_a_later_attempt_or_iteration_begins_anew_and_a_late_page_says_what_is_missing():
    shown = drawn(
        [delta("late", 100)],
        [delta("again", 0, attempt=2)],
        [delta("next", 0, iteration=2)],
        [delta("cut", 7, iteration=2, attempt=2)],
    )
    assert [each["iteration"] for each in shown] == [1, 1, 2, 2]
    for each, words in zip(shown, ("… late", "again", "next", "… cut"), strict=True):
        assert str(each["html"]).strip() == f'<div class="answer"><p>{words}</p>\n</div>'


def test_candidates_have_their_own_texts():
    [shown] = drawn([delta("One", 0), delta("Two", 0, candidate=2), delta(" more", 3)])
    html = str(shown["html"])
    assert html.index("Candidate 1</h4>") < html.index("One more") < html.index("Candidate 2</h4>") < html.index("Two")


def test_texts_are_sent_at_intervals_and_nothing_of_them_is_lost():
    shown = drawn(*([delta("a", at)] for at in range(6)), every_s=0.03)
    assert [str(each["html"]).count("a<") for each in shown] == [1, 1]
    assert "aaaaa" in str(shown[-1]["html"])


def test_a_new_job_streams_unless_its_form_says_otherwise(reader: Reader):
    assert "checked" in reader.go("/new").field("Show the answer while it is generated").attrib


def test_only_jobs_that_stream_are_followed_by_the_stream_of_pages(reader: Reader, submit_job: Submit):
    for stream in (False, True):
        job_id = submit_job(stream=stream)
        live = reader.go(f"/jobs/{job_id}").by_id("live").get("data-live", "")
        assert live.startswith(f"/jobs/{job_id}/drafts?after=" if stream else f"/v1/jobs/{job_id}/events?after=")


@pytest.mark.parametrize(("after", "status"), [("x", 422), ("99", 422), ("", 204)])
def test_the_stream_of_pages_ends_and_refuses_like_that_of_the_api(
    api: ApiServer, services: Services, stored: Submit, after: str, status: int
):
    job_id = stored()
    last = after or str(queries.list_events(services, job_id, 0)[0][-1].seq)
    for path in (f"/jobs/{job_id}/drafts", f"/v1/jobs/{job_id}/events"):
        assert api.client().get(path, params={"after": last}).status_code == status
    assert api.client().get("/jobs/job_none/drafts").status_code == 404
