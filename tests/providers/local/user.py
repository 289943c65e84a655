"""`python -m tests.providers.local.user FOLDER`: makes a call to the local model, and uses its server until SIGTERM."""

import signal
import sys
from pathlib import Path

from redraft.domain.calls.model_names import ModelRef
from redraft.providers.catalog import ProviderCatalog
from redraft.providers.shared.protocol import Chat, Message
from redraft.providers.shared.transport import CALLS_LOOP
from redraft.settings import Settings

signal.signal(signal.SIGTERM, lambda *_: None)
ref = ModelRef("local", "smollm2-135m")
catalog = ProviderCatalog(Settings(data_dir=Path(sys.argv[1]), local_context_tokens=512))
made = catalog.get(ref)
chat = Chat(ref, "", (Message("user", "Say hi."),), None, 0.0, 64)
print(bool(CALLS_LOOP.run(made.send(made.wire_body(chat), timeout_s=120)).text), flush=True)  # noqa: T201
signal.pause()
catalog.close()
