"""The stages of the pipelines, one folder each, and the core that they share.

Artifact types are found here by name (`components.ParityReport`), because Kubeflow names a type as `package.Class` and imports it so.
"""

from typing import Any


def __getattr__(name: str) -> Any:
    """Finds an artifact type when it is asked for, so that importing a stage does not import tfx.

    Raises:
        AttributeError: no artifact type has that name.
    """
    if name.startswith("_") or not name[:1].isupper():
        raise AttributeError(name)
    from components.core import artifacts

    return getattr(artifacts, name)
