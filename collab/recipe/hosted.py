"""Hosted models and MCP servers, and the addresses at which they are found."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from collab.recipe.base import Spec
from collab.trust.blocking import server_key


def check_address(url: str, name: str, form: str, key: str) -> str:
    """Return `url`, after checking that it is an address. `name` is the option, for messages.

    Raises:
        ValueError: the address does not have the `form`, or contains a secret, e.g. `key`.
    """
    try:
        parts = urlsplit(url)
        whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # its message may quote a part of a password
        whole = False
    if not whole:
        raise ValueError(f"{name} is not an address; write it as {form}")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError(
            f"{name} at {parts.hostname} has more than host, port and path; {key} comes from the"
            " environment, because runs record the recipe"
        )
    return url.rstrip("/")


def _check_key_variable(key: str) -> str:
    if not re.fullmatch(r"([A-Z_][A-Z0-9_]*_)?API_KEY", key):
        raise ValueError(
            "key is the name of an environment variable that ends in _API_KEY, e.g."
            " OPENAI_API_KEY; collab reads no other variable, because it sends the value to the"
            " address"
        )
    return key


KeyVariable = Annotated[str, AfterValidator(_check_key_variable)]
"""The name of an environment variable that holds a key."""


class HostedSpec(Spec):
    """A model that a service hosts."""

    default_url: ClassVar[str]
    url_variable: ClassVar[str]
    """The environment variable that replaces the usual address."""
    needs_key: ClassVar[bool] = False
    """True if other servers of the service's API need a key too."""

    name: str
    base_url: str | None = None
    seconds: float = Field(default=120.0, gt=0)
    """Time limit of one attempt, in seconds."""
    retries: int = Field(default=4, ge=0)
    """Further attempts after 429, 5xx, overload or a dropped connection, with backoff."""
    concurrency: int = Field(default=8, ge=1)
    """Largest number of requests in flight at the same time."""
    cost_limit: float | None = Field(default=None, gt=0)
    """US dollars that this model may spend in one run."""

    @property
    def url(self) -> str:
        """The address that requests go to. One from the environment is not checked."""
        return self.base_url or os.environ.get(self.url_variable) or self.default_url

    @field_validator("base_url")
    @classmethod
    def _check_url(cls, url: str | None) -> str | None:
        if url is not None:
            url = check_address(url, "base_url", "http://HOST:PORT/v1", "its key")
        return url


class AnthropicSpec(HostedSpec):
    """Claude, through the Messages API. The key comes from ANTHROPIC_API_KEY."""

    default_url = "https://api.anthropic.com"
    url_variable = "ANTHROPIC_BASE_URL"
    key: ClassVar[str] = "ANTHROPIC_API_KEY"
    needs_key = True

    engine: Literal["anthropic"] = "anthropic"
    name: str = "claude-sonnet-4-6"
    base_url: str | None = None
    """Another address that speaks the Messages API. Default: ANTHROPIC_BASE_URL or Anthropic's."""
    input_price: float = Field(default=3.0, ge=0)
    """US dollars per million prompt tokens. The default is the price of claude-sonnet-4-6."""
    output_price: float = Field(default=15.0, ge=0)
    """US dollars per million new tokens. The default is the price of claude-sonnet-4-6."""


class OpenAISpec(HostedSpec):
    """A model on any server with OpenAI's chat completions API: vLLM, llama.cpp, Ollama, ..."""

    default_url = "https://api.openai.com/v1"
    url_variable = "OPENAI_BASE_URL"

    engine: Literal["openai"] = "openai"
    name: str
    """The model's name on the server. `URL#NAME` sets `base_url` too."""
    base_url: str | None = None
    """The server's address, e.g. http://localhost:8000/v1. Default: OPENAI_BASE_URL or OpenAI's."""
    key: KeyVariable = "OPENAI_API_KEY"
    """The environment variable that holds the key, `..._API_KEY`. Local servers need none."""
    tokens: bool = False
    """Record token ids and log-probabilities. vLLM and llama.cpp return both, but other servers
    refuse."""
    input_price: float | None = Field(default=None, ge=0)
    """US dollars per million prompt tokens."""
    output_price: float | None = Field(default=None, ge=0)
    """US dollars per million new tokens."""

    @model_validator(mode="before")
    @classmethod
    def _split_name(cls, data: Any) -> Any:
        name = data.get("name") if isinstance(data, dict) else None
        if not isinstance(name, str) or ("#" not in name and "://" not in name):
            return data
        url, _, model = name.partition("#")
        if not url.startswith(("http://", "https://")):
            raise ValueError("the address must begin with http:// or https://")
        if not model:
            raise ValueError("the address has no model; write openai:URL#MODEL")
        if data.get("base_url", url) != url:
            raise ValueError("base_url is given twice: as a key, and in the name")
        return {**data, "name": model, "base_url": url}

    def _faults(self) -> Iterator[str]:
        if self.cost_limit is not None and None in (self.input_price, self.output_price):
            yield "cost_limit needs input_price and output_price; set both"


AnyHostedSpec = AnthropicSpec | OpenAISpec
"""Every kind of hosted model."""


class MCPServer(Spec):
    """An MCP server: a command to run, or an address. Needs the extra `mcp`."""

    mcp: tuple[str, ...] | str
    """The command that starts the server, word by word, e.g. `[python, server.py]`, or the address
    of a running server, e.g. `http://localhost:8000/mcp` (streamable HTTP)."""
    only: tuple[str, ...] | None = None
    """The tools that the agent may call. Default: all tools of the server."""
    environment: tuple[str, ...] = ()
    """Names of environment variables that the command gets, in addition to PATH, HOME and similar
    ones."""
    key: KeyVariable | None = None
    """The environment variable, `..._API_KEY`, that holds the key for an address."""
    seconds: float = Field(default=30.0, gt=0)
    """Seconds that the server may take to start and list its tools."""

    @property
    def command_words(self) -> tuple[str, ...]:
        """The command, or the address alone."""
        return (self.mcp,) if isinstance(self.mcp, str) else self.mcp

    @property
    def approval_key(self) -> str:
        """The server's key in `collab.trust.blocking`."""
        return server_key(self.mcp, (self.key,) if self.key else self.environment)

    def __str__(self) -> str:
        return f"mcp {self.mcp if isinstance(self.mcp, str) else shlex.join(self.mcp)}"

    @field_validator("mcp")
    @classmethod
    def _check_mcp(cls, mcp: tuple[str, ...] | str) -> tuple[str, ...] | str:
        if not mcp or not all(mcp):
            raise ValueError("mcp is empty; give a command, [python, server.py], or an address")
        if isinstance(mcp, tuple):
            return mcp
        if not mcp.startswith(("http://", "https://")):
            raise ValueError(
                f"mcp is not an address; write a command word by word: [{', '.join(mcp.split())}]"
            )
        return check_address(mcp, "mcp", "http://HOST:PORT/mcp", "its key")

    def _faults(self) -> Iterator[str]:
        if isinstance(self.mcp, str) and self.environment:
            yield "environment works with a command only; for an address, set key"
        if isinstance(self.mcp, tuple) and self.key:
            yield "key works with an address only; for a command, set environment"


def _parse_tool(value: Any) -> Any:
    if isinstance(value, str | MCPServer):
        return value
    if not isinstance(value, dict) or "mcp" not in value:
        raise ValueError("a tool is a name, file.py:function, or {mcp: [COMMAND, ...]}")
    return MCPServer.model_validate(value)


ToolName = Annotated[str | MCPServer, BeforeValidator(_parse_tool)]
"""A tool of an agent, or a server with several tools."""
