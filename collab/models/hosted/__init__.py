"""Models behind a provider's address: Claude, and servers that speak OpenAI's protocol."""
