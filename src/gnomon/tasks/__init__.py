"""Tasks: data form, split, metrics, a trivial baseline; one leaderboard per task and data space."""
