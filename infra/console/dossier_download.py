"""What is known about one candidate as a zip: its measurements, its card, the ledger's entries about it, and a list of their digests."""

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping, Sequence

from components.core.evidence import CandidateEvidence
from components.core.ledger import Entry, Head, write_export

_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The earliest time a zip can hold; the same content gives the same bytes."""


def dossier_zip(evidence: CandidateEvidence, measurements: Mapping[str, bytes], entries: Sequence[Entry], head: Head) -> bytes:
    """Packs the files.

    Args:
        evidence: as it is now.
        measurements: file name -> bytes as they lie beside the model.
        entries: of the ledger, about this version. They are a part of a chain: only a whole export can be checked with `tandem verify`.
        head: of the ledger now.
    """
    files = {
        **{f"measurements/{name}": content for name, content in measurements.items()},
        "card.md": evidence.version.description.encode(),
        "ledger-entries.jsonl": "".join(write_export(entries)).encode(),
    }
    manifest = {
        "schema_version": 1,
        "subject": evidence.subject.model_dump(mode="json"),
        "author": evidence.author or None,
        "author_vouched": evidence.author_vouched,
        "source": evidence.version.source,
        "ledger_head": head.model_dump(mode="json"),
        "sha256": {name: hashlib.sha256(content).hexdigest() for name, content in sorted(files.items())},
    }
    files["manifest.json"] = (json.dumps(manifest, indent=2, sort_keys=True) + "\n").encode()
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), content, zipfile.ZIP_DEFLATED)
    return written.getvalue()
