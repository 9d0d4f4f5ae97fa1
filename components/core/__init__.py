"""What every stage rests on: contracts, artifact types, errors, files, tracking, registry and lineage."""
