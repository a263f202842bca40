"""Attacks by templates that take too much, each by a way of its own."""

import pytest

from collab.agents.prompts import Template
from collab.errors import CollabError

pytestmark = pytest.mark.slow

LONG = "a" * 500_000
_LOOP = "{% for _ in range(99999) %}"
TEMPLATES = {
    "a loop over a joined text": "{% for c in ('x' * 99999) * 9999 %}{% endfor %}",
    "loops in a macro's caller": (
        "{% macro m() %}{% for _ in range(99999) %}{{ caller() }}{% endfor %}{% endmacro %}"
        "{% call m() %}{% for _ in range(99999) %}{% endfor %}{% endcall %}"
    ),
    "mutual macros": (
        "{% macro a(n) %}{% if n %}{{ b(n - 1) }}{{ b(n - 1) }}{% endif %}{% endmacro %}"
        "{% macro b(n) %}{% if n %}{{ a(n - 1) }}{{ a(n - 1) }}{% endif %}{% endmacro %}{{ a(90) }}"
    ),
    "a filter's block": "{% filter center(99999999999) %}x{% endfilter %}",
    "a set block": (
        "{% set ns = namespace(x='ab') %}{% for _ in range(99) %}{% set y %}{{ ns.x }}{{ ns.x }}"
        "{% endset %}{% set ns.x = y %}{% endfor %}"
    ),
    "chained filters": "{{ 'a' | replace('a', 'a' * 9999) | replace('a', 'a' * 9999) }}",
    "mapped filters": "{{ ['a'] | map('center', 99999999999) | list }}",
    "a filter by another name": "{{ ('a' | attr('ljust'))(99999999999) }}",
    "an item as a method": "{{ 'a'['zfill'](99999999999) }}",
    "keyword arguments": "{{ 'a' | center(width=99999999999) }}",
    "arguments in a list": "{{ 'a'.center(*[99999999999]) }}",
    "arguments in a mapping": "{{ 'a' | indent(**{'width': 99999999999, 'first': true}) }}",
    "wide digits": "{{ '{:９９９９９９９９９９}'.format(1) }}",
    "precision": "{{ '%.9999999999f' % 1.5 }}{{ '{:.9999999999f}'.format(1.5) }}",
    "a shift by powers": "{{ (2 ** 99999) ** 99999 }}",
    "products of integers": (
        "{% set ns = namespace(x=7) %}{% for _ in range(99) %}"
        "{% set ns.x = ns.x * ns.x %}{% endfor %}"
    ),
    "remainders": "{% set n = ('f' * 900000) | int(base=16) %}{{ n * n % (n - 1) }}",
    "safe text": "{{ ('x' | safe) * 99999999999 }}",
    "safe text joined": "{{ (('x' * 999999) | safe).join(range(99999) | map('string')) }}",
    "grouped in loops": (
        "{% for _ in range(9999) %}{% set g = range(9999) | groupby('real') %}{% endfor %}"
    ),
    "sorted in loops": "{% for _ in range(9999) %}{% set g = range(9999) | sort %}{% endfor %}",
    "a view of itself": (
        "{% set ns = namespace() %}{% set ns.a = ns %}{% set ns.b = [ns, ns] %}{{ [ns, ns] }}"
    ),
    "cycles": (
        "{% set c = cycler('x' * 999999) %}{% for _ in range(99999) %}{{ c.next() }}{% endfor %}"
    ),
    "conditions": "{% for _ in range(99999) %}{% if 'b' in 'a' * 99999 %}{% endif %}{% endfor %}",
    "written out": "{{ (range(99999) | list, ) * 9999 }}",
    "as JSON": "{{ ([range(99999) | list] * 9999) | tojson }}",
    "printed": "{{ (['x' * 99] * 99999) | pprint }}",
    "linked": "{{ ('http://a.b/' ~ '(' * 999999) | urlize }}",
    "a width of many digits": "{{ ('%000000000000003000000000d' % 1) | length }}",
    "a long text compared": _LOOP + "{% if 'b' in '" + LONG + "' %}{% endif %}{% endfor %}",
    "a long text joined": _LOOP + "{% set x = 1 ~ '" + LONG + "' %}{% endfor %}",
    "a long text cut": _LOOP + "{% set x = '" + LONG + "'[1:] %}{% endfor %}",
    "long texts compared": _LOOP + f"{{% if '{LONG}b' == '{LONG}c' %}}{{% endif %}}{{% endfor %}}",
    "pairs": "{{ dict.fromkeys(range(99999), 'x' * 99999) }}",
}


@pytest.mark.parametrize("source", TEMPLATES.values(), ids=TEMPLATES)
def test_no_template_hangs(source: str) -> None:
    with pytest.raises(CollabError, match="handles more than"):
        Template(source, "prompt").render(task={})
