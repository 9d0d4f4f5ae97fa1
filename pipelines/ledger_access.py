"""Where a command finds the ledger, the public keys and the caller's private key: an argument, else the environment, else a default."""

import argparse
import os
from pathlib import Path

from components.core.signing import PASSPHRASE_VARIABLE, PrivateKey, PublicKeys, read_private_key
from pipelines.commands.shared_arguments import home_of

LEDGER_VARIABLE = "TANDEM_LEDGER"
KEYS_VARIABLE = "TANDEM_PUBLIC_KEYS"
KEY_VARIABLE = "TANDEM_KEY"
DEFAULT_KEY = "~/.config/tandem/key.pem"


def add_ledger(parser: argparse.ArgumentParser) -> None:
    """Adds --ledger."""
    parser.add_argument(
        "--ledger",
        metavar="URL",
        default=os.environ.get(LEDGER_VARIABLE),
        help=f"SQLAlchemy URL of the ledger (default: {LEDGER_VARIABLE}, or ledger.db in the home folder)",
    )


def add_keys(parser: argparse.ArgumentParser) -> None:
    """Adds --keys."""
    parser.add_argument(
        "--keys",
        metavar="FILE",
        default=os.environ.get(KEYS_VARIABLE),
        help=f"list of public keys (default: {KEYS_VARIABLE}, or public_keys.json in the home folder)",
    )


def add_key(parser: argparse.ArgumentParser) -> None:
    """Adds --key."""
    parser.add_argument(
        "--key",
        metavar="FILE",
        default=os.environ.get(KEY_VARIABLE, DEFAULT_KEY),
        help=f"your private key (default: {KEY_VARIABLE}, or {DEFAULT_KEY}); its passphrase stands in {PASSPHRASE_VARIABLE}",
    )


def add_signing(parser: argparse.ArgumentParser) -> None:
    """Adds --ledger, --keys and --key: what a command takes that signs an entry."""
    add_ledger(parser)
    add_keys(parser)
    add_key(parser)


def ledger_url(arguments: argparse.Namespace) -> str:
    """URL of the ledger."""
    return str(arguments.ledger or f"sqlite:///{home_of(arguments) / 'ledger.db'}")


def keys_path(arguments: argparse.Namespace) -> Path:
    """File of the public keys."""
    return Path(arguments.keys).expanduser() if arguments.keys else home_of(arguments) / "public_keys.json"


def public_keys(arguments: argparse.Namespace) -> PublicKeys:
    """The enrolled keys."""
    return PublicKeys.read(keys_path(arguments))


def key_path(arguments: argparse.Namespace) -> Path:
    """File of the caller's private key."""
    return Path(arguments.key).expanduser()


def private_key(arguments: argparse.Namespace) -> PrivateKey:
    """The caller's private key."""
    return read_private_key(key_path(arguments))


def passphrase() -> str | None:
    """Of the private key; None where it has none."""
    return os.environ.get(PASSPHRASE_VARIABLE) or None
