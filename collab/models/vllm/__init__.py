"""vLLM, in a process of its own or behind addresses, with adapters kept in step."""
