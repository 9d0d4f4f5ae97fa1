"""The use case credit_risk: who repays a loan."""
