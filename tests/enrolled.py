"""Keys of people and services, and the list that enrols them, for tests."""

from collections.abc import Mapping

from components.core.signing import PrivateKey, PublicKey, PublicKeys, Role

WHEN = "2026-01-01T00:00:00.000000+00:00"


def enrolled(roles: Mapping[str, Role]) -> tuple[dict[str, PrivateKey], PublicKeys]:
    """A new key for each name, and the list; the first name is the root and has to be an admin."""
    keys = {name: PrivateKey.generate() for name in roles}
    root = next(iter(keys.values()))
    entries = [
        PublicKey(public=keys[name].public, owner=name, role=role, enrolled_by=root.key_id, enrolled_at=WHEN).signed_by(root)
        for name, role in roles.items()
    ]
    return keys, PublicKeys(entries)
