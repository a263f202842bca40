"""vLLM, in separate processes or behind addresses, with adapters kept in step."""
