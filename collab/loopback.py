"""Addresses that only this machine reaches."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit


def is_loopback(host: str) -> bool:
    """Return True if a host is `localhost` or a loopback address."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def is_loopback_url(url: str) -> bool:
    """Return True if the host of an address is `localhost` or a loopback address."""
    return is_loopback(urlsplit(url).hostname or "")
