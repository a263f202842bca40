"""Requests and answers over HTTP, as ASGI applications give and take them."""
