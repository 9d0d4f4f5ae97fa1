import json

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from components.core.errors import ConfigError
from components.core.signing import PrivateKey, PublicKey, PublicKeys, Revocation, canonical, key_id_of, signature_holds

DAY_1, DAY_2, DAY_3 = (f"2026-01-0{day}T00:00:00+00:00" for day in (1, 2, 3))


def public(key, owner, role, *, admin=None, at=DAY_1):
    """An entry of the list, enrolled by `admin` (by itself where None)."""
    entry = PublicKey(public=key.public, owner=owner, role=role, enrolled_by="0" * 16, enrolled_at=at)
    return entry.signed_by(admin or key)


def end_of(key, *, admin, at):
    """The revocation of a key."""
    return Revocation(key_id=key.key_id, revoked_by="0" * 16, revoked_at=at).signed_by(admin)


@pytest.fixture
def admin():
    return PrivateKey.generate()


@pytest.fixture
def person():
    return PrivateKey.generate()


def test_a_signature_is_ed25519_as_another_library_reads_it(person):
    signature = person.sign(b"words")
    Ed25519PublicKey.from_public_bytes(bytes.fromhex(person.public)).verify(bytes.fromhex(signature), b"words")
    assert signature_holds(person.public, signature, b"words")


@pytest.mark.parametrize("signature", ["", "00", "zz" * 64, "0" * 128])
def test_what_is_no_signature_does_not_hold(person, signature):
    assert not signature_holds(person.public, signature, b"words")
    assert not signature_holds(person.public, person.sign(b"words"), b"other words")
    assert not signature_holds("ff" * 32, person.sign(b"words"), b"words")


def test_the_known_answer_of_rfc_8032():
    """Test 2 of section 7.1: a message of one byte."""
    public_key = "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
    signature = (
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
    )
    assert signature_holds(public_key, signature, b"\x72")
    assert key_id_of("00" * 32) == "66687aadf862bd77"  # SHA-256 of 32 zero bytes begins so


def test_the_signed_form_is_one():
    assert canonical({"b": [1, "ü"], "a": None}) == b'{"a":null,"b":[1,"\\u00fc"]}'
    with pytest.raises(ValueError, match="JSON compliant"):
        canonical(float("nan"))


@pytest.mark.parametrize("passphrase", [None, "long and secret"])
def test_a_private_key_is_kept_for_its_owner(tmp_path, person, passphrase):
    path = tmp_path / "keys" / "person.pem"
    person.write(path, passphrase=passphrase)
    assert path.stat().st_mode & 0o777 == 0o600
    assert PrivateKey.read(path, passphrase=passphrase).public == person.public
    with pytest.raises(ConfigError, match="never written over"):
        PrivateKey.generate().write(path)
    path.chmod(0o640)
    with pytest.raises(ConfigError, match=r"mode 640.*chmod 600"):
        PrivateKey.read(path, passphrase=passphrase)


def test_keys_that_cannot_be_read_are_told(tmp_path, person):
    with pytest.raises(ConfigError, match=r"cannot be read.*tandem keys new"):
        PrivateKey.read(tmp_path / "nothing.pem")
    person.write(tmp_path / "locked.pem", passphrase="right")
    for passphrase in (None, "wrong"):
        with pytest.raises(ConfigError, match="passphrase"):
            PrivateKey.read(tmp_path / "locked.pem", passphrase=passphrase)
    junk = tmp_path / "junk.pem"
    junk.write_text("junk")
    junk.chmod(0o600)
    with pytest.raises(ConfigError, match="no private key"):
        PrivateKey.read(junk)


def test_the_list_survives_its_file(tmp_path, admin, person):
    listed = PublicKeys([public(admin, "ada", "admin")]).with_key(public(person, "ben", "person", admin=admin))
    listed = listed.with_end(end_of(person, admin=admin, at=DAY_2)).with_end(end_of(person, admin=admin, at=DAY_3))
    listed.write(tmp_path / "keys.json")
    keys = PublicKeys.read(tmp_path / "keys.json")
    assert keys.revocations[person.key_id].revoked_at == DAY_2  # the first end stays
    assert keys.root == admin.key_id
    assert {key.owner: key.role for key in keys.keys.values()} == {"ada": "admin", "ben": "person"}
    assert keys.known("0" * 16) is None


def test_only_an_admin_before_it_enrols_a_key(admin, person):
    stranger = PrivateKey.generate()
    root = public(admin, "ada", "admin")
    enrolled = public(person, "ben", "person", admin=admin)
    for entry in (
        public(stranger, "eve", "person"),  # by itself
        public(stranger, "eve", "person", admin=person),  # by a person who is no admin
        enrolled.model_copy(update={"role": "admin"}),  # changed after it was signed
        enrolled.model_copy(update={"owner": "ada"}),
        enrolled.model_copy(update={"enrolled_by": person.key_id}),
    ):
        with pytest.raises(ConfigError, match=r"entry 3 \(\w+\) was not enrolled by an admin before it"):
            PublicKeys([root, enrolled, entry])
    with pytest.raises(ConfigError, match="entry 1"):
        PublicKeys([enrolled])


def test_an_admin_whose_key_was_revoked_enrols_no_more(admin, person):
    second = PrivateKey.generate()
    admins = [public(admin, "ada", "admin"), public(second, "sue", "admin", admin=admin)]
    end = end_of(second, admin=admin, at=DAY_2)
    with pytest.raises(ConfigError, match=r"entry 3 \(ben\) was enrolled by a key not valid then"):
        PublicKeys([*admins, public(person, "ben", "person", admin=second, at=DAY_3)], [end])
    assert len(PublicKeys([*admins, public(person, "ben", "person", admin=second, at=DAY_1)], [end]).keys) == 3


def test_only_an_admin_ends_a_key(admin, person):
    entries = [public(admin, "ada", "admin"), public(person, "ben", "person", admin=admin)]
    good = end_of(admin, admin=admin, at=DAY_2)
    for end in (
        end_of(admin, admin=person, at=DAY_2),
        end_of(PrivateKey.generate(), admin=admin, at=DAY_2),
        good.model_copy(update={"revoked_at": DAY_3}),
        good.model_copy(update={"key_id": person.key_id}),
    ):
        with pytest.raises(ConfigError, match=f"the revocation of key {end.key_id} was not signed by an admin"):
            PublicKeys(entries, [end])


def test_a_key_counts_from_its_enrolment_to_its_revocation(admin):
    keys = PublicKeys([public(admin, "ada", "admin", at=DAY_2)], [end_of(admin, admin=admin, at=DAY_3)])
    moments = (DAY_1, DAY_2, "2026-01-02T23:59:59.999999+00:00", DAY_3)
    assert [keys.valid_at(admin.key_id, moment) for moment in moments] == [False, True, True, False]
    # half past midnight in Berlin is the day before in UTC
    assert not keys.valid_at(admin.key_id, "2026-01-02T00:30:00+01:00")
    assert not keys.valid_at("0" * 16, DAY_2)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"keys": 3}', '{"keys": [{}]}', '{"keys": [{"public": 1}]}', "\x00"])
def test_a_file_that_is_no_list_is_told(tmp_path, content):
    (tmp_path / "keys.json").write_text(content)
    with pytest.raises(ConfigError, match="no list of public keys"):
        PublicKeys.read(tmp_path / "keys.json")


def test_a_list_that_is_not_there_names_the_remedy(tmp_path):
    with pytest.raises(ConfigError, match="tandem keys init"):
        PublicKeys.read(tmp_path / "keys.json")
    (tmp_path / "empty.json").write_text(json.dumps({"keys": [], "revocations": []}))
    assert PublicKeys.read(tmp_path / "empty.json").root == ""
