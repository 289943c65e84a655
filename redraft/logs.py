"""Writes structured log lines to stderr: coloured on a terminal, otherwise JSON.

No line contains a secret, or a text of users or models.
"""

import logging
import sys
from types import TracebackType
from typing import Any

import structlog

from redraft.redaction import redact_values

# These loggers write a line for each request or task, so only their warnings and errors are logged
_CHATTY = (
    *("httpx2", "httpcore2", "openai", "anthropic", "alembic", "mcp"),
    *("celery.app.trace", "celery.worker.strategy"),
)


def configure_logs(level: str, log_format: str) -> None:
    """Configure the loggers of Redraft and of libraries, once per process."""
    is_console = log_format == "console" or (log_format == "auto" and sys.stderr.isatty())
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _redact_event,
    ]
    renderer = structlog.dev.ConsoleRenderer() if is_console else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(processor=renderer, foreign_pre_chain=shared))
    logging.basicConfig(handlers=[handler], level=level, force=True)
    sys.excepthook = _log_crash
    for chatty in _CHATTY:
        logging.getLogger(chatty).setLevel(max(logging.WARNING, logging.getLevelNamesMapping()[level]))


def _log_crash(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Log an uncaught exception without secrets. The traceback that Python prints may contain secrets."""
    if issubclass(kind, Exception):
        structlog.get_logger().critical("crashed", exc_info=(kind, error, trace))
    else:
        sys.__excepthook__(kind, error, trace)


def _redact_event(_logger: Any, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    # This processor runs after tracebacks became text, and before the renderer, whose escapes would hide secrets.
    # Names that begin with an underscore are structlog's own. They are not written.
    return {
        name: value if name.startswith("_") else redact_values({name: value})[name] for name, value in event.items()
    }
