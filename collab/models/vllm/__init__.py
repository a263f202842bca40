"""vLLM, in separate processes or on servers, with adapters kept up to date."""
