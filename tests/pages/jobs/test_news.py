"""`/news`: whoever shows a list hears that some job has changed, and nothing of which."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from redraft.operations.jobs import lifecycle
from redraft.operations.services import Services
from tests.support.api_server import ApiServer
from tests.support.event_stream import EventStream
from tests.support.waiting import wait_until


@contextmanager
def listening(api: ApiServer) -> Iterator[EventStream]:
    with api.client().stream("GET", "/news") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        assert "content-encoding" not in response.headers
        stream = EventStream(response)
        # What came between the page and its ear is not missed.
        assert next(stream.events()).type == "changed"
        yield stream


def test_a_new_job_and_its_end_are_told(api: ApiServer, services: Services, submit_job: Callable[..., str]):
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
