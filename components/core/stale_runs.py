"""MLflow runs that a pipeline run left open when it ended."""

import functools

from components.core.contracts import TrackingSpec
from components.core.registry import Registry, equals, explained, pages
from components.core.store_address import store_exists


def reap_runs(tracking: TrackingSpec, pipeline_run_id: str, *, status: str = "KILLED") -> list[str]:
    """Ends the MLflow runs of a pipeline run that ended without ending them; a killed process leaves them RUNNING for ever.

    Args:
        tracking: where they are.
        pipeline_run_id: of the pipeline run, which must not be alive.
        status: `KILLED` or `FAILED`.

    Returns:
        Ids of the runs that were ended.

    Raises:
        StoreError: the store cannot be read or written.
    """
    if not store_exists(tracking):
        return []
    client = Registry(tracking).client
    with explained(tracking.uri):
        experiment = client.get_experiment_by_name(tracking.experiment)
        if experiment is None:
            return []
        query = f"{equals('tags.pipeline_run_id', pipeline_run_id)} AND attributes.status = 'RUNNING'"
        runs = pages(functools.partial(client.search_runs, [experiment.experiment_id], query))
        for run in runs:
            client.set_tag(run.info.run_id, "error", "the process ended before this run did")
            client.set_terminated(run.info.run_id, status=status)
        return [str(run.info.run_id) for run in runs]
