"""Models at a provider's address: Claude, and servers with OpenAI's API."""
