"""The services that operations use; `redraft.runtime` builds them."""

from collections.abc import Mapping
from dataclasses import dataclass

from redraft.clock import CLOCK, Clock
from redraft.outbound import Sender
from redraft.prompts.profiles import Profiles
from redraft.prompts.template_files import GeneratorTemplate
from redraft.providers.catalog import ProviderCatalog
from redraft.queue import Queue
from redraft.rate_limiter import RateLimiter
from redraft.settings import Settings
from redraft.storage.engine.unit_of_work import Database
from redraft.tracing.job_traces import JobTraces


@dataclass(frozen=True, slots=True)
class Services:
    settings: Settings
    database: Database
    queue: Queue
    limiter: RateLimiter
    providers: ProviderCatalog
    profiles: Profiles
    templates: Mapping[str, GeneratorTemplate]
    """The built-in generator templates and those in REDRAFT_TEMPLATES_DIR, by name."""
    sender: Sender
    traces: JobTraces | None = None
    """Exports the traces of ended jobs; None unless OTEL_EXPORTER_OTLP_ENDPOINT is set."""
    clock: Clock = CLOCK

    def close(self) -> None:
        if self.traces is not None:
            self.traces.close()
        self.providers.close()
        self.limiter.close()
        self.queue.close()
        self.database.close()
