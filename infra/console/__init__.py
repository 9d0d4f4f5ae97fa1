"""The approval pages inside the MLflow server: `mlflow server --app-name tandem`."""
