"""Keys that sign the ledger, and the list of public keys that says whose they are.

A private key is one file that only its owner can read. The list of public keys is a file of its own, outside the ledger's database: who can
write the database still cannot make a key count. Its first entry is an admin's own signature, the root; every other key was enrolled by an
admin, whose signature stands beside it. Ed25519 (RFC 8032) throughout; a key's id is the first 16 hexadecimal digits of the SHA-256 of its
32 public bytes.
"""

import datetime
import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, Self

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from pydantic import Field, ValidationError

from components.core.contracts import Contract
from components.core.errors import ConfigError
from components.core.files import write_bytes

Role = Literal["admin", "person", "service"]
"""An admin enrols and revokes keys; a person decides on the command line; the service vouches for a login in the console."""
PASSPHRASE_VARIABLE = "TANDEM_KEY_PASSPHRASE"  # noqa: S105 - the name of a variable, no secret
_ENROLMENT = b"tandem enrolment v1\n"
_REVOCATION = b"tandem revocation v1\n"
_KEY_ID = r"^[0-9a-f]{16}$"
_SIGNATURE = r"^([0-9a-f]{128})?$"
_KEYS_FILE_BYTES = 4_000_000


class PrivateKey:
    """A key that signs.

    Attributes:
        key_id: 16 hexadecimal digits.
        public: 32 bytes as 64 hexadecimal digits.
    """

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public = key.public_key().public_bytes_raw().hex()
        self.key_id = key_id_of(self.public)

    @classmethod
    def generate(cls) -> Self:
        """A new key."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def read(cls, path: Path, *, passphrase: str | None = None) -> Self:
        """Reads what `write` wrote.

        Raises:
            ConfigError: there is no such file, others can read it, it is no Ed25519 key, or the passphrase is wrong.
        """
        try:
            mode, content = path.stat().st_mode, path.read_bytes()
        except OSError as error:
            raise ConfigError(f"{path}: the private key cannot be read ({error.strerror}); make one by `tandem keys new`") from error
        if mode & 0o077:
            raise ConfigError(f"{path}: others than its owner can read this private key (mode {mode & 0o777:o}); chmod 600 it")
        try:
            key = serialization.load_pem_private_key(content, passphrase.encode() if passphrase else None)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise ConfigError(f"{path}: no private key, or its passphrase is not the one given (TANDEM_KEY_PASSPHRASE)") from error
        if not isinstance(key, Ed25519PrivateKey):
            raise ConfigError(f"{path}: not an Ed25519 key; make one by `tandem keys new`")
        return cls(key)

    def write(self, path: Path, *, passphrase: str | None = None) -> None:
        """Writes PKCS #8 in PEM, mode 600, encrypted where there is a passphrase; an existing file is never replaced.

        Raises:
            ConfigError: the file exists.
        """
        how = serialization.BestAvailableEncryption(passphrase.encode()) if passphrase else serialization.NoEncryption()
        content = self._key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, how)
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError as error:
            raise ConfigError(f"{path} exists; a private key is never written over: name another file") from error
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    def sign(self, message: bytes) -> str:
        """The signature, 64 bytes as 128 hexadecimal digits."""
        return self._key.sign(message).hex()


def key_id_of(public: str) -> str:
    """Id of a public key given as 64 hexadecimal digits."""
    return hashlib.sha256(bytes.fromhex(public)).hexdigest()[:16]


def signature_holds(public: str, signature: str, message: bytes) -> bool:
    """Whether `signature` is that of `message` by the key; malformed keys and signatures do not hold."""
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(bytes.fromhex(signature), message)
    except (InvalidSignature, ValueError):
        return False
    return True


def canonical(content: object) -> bytes:
    """JSON in the one form that is signed: keys sorted, no spaces, ASCII."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode("ascii")


def read_private_key(path: Path) -> PrivateKey:
    """Reads a private key; its passphrase stands in TANDEM_KEY_PASSPHRASE where it has one.

    Raises:
        ConfigError: see PrivateKey.read.
    """
    return PrivateKey.read(path, passphrase=os.environ.get(PASSPHRASE_VARIABLE) or None)


class PublicKey(Contract):
    """A public key and whose it is.

    Attributes:
        public: 32 bytes, hexadecimal.
        owner: the name that stands in the ledger: a person's login, or the service's name.
        enrolled_by: id of the admin key that signed this; the root signed itself.
        enrolled_at: what was signed before does not count. UTC, ISO 8601.
        signature: by `enrolled_by`, over all other fields.
    """

    public: str = Field(pattern=r"^[0-9a-f]{64}$")
    owner: str = Field(min_length=1, max_length=200)
    role: Role
    enrolled_by: str = Field(pattern=_KEY_ID)
    enrolled_at: str
    signature: str = Field(default="", pattern=_SIGNATURE)

    @property
    def key_id(self) -> str:
        """Its id."""
        return key_id_of(self.public)

    def message(self) -> bytes:
        """What the admin signs."""
        return _ENROLMENT + canonical(self.model_dump(mode="json", exclude={"signature"}))

    def signed_by(self, admin: PrivateKey) -> "PublicKey":
        """The same entry, enrolled by `admin`."""
        entry = self.model_copy(update={"enrolled_by": admin.key_id, "signature": ""})
        return entry.model_copy(update={"signature": admin.sign(entry.message())})


class Revocation(Contract):
    """The end of a key.

    Attributes:
        key_id: of the key that ends.
        revoked_by: id of the admin key that signed this.
        revoked_at: what the key signs from here on does not count. UTC, ISO 8601.
        signature: by `revoked_by`, over all other fields.
    """

    key_id: str = Field(pattern=_KEY_ID)
    revoked_by: str = Field(pattern=_KEY_ID)
    revoked_at: str
    signature: str = Field(default="", pattern=_SIGNATURE)

    def message(self) -> bytes:
        """What the admin signs."""
        return _REVOCATION + canonical(self.model_dump(mode="json", exclude={"signature"}))

    def signed_by(self, admin: PrivateKey) -> "Revocation":
        """The same, signed by `admin`."""
        entry = self.model_copy(update={"revoked_by": admin.key_id, "signature": ""})
        return entry.model_copy(update={"signature": admin.sign(entry.message())})


class PublicKeys:
    """The enrolled keys; a list of which any signature does not hold is refused whole.

    Attributes:
        keys: id -> key, in the order of their enrolment.
        revocations: id of a key -> its end.
        root: id of the first admin's key; empty for an empty list.
    """

    def __init__(
        self, entries: Iterable[PublicKey], revocations: Iterable[Revocation] = (), *, where: str = "the list of public keys"
    ) -> None:
        """Checks each enrolment and revocation against the admins.

        Raises:
            ConfigError: a signature does not hold; its entry is named.
        """
        self.keys: dict[str, PublicKey] = {}
        self.revocations: dict[str, Revocation] = {}
        self.root = ""
        ends = list(revocations)
        for number, entry in enumerate(entries, 1):
            admin = entry if number == 1 else self.keys.get(entry.enrolled_by)
            if not _signed_by_admin(entry, admin, by=entry.enrolled_by):
                raise ConfigError(f"{where}: entry {number} ({entry.owner}) was not enrolled by an admin before it; restore the file")
            self.root = self.root or entry.key_id
            self.keys[entry.key_id] = entry
        for end in ends:
            if end.key_id not in self.keys or not _signed_by_admin(end, self.keys.get(end.revoked_by), by=end.revoked_by):
                raise ConfigError(f"{where}: the revocation of key {end.key_id} was not signed by an admin; restore the file")
            self.revocations[end.key_id] = end
        for number, entry in enumerate(list(self.keys.values())[1:], 2):
            if not self.valid_at(entry.enrolled_by, entry.enrolled_at):
                raise ConfigError(f"{where}: entry {number} ({entry.owner}) was enrolled by a key not valid then; restore the file")

    @classmethod
    def read(cls, path: Path) -> Self:
        """Reads the file.

        Raises:
            ConfigError: it is not there, is not such a list, or a signature in it does not hold.
        """
        try:
            if path.stat().st_size > _KEYS_FILE_BYTES:
                raise ConfigError(f"{path}: more than {_KEYS_FILE_BYTES} bytes; this is no list of public keys")
            content = json.loads(path.read_text(encoding="utf-8"))
            entries = [PublicKey.model_validate_json(json.dumps(entry)) for entry in content["keys"]]
            ends = [Revocation.model_validate_json(json.dumps(entry)) for entry in content["revocations"]]
        except OSError as error:
            raise ConfigError(f"{path}: the public keys cannot be read ({error.strerror}); begin a list by `tandem keys init`") from error
        except (ValueError, ValidationError, KeyError, TypeError) as error:
            raise ConfigError(f"{path}: no list of public keys ({type(error).__name__}); restore the file") from error
        return cls(entries, ends, where=str(path))

    def write(self, path: Path) -> None:
        """Writes the file, whole or not at all."""
        content = {
            "schema_version": 1,
            "keys": [entry.model_dump(mode="json") for entry in self.keys.values()],
            "revocations": [entry.model_dump(mode="json") for entry in self.revocations.values()],
        }
        write_bytes(path, (json.dumps(content, indent=1, sort_keys=True) + "\n").encode())

    def with_key(self, entry: PublicKey) -> "PublicKeys":
        """The list and one more key."""
        return PublicKeys([*self.keys.values(), entry], self.revocations.values())

    def with_end(self, end: Revocation) -> "PublicKeys":
        """The list and the end of one key; an earlier end of the same key stays."""
        return PublicKeys(self.keys.values(), [end, *self.revocations.values()])

    def known(self, key_id: str) -> PublicKey | None:
        """The key of this id."""
        return self.keys.get(key_id)

    def valid_at(self, key_id: str, moment: str) -> bool:
        """Whether what this key signed at `moment` (UTC, ISO 8601) counts."""
        key, end = self.keys.get(key_id), self.revocations.get(key_id)
        if key is None:
            return False
        at = datetime.datetime.fromisoformat(moment)
        begun = datetime.datetime.fromisoformat(key.enrolled_at) <= at
        return begun and (end is None or at < datetime.datetime.fromisoformat(end.revoked_at))


def _signed_by_admin(entry: PublicKey | Revocation, admin: PublicKey | None, *, by: str) -> bool:
    known = admin is not None and admin.role == "admin" and admin.key_id == by
    return known and admin is not None and signature_holds(admin.public, entry.signature, entry.message())
