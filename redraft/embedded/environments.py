"""The environment under which a child has the same settings as we have, wherever ours came from."""

import json
import os
from typing import Any

from pydantic import SecretStr

from redraft.settings import Settings


def environment_for_child(settings: Settings) -> dict[str, str]:
    """Ours, and on top what this process was told otherwise: by options, or in code."""
    plain = Settings()
    changed = {
        name: _as_text(settings, name)
        for name in Settings.model_fields
        if getattr(settings, name) != getattr(plain, name)
    }
    # Set it explicitly: an empty variable counts as unset, and a `.env` file would decide.
    changed |= {
        "data_dir": str(settings.data_dir.absolute()),
        "broker_url": settings.effective_broker_url,
        "database_url": settings.effective_database_url,
    }
    return {**os.environ, **{f"REDRAFT_{name.upper()}": text for name, text in changed.items()}}


def _as_text(settings: Settings, name: str) -> str:
    value: Any = getattr(settings, name)
    if value is None:
        return ""
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    plain = settings.model_dump(mode="json", include={name})[name]
    return plain if isinstance(plain, str) else json.dumps(plain)
