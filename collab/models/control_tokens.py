"""Ensures that only the chat template produces control tokens: message text stays text.

A tokenizer recognizes control tokens, such as `<|im_end|>`, wherever they are spelled. A chat is
therefore tokenized a second time with blank messages. If that gives the same control tokens, the
tokens of `apply_chat_template` are used. Otherwise a message spells one, alone or together with its
surroundings. The chat is then rendered with that message masked, the template's control tokens are
renamed, and the mask is lifted. A copy of the tokenizer, which knows control tokens only by their
new names, tokenizes the result.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

from collab.errors import ModelError
from collab.models.chat_template import TemplateItem, render

MASK_RANGES = range(0xF0000, 0xFFFFE), range(0x100000, 0x10FFFE)
"""Private-use characters, which have no meaning and occur in no template."""
BLANK = chr(MASK_RANGES[0].start)

TOOL_FIELDS = ("tool_calls", "tool_call_id", "name")
"""Fields of a message that templates write in addition to its content."""
SCHEMA_WORDS = {
    *("type", "string", "integer", "number", "boolean", "null", "object", "array", "enum", "anyOf"),
    *("properties", "required", "items", "additionalProperties", "title", "default"),
    *("id", "function", "name", "description", "parameters", "arguments"),
}
"""Words that templates look for in a tool's description. Masks never hide them."""


@dataclass(frozen=True)
class Chat:
    """Messages and tools, in the form that a chat template takes. Blanks or masks can hide their
    strings from the tokenizer."""

    messages: Sequence[TemplateItem]
    tools: Sequence[TemplateItem] = ()

    def render(self, tokenizer: Any) -> str:
        """Return the chat and the beginning of its answer, as `chat_template.render` does."""
        return render(tokenizer, self.messages, self.tools, begin_answer=True)

    def texts(self) -> Iterator[str]:
        """Yield every string that comes from the messages and tools, not from the template."""
        for message in self.messages:
            yield message["content"]
            yield from _strings([message.get(key) for key in TOOL_FIELDS])
        yield from _strings(self.tools)

    @cached_property
    def masks(self) -> dict[int, int]:
        """Masks by character, for every character of the chat's strings except whitespace, which
        templates trim."""
        used = {ord(char) for text in self.texts() for char in text}
        free = (code for codes in MASK_RANGES for code in codes if code not in used)
        visible = sorted(code for code in used if not chr(code).isspace())
        return dict(zip(visible, free, strict=False))

    def with_masks(self, numbers: Collection[int]) -> Chat:
        """Return the chat with all tool data masked, and the contents of the messages numbered
        `numbers`.
        """
        return self._with_contents(
            [
                message["content"].translate(self.masks) if n in numbers else message["content"]
                for n, message in enumerate(self.messages)
            ]
        )

    def with_blanks(self) -> Chat:
        """Return the chat with each content that is not empty replaced by one character."""
        contents = [message["content"] for message in self.messages]
        return self._with_contents([BLANK if content.strip() else content for content in contents])

    def with_content(self, number: int, content: str) -> Chat:
        """Return the chat with `content` in message `number`."""
        messages = list(self.messages)
        messages[number] = {**messages[number], "content": content}
        return replace(self, messages=messages)

    def _with_contents(self, contents: Sequence[str]) -> Chat:
        """Return the chat with these contents, and masks over the data of messages and tools."""
        # Characters that JSON escapes are not masked, so that JSON still escapes them.
        table = {c: mask for c, mask in self.masks.items() if c >= ord(" ") and chr(c) not in '"\\'}
        messages = [
            {
                **m,
                "content": content,
                **{key: _mask_json(m[key], table) for key in TOOL_FIELDS if key in m},
            }
            for m, content in zip(self.messages, contents, strict=True)
        ]
        return Chat(messages, [_mask_json(tool, table) for tool in self.tools])


def _strings(value: Any) -> Iterator[str]:
    """Yield the strings within JSON data, including its keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _strings([*value, *value.values()])
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item)


def _mask_json(value: Any, table: Mapping[int, int]) -> Any:
    """Return JSON data with a mask over every string that is not in `SCHEMA_WORDS`."""
    if isinstance(value, str):
        return value if value in SCHEMA_WORDS else value.translate(table)
    if isinstance(value, Mapping):
        return {_mask_json(key, table): _mask_json(item, table) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_mask_json(item, table) for item in value]
    return value


@dataclass
class ControlTokens:
    """The control tokens of one tokenizer: all added tokens except whitespace."""

    spellings: dict[int, str]
    unknown: int | None
    """The unknown-word token, which ordinary text gives too."""
    copy: RenamedTokenizer | None = None

    def find(self, ids: Sequence[int]) -> list[int]:
        """Return the control tokens in `ids`, in order. Ordinary text cannot produce them."""
        return [i for i in ids if i in self.spellings and i != self.unknown]

    def spells_unknown(self, text: str) -> bool:
        return self.unknown in self.spellings and self.spellings[self.unknown] in text


class RenamedTokenizer:
    """A copy of a tokenizer with unguessable names for the control tokens."""

    def __init__(self, backend: Any, controls: Mapping[int, str]) -> None:
        from tokenizers import Tokenizer

        nonce = secrets.token_hex(16)
        self.names = {i: f"<{nonce}-{i}>" for i in controls}
        renamed = {spelling: self.names[i] for i, spelling in controls.items()}
        data = json.loads(backend.to_str())
        data["truncation"] = data["padding"] = data["post_processor"] = None
        _rename_entries(data["model"], renamed)
        added = data["added_tokens"]
        for token in added:
            token["content"] = renamed.get(token["content"], token["content"])
        self._tokenizer = Tokenizer.from_str(json.dumps(data))
        self._original_ids = {
            self._tokenizer.token_to_id(token["content"]): token["id"] for token in added
        }

    def encode(self, text: str) -> list[int]:
        """Return the tokens of `text`, with the ids of the original tokenizer."""
        ids = self._tokenizer.encode(text, add_special_tokens=False).ids
        return [self._original_ids.get(i, i) for i in ids]


_CONTROLS: WeakKeyDictionary[Any, ControlTokens] = WeakKeyDictionary()


def text_ids(tokenizer: Any, text: str) -> list[int]:
    """Return the tokens of plain text, without control tokens even if the text spells one.

    Raises:
        ModelError: this kind of tokenizer gives control tokens anyway.
    """
    if not text:
        return []
    ids = tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    if _controls_of(tokenizer).find(ids):
        raise _control_token_error(tokenizer)
    return list(ids)


def leading_ids(tokenizer: Any) -> list[int]:
    """Return the tokens that the tokenizer puts before every string, such as a token for the
    beginning."""
    text = "a"
    whole = tokenizer(text)["input_ids"]
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    return list(whole[: whole.index(ids[0])])


def chat_ids(
    tokenizer: Any, messages: Sequence[TemplateItem], tools: Sequence[TemplateItem] = ()
) -> list[int]:
    """Return the tokens of a chat and of the answer's beginning. The template receives `tools`.

    Raises:
        TemplateError: the template refuses the messages.
        ModelError: a message spells a control token, and this kind of tokenizer has no other way to
            read it.
    """
    controls = _controls_of(tokenizer)
    chat = Chat(messages, tools)
    ids = _chat_tokens(tokenizer, chat)
    blank = chat.with_blanks()
    expected = controls.find(_chat_tokens(tokenizer, blank))
    if controls.find(ids) == expected and not any(map(controls.spells_unknown, chat.texts())):
        return ids
    ids = _masked_chat_ids(tokenizer, controls, chat, expected)
    if controls.find(ids) != expected:
        raise _control_token_error(tokenizer)
    return ids


def _masked_chat_ids(
    tokenizer: Any, controls: ControlTokens, chat: Chat, expected: list[int]
) -> list[int]:
    if getattr(tokenizer, "backend_tokenizer", None) is None:
        raise _control_token_error(tokenizer)

    def keeps_controls(chat: Chat) -> bool:
        return controls.find(_chat_tokens(tokenizer, chat)) == expected

    blank = chat.with_blanks()
    suspects = {
        n
        for n, message in enumerate(chat.messages)
        if controls.spells_unknown(message["content"])
        or not keeps_controls(blank.with_content(n, message["content"]))
    }
    masked = chat.with_masks(suspects)
    if not keeps_controls(masked):  # several messages together spell one token
        masked = chat.with_masks(range(len(chat.messages)))
    if controls.copy is None:
        controls.copy = RenamedTokenizer(tokenizer.backend_tokenizer, controls.spellings)
    text = masked.render(tokenizer)
    renamed = _rename_controls(tokenizer, text, controls, controls.copy)
    return controls.copy.encode(renamed.translate({mask: c for c, mask in chat.masks.items()}))


def _rename_controls(
    tokenizer: Any, text: str, controls: ControlTokens, copy: RenamedTokenizer
) -> str:
    """Return the text with the copy's names for its control tokens."""
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    pieces, end = [], 0
    for token, (start, stop) in zip(encoded["input_ids"], encoded["offset_mapping"], strict=True):
        if token in controls.spellings and token != controls.unknown:
            spelled = text[start:stop]  # with whitespace, if the token includes it
            core = controls.spellings[token]
            core = core if core in spelled else spelled.strip()
            pieces += [text[end:start], spelled.replace(core, copy.names[token], 1)]
            end = stop
    return "".join([*pieces, text[end:]])


def _chat_tokens(tokenizer: Any, chat: Chat) -> list[int]:
    ids: list[int] = tokenizer(chat.render(tokenizer), add_special_tokens=False)["input_ids"]
    return ids


def _controls_of(tokenizer: Any) -> ControlTokens:
    """Return the tokenizer's control tokens, found once per tokenizer."""
    if tokenizer not in _CONTROLS:
        spellings = {
            i: str(token)
            for i, token in tokenizer.added_tokens_decoder.items()
            if str(token).replace("\N{LOWER ONE EIGHTH BLOCK}", " ").strip()
        }
        blank_ids = tokenizer(BLANK, add_special_tokens=False)["input_ids"]
        unknown = next((i for i in blank_ids if i in spellings), None)
        _CONTROLS[tokenizer] = ControlTokens(spellings, unknown)
    return _CONTROLS[tokenizer]


def _rename_entries(model: dict[str, Any], names: Mapping[str, str]) -> None:
    """Rename entries of a tokenizer's vocabulary, and drop its cached rules for splitting text."""
    vocabulary = model["vocab"]
    if isinstance(vocabulary, dict):
        model["vocab"] = {names.get(entry, entry): i for entry, i in vocabulary.items()}
    else:
        model["vocab"] = [[names.get(entry, entry), score] for entry, score in vocabulary]
    if "merges" in model:
        pairs = [pair if isinstance(pair, list) else pair.split(" ") for pair in model["merges"]]
        model["merges"] = [p for p in pairs if not {*p, "".join(p)} & names.keys()]
    if model.get("unk_token") in names:
        model["unk_token"] = names[model["unk_token"]]


def _control_token_error(tokenizer: Any) -> ModelError:
    return ModelError(
        f"a message spells a control token, and a {type(tokenizer).__name__} cannot read it as text"
    )
