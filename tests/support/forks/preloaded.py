"""Computes what is the same in each process, in the server that all others are forked from."""

from pathlib import Path

import httpx2

from api.app import create_app
from redraft.prompts.profiles import load_profiles
from redraft.providers.shared.transport import http_client
from tests.support.processes import GivenSettings

load_profiles(None)
# Reads the certificates of the system
http_client(httpx2.AsyncClient)
# Prepares the routes. The settings are those of this app only
create_app(GivenSettings(data_dir=Path("/nowhere"), broker_url="redis://nowhere"))
