"""What an audit looks at beside TFMA's metrics: each check has a value, a limit where there is one, and an outcome."""
