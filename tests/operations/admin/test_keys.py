"""API keys: what they open, until when, and how their use is noted."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from sqlalchemy import event, update

from redraft.domain.admin.scopes import DEFAULT_SCOPES, Scope, read, spell
from redraft.errors import Conflict, Forbidden
from redraft.operations.admin import keys
from redraft.operations.services import Services
from redraft.storage.engine.admin_tables import api_keys
from redraft.storage.engine.columns import DbNow


def set_columns(services: Services, key_id: str, **values: Any) -> None:
    with services.database.write() as connection:
        connection.execute(update(api_keys).where(api_keys.c.id == key_id).values(**values))


def last_use(services: Services) -> datetime | None:
    (key,) = keys.list_keys(services)
    return key["last_used_at"]


def test_a_key_opens_what_it_was_made_for(services: Services):
    key, token = keys.create_key(services, "a", [Scope.ADMIN, Scope.READ])
    assert key["scopes"] == ["read", "admin"]
    assert keys.authenticate(services, token) == keys.Caller(
        key["id"], frozenset({Scope.READ, Scope.ADMIN}), key["name"]
    )
    assert keys.authenticate(services, keys.create_key(services, "b")[1]).scopes == DEFAULT_SCOPES


def test_only_the_hash_is_stored(services: Services):
    key, token = keys.create_key(services, "a")
    assert token not in repr(keys.list_keys(services))
    assert len(key["hint"]) == 8
    with services.database.read() as connection:
        (row,) = connection.execute(api_keys.select()).mappings()
    assert token[7:] not in repr(row)
    assert row["token_hash"] == keys.hash_of(token)


@pytest.mark.both_databases
def test_what_is_asked_for_with_the_same_word_is_made_once(services: Services):
    key, token = keys.create_key(services, "a program", once="word")
    with pytest.raises(Conflict, match="its token is shown only once") as refused:
        keys.create_key(services, "a program", once="word")
    assert refused.value.code == "key_made"
    keys.create_key(services, "another program", once="another word")
    assert len(keys.list_keys(services)) == 2
    assert keys.authenticate(services, token).key_id == key["id"]


@pytest.mark.both_databases
def test_a_name_belongs_to_one_valid_key(services: Services):
    key, _ = keys.create_key(services, "a")
    with pytest.raises(Conflict, match="choose another name") as refused:
        keys.create_key(services, "a", once="word")
    assert refused.value.code == "key_name_taken"
    assert len(keys.list_keys(services)) == 1
    keys.revoke_key(services, key["id"])
    keys.create_key(services, "a")


@pytest.mark.both_databases
def test_an_expired_key_opens_nothing(services: Services):
    key, token = keys.create_key(services, "a", lifetime_s=3600)
    assert keys.authenticate(services, token).key_id == key["id"]
    assert keys.list_keys(services)[0]["state"] == "valid"
    set_columns(services, key["id"], expires_at=DbNow(-1))
    with pytest.raises(Forbidden, match="not valid"):
        keys.authenticate(services, token)
    assert keys.list_keys(services)[0]["state"] == "expired"
    keys.revoke_key(services, key["id"])
    assert keys.list_keys(services)[0]["state"] == "revoked"


@pytest.mark.both_databases
def test_the_last_use_is_written_once_a_minute(services: Services):
    key, token = keys.create_key(services, "a")
    writes: list[str] = []

    @event.listens_for(services.database.engine, "before_cursor_execute")
    def count(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("UPDATE"):
            writes.append(statement)

    assert last_use(services) is None
    for _ in range(5):
        keys.authenticate(services, token)
    first = last_use(services)
    assert first is not None
    assert len(writes) == 1
    set_columns(services, key["id"], last_used_at=DbNow(-61))
    keys.authenticate(services, token)
    second = last_use(services)
    assert second is not None
    assert second >= first
    assert len(writes) == 3


def test_a_use_that_cannot_be_noted_turns_nobody_away(make_services: Callable[..., Services]):
    services = make_services()
    _, token = keys.create_key(services, "a")

    @event.listens_for(services.database.engine, "before_cursor_execute", retval=True)
    def break_updates(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> tuple[str, Any]:
        if statement.startswith("UPDATE"):
            raise services.database.engine.dialect.loaded_dbapi.OperationalError("disk is full")
        return statement, parameters

    assert keys.authenticate(services, token).scopes == DEFAULT_SCOPES
    assert last_use(services) is None


def test_scopes_are_spelt_in_one_order_and_unknown_words_open_nothing():
    assert spell([Scope.ADMIN, Scope.READ, Scope.READ]) == "read admin"
    assert read("admin read") == {Scope.ADMIN, Scope.READ}
    assert read("root *") == frozenset()
