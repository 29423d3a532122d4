"""Numbers: metrics, budgets and the comparison that decides."""
