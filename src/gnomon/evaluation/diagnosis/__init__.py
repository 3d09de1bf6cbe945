"""What is wrong with a result, and what to do: small checks, each of which claims only what it has computed."""
