"""The router: splits the traffic of each model between champion and canary as the ledger says, and rolls back by itself."""
