"""Builds, from the settings, the services that every entry point uses."""

from redraft.domain.admin.address_rules import Allowed
from redraft.operations.services import Services
from redraft.outbound import Sender
from redraft.prompts.profiles import load_profiles
from redraft.prompts.template_files import load_templates
from redraft.providers.catalog import ProviderCatalog
from redraft.queue import Queue
from redraft.rate_limiter import RateLimiter
from redraft.redaction import remember
from redraft.settings import Settings
from redraft.storage.engine.unit_of_work import Database
from redraft.tracing.job_traces import open_traces


def build_runtime(settings: Settings, *, database_connections: int = 10, plans_once: bool = False) -> Services:
    """Build the services, which connect on first use. `plans_once` is a parameter of `Database`.

    Raises Invalid if a file in REDRAFT_PROFILES_DIR or REDRAFT_TEMPLATES_DIR is wrong.
    """
    remember(settings.secrets)
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    queue = Queue(settings)
    database = Database(settings.effective_database_url, pool_size=database_connections, plans_once=plans_once)
    return Services(
        settings=settings,
        database=database,
        queue=queue,
        limiter=RateLimiter(settings, queue.notify),
        providers=ProviderCatalog(settings),
        profiles=load_profiles(settings.profiles_dir),
        templates=load_templates(settings.templates_dir),
        sender=Sender(Allowed.parse(settings.webhook_allow_private)),
        traces=open_traces(settings, database),
    )
