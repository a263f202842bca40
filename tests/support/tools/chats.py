"""Chat templates with tools of several families, reduced to the relevant parts."""

from typing import Any

from support.chats import tokenizer_of

HERMES = """\
{%- if tools %}<|im_start|>system
{%- if messages[0].role == 'system' %}

{{- messages[0].content + '\\n\\n' }}{%- endif %}
# Tools

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{%- for tool in tools %}
{{ tool | tojson }}
{%- endfor %}

</tools>
For each function call, return a json object within <tool_call></tool_call> XML tags:
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call><|im_end|>
{% elif messages[0].role == 'system' %}<|im_start|>system
{{ messages[0].content }}<|im_end|>
{% endif %}
{%- for message in messages %}
{%- if message.role == 'user' or (message.role == 'system' and not loop.first)
       or (message.role == 'assistant' and not message.tool_calls) %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- elif message.role == 'assistant' %}
{{- '<|im_start|>assistant' }}
{%- if message.content %}{{ '\\n' + message.content }}{% endif %}
{%- for call in message.tool_calls %}
{{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
{{- call.function.arguments | tojson }}{{ '}\\n</tool_call>' }}
{%- endfor %}{{ '<|im_end|>\\n' }}
{%- elif message.role == 'tool' %}
{%- if messages[loop.index0 - 1].role != 'tool' %}{{ '<|im_start|>user' }}{% endif %}
{{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{ '<|im_end|>\\n' }}{% endif %}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""
"""The template of Qwen 2.5 and Hermes 2 Pro."""

LLAMA = """\
{{- '<s>' }}
{%- if messages[0].role == 'system' %}{% set said = messages[0].content %}
{%- set messages = messages[1:] %}{% else %}{% set said = '' %}{% endif %}
{{- '<|system|>\\n' + said + '<|end|>' }}
{%- if tools %}
{%- if not messages %}{{ raise_exception('no first user message') }}{% endif %}
{{- '<|user|>\\nGiven the following functions, please respond with a JSON for a function call ' }}
{{- 'in the format {"name": function name, "parameters": dictionary}.\\n\\n' }}
{%- for tool in tools %}{{ tool | tojson(indent=4) }}{{ '\\n\\n' }}{% endfor %}
{{- messages[0].content | trim + '<|end|>' }}{% set messages = messages[1:] %}
{%- endif %}
{%- for message in messages %}
{%- if 'tool_calls' in message %}
{%- if message.tool_calls | length != 1 %}
{{- raise_exception('This model only supports single tool-calls at once!') }}{% endif %}
{%- set call = message.tool_calls[0].function %}
{{- '<|assistant|>\\n{"name": "' + call.name + '", "parameters": ' }}
{{- call.arguments | tojson }}{{ '}<|end|>' }}
{%- elif message.role == 'tool' %}{{ '<|tool|>\\n' + (message.content | tojson) + '<|end|>' }}
{%- else %}{{ '<|' + message.role + '|>\\n' + message.content | trim + '<|end|>' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}"""
"""The template of Llama 3.1, with other names for its control tokens."""

MISTRAL = """\
{{- '<s>' }}
{%- set ns = namespace(index=0) %}
{%- for message in messages if message.role in ('user', 'assistant') and not message.tool_calls %}
{%- if (message.role == 'user') != (ns.index % 2 == 0) %}
{{- raise_exception('conversation roles must alternate') }}{% endif %}
{%- set ns.index = ns.index + 1 %}
{%- endfor %}
{%- for message in messages %}
{%- if message.role == 'user' %}
{%- if tools and loop.index0 < 2 %}
{{- '[AVAILABLE_TOOLS]' }}{{ tools | tojson }}{{ '[/AVAILABLE_TOOLS]' }}{% endif %}
{{- '[INST]' + message.content + '[/INST]' }}
{%- elif message.tool_calls %}
{{- '[TOOL_CALLS][' }}
{%- for call in message.tool_calls %}
{%- if call.id | length != 9 %}{{ raise_exception('ids have nine letters') }}{% endif %}
{{- '{"name": "' + call.function.name + '", "arguments": ' }}{{ call.function.arguments | tojson }}
{{- ', "id": "' + call.id + '"}' }}{% if not loop.last %}{{ ', ' }}{% endif %}
{%- endfor %}{{ ']</s>' }}
{%- elif message.role == 'assistant' %}{{ message.content + '</s>' }}
{%- elif message.role == 'system' %}{{ message.content }}
{%- elif message.role == 'tool' %}
{{- '[TOOL_RESULTS]{"content": ' + (message.content | tojson) + ', "call_id": "' }}
{{- message.tool_call_id + '"}[/TOOL_RESULTS]' }}
{%- endif %}
{%- endfor %}"""
"""The template of Mistral's third version; its marks are special tokens."""

TOOL_TEMPLATES = {"hermes": HERMES, "llama": LLAMA, "mistral": MISTRAL}
MARKS = ["[TOOL_CALLS]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]", "<|tool|>"]


def tool_tokenizer(family: str, kind: str = "bytes") -> Any:
    """A tokenizer with one of `TOOL_TEMPLATES`."""
    tokenizer = tokenizer_of(kind, "chatml", template=TOOL_TEMPLATES[family])
    tokenizer.add_tokens(MARKS, special_tokens=True)
    return tokenizer
