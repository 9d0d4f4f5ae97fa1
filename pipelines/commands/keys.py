"""`tandem keys`: personal keys, and the list of public keys that an admin signs."""

import argparse
import datetime
import sys
from collections.abc import Callable
from pathlib import Path

from components.core.errors import ConfigError
from components.core.files import write_bytes
from components.core.signing import PrivateKey, PublicKey, PublicKeys, Revocation, key_id_of
from pipelines.commands.shared_arguments import add_home, add_json, print_json
from pipelines.ledger_access import add_key, add_keys, key_path, keys_path, passphrase, private_key, public_keys
from pipelines.text_layout import printable, write_text

ROLES = ("person", "service", "admin")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    new = actions.add_parser("new", help="make a private key for yourself and print its public half")
    add_key(new)
    init = actions.add_parser("init", help="begin the list of public keys with your own key as its root")
    init.add_argument("owner", metavar="NAME", help="your name as it will stand in the ledger")
    enrol = actions.add_parser("enrol", help="put somebody's public key on the list (admins only)")
    enrol.add_argument("owner", metavar="NAME", help="the login or name as it will stand in the ledger")
    enrol.add_argument("public", metavar="PUBLIC", help="the .pub file that `tandem keys new` wrote, or its 64 hexadecimal digits")
    enrol.add_argument("--role", choices=ROLES, default="person", help="what the key may do (default: %(default)s)")
    revoke = actions.add_parser("revoke", help="end a key: what it signs from now on does not count (admins only)")
    revoke.add_argument("key_id", metavar="KEY_ID", help="as `tandem keys list` shows it")
    shown = actions.add_parser("list", help="show the list")
    for action in (new, init, enrol, revoke, shown):
        add_json(action)
    for action in (init, enrol, revoke, shown):
        add_keys(action)
        add_home(action)
    for action in (init, enrol, revoke):
        add_key(action)


def execute(arguments: argparse.Namespace) -> int:
    """Does one action."""
    actions: dict[str, Callable[[argparse.Namespace], None]] = {
        "new": _new,
        "init": _init,
        "enrol": _enrol,
        "revoke": _revoke,
        "list": _list,
    }
    actions[arguments.action](arguments)
    return 0


def _say(*lines: str) -> None:
    write_text(sys.stdout, "\n".join(lines) + "\n")


def _tell(arguments: argparse.Namespace, *lines: str) -> None:
    """What became of the list: for people what changed, for programs the list as it is now."""
    if arguments.json:
        _list(arguments)
    else:
        _say(*lines)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")


def _new(arguments: argparse.Namespace) -> None:
    key, path = PrivateKey.generate(), key_path(arguments)
    key.write(path, passphrase=passphrase())
    public = path.with_name(f"{path.name}.pub")
    write_bytes(public, f"{key.public}\n".encode())
    if arguments.json:
        print_json({"schema_version": 1, "key_id": key.key_id, "public": key.public, "private_file": str(path), "public_file": str(public)})
        return
    _say(
        f"made {path}; keep it to yourself",
        f"public key: {key.public}",
        f"key id: {key.key_id}",
        f"an admin enrols it by `tandem keys enrol NAME {public}`",
    )


def _init(arguments: argparse.Namespace) -> None:
    path = _list_path(arguments)
    if path.exists():
        raise ConfigError(f"{path} exists; a list of public keys is begun once: enrol further keys with `tandem keys enrol`")
    key = private_key(arguments)
    root = PublicKey(public=key.public, owner=arguments.owner, role="admin", enrolled_by=key.key_id, enrolled_at=_now())
    PublicKeys([root.signed_by(key)]).write(path)
    _tell(
        arguments,
        f"began {path} with {arguments.owner} as admin",
        f"root key id: {key.key_id}; write it down, whoever verifies compares it",
    )


def _list_path(arguments: argparse.Namespace) -> Path:
    """The file; a home that is not there yet is made: keys may come before the first run."""
    if not arguments.keys:
        Path(arguments.home).expanduser().mkdir(parents=True, exist_ok=True)
    return keys_path(arguments)


def _enrol(arguments: argparse.Namespace) -> None:
    keys, admin = public_keys(arguments), private_key(arguments)
    _require_admin(keys, admin)
    public = _public(arguments.public)
    if len(public) != 64 or set(public) - set("0123456789abcdef"):
        raise ConfigError(f"{arguments.public!r} is no public key; give the 64 hexadecimal digits that `tandem keys new` printed")
    if keys.known(key_id_of(public)):
        raise ConfigError(f"key {key_id_of(public)} is on the list already; make another by `tandem keys new --key FILE`")
    entry = PublicKey(public=public, owner=arguments.owner, role=arguments.role, enrolled_by=admin.key_id, enrolled_at=_now())
    keys.with_key(entry.signed_by(admin)).write(keys_path(arguments))
    _tell(arguments, f"enrolled {arguments.owner} ({arguments.role}), key {entry.key_id}")


def _public(given: str) -> str:
    """64 hexadecimal digits, given as they are or by the file that holds them."""
    path = Path(given).expanduser()
    if path.is_file() and path.stat().st_size < 1000:
        return path.read_text(encoding="utf-8", errors="replace").strip().lower()
    return given.lower()


def _revoke(arguments: argparse.Namespace) -> None:
    keys, admin = public_keys(arguments), private_key(arguments)
    _require_admin(keys, admin)
    entry = keys.known(arguments.key_id)
    if entry is None:
        raise ConfigError(f"no key {arguments.key_id!r} on the list; `tandem keys list` shows them")
    if entry.key_id == keys.root:
        raise ConfigError(f"key {entry.key_id} is the root of the list; begin a new list with `tandem keys init --keys FILE`")
    changed = keys.with_end(Revocation(key_id=entry.key_id, revoked_by=admin.key_id, revoked_at=_now()).signed_by(admin))
    changed.write(keys_path(arguments))
    ended = changed.revocations[entry.key_id].revoked_at
    _tell(arguments, f"revoked key {entry.key_id} of {entry.owner} at {ended}; what it signed before still counts")


def _require_admin(keys: PublicKeys, key: PrivateKey) -> None:
    known = keys.known(key.key_id)
    if known is None or known.role != "admin" or not keys.valid_at(key.key_id, _now()):
        raise ConfigError(f"key {key.key_id} is no valid admin key of the list; an admin does this, with --key")


def _list(arguments: argparse.Namespace) -> None:
    keys = public_keys(arguments)
    if arguments.json:
        entries = [
            {"key_id": entry.key_id, "revoked_at": _end(keys, entry), **entry.model_dump(mode="json")} for entry in keys.keys.values()
        ]
        print_json({"schema_version": 1, "root": keys.root, "keys": entries})
        return
    for entry in keys.keys.values():
        end = _end(keys, entry)
        ended = f"revoked {end[:19]}Z" if end else "valid"
        root = ", root" if entry.key_id == keys.root else ""
        _say(f"{entry.key_id}  {entry.role:<8} {printable(entry.owner)}  {ended}{root}")


def _end(keys: PublicKeys, entry: PublicKey) -> str | None:
    end = keys.revocations.get(entry.key_id)
    return end.revoked_at if end else None
