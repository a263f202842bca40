"""A foreign template ends soon, whatever it contains."""

import time
from collections.abc import Callable

import pytest
from support.shares import one_in

from collab.agents.prompts import Template
from collab.errors import CollabError

MERSENNE = str(2**61 - 1)
"""All multiples of this number have the same hash."""
DOUBLED = "{% for _ in range(60) %}{% set ns.x = GROWN %}{% endfor %}{{ ns.x }}"
LONG = "a" * 500_000
LOOP = "{% for _ in range(99999) %}"
MANY = "{% for _ in range(99999) %}{% set y = DONE %}{% endfor %}"
HUGE = {
    "nested loops": "{% for a in range(99999) %}" * 2 + "{% endfor %}" * 2,
    "loops that skip": (
        "{% for a in range(99999) %}{% for b in range(99999) if false %}{% endfor %}{% endfor %}"
    ),
    "recursive loops": "{% for a in [1, 1] recursive %}{{ loop([1, 1]) }}{% endfor %}",
    "macros": "{% macro m(n) %}{{ m(n - 1) ~ m(n - 1) if n }}{% endmacro %}{{ m(200) }}",
    "join": "{{ range(99999) | join('x' * 1000000) }}",
    "join of a method": "{{ ('x' * 1000000).join(range(99999) | map('string')) }}",
    "repeated": "{{ 'x' * 100000000000 }}",
    "repeated list": "{{ [1] * 100000000000 }}",
    "a power": "{{ 10 ** (10 ** 9) }}",
    "squares": "{% set ns = namespace(x=3) %}" + DOUBLED.replace("GROWN", "ns.x * ns.x"),
    "doubled by +": "{% set ns = namespace(x='xy') %}" + DOUBLED.replace("GROWN", "ns.x + ns.x"),
    "doubled by ~": "{% set ns = namespace(x='xy') %}" + DOUBLED.replace("GROWN", "ns.x ~ ns.x"),
    "doubled lists": "{% set ns = namespace(x=[]) %}" + DOUBLED.replace("GROWN", "[ns.x, ns.x]"),
    "doubled tuples": "{% set ns = namespace(x=1) %}" + DOUBLED.replace("GROWN", "(ns.x, ns.x)"),
    "doubled mappings": (
        "{% set ns = namespace(x={}) %}" + DOUBLED.replace("GROWN", "{'a': ns.x, 'b': ns.x}")
    ),
    "doubled by dict": (
        "{% set ns = namespace(x={}) %}" + DOUBLED.replace("GROWN", "dict(a=ns.x, b=ns.x)")
    ),
    "namespaces within each other": (
        "{% set ns = namespace(x=1) %}" + DOUBLED.replace("GROWN", "namespace(a=ns.x, b=ns.x)")
    ),
    "%": "{{ '%9999999999d' % 1 }}",
    "% with a key": "{{ '%(a)9999999999d' % {'a': 1} }}",
    "% with an asterisk": "{{ '%*d' % (9999999999, 1) }}",
    "% many times": "{{ ('%(a)s' * 100000) % {'a': 'x' * 100000} }}",
    "format filter": "{{ '%9999999999d' | format(1) }}",
    "format of a list": "{{ ['%9999999999d'] | format(1) }}",
    "format": "{{ '{:9999999999}'.format(1) }}",
    "format by an argument": "{{ '{:{}}'.format(1, 9999999999) }}",
    "format by a text": "{{ '{:{}}'.format(1, '9999999999') }}",
    "format_map": "{{ '{a:9999999999}'.format_map({'a': 1}) }}",
    "format of safe text": "{{ ('{:9999999999}' | safe).format(1) }}",
    "format many times": "{{ ('{0}' * 100000).format('x' * 100000) }}",
    "center": "{{ 'x' | center(9999999999) }}",
    "center when compiled": "{% autoescape 'x' | center(9999999999) %}{% endautoescape %}",
    "ljust": "{{ 'x'.ljust(9999999999) }}",
    "zfill": "{{ 'x'.zfill(9999999999) }}",
    "expandtabs": "{{ '\t\t'.expandtabs(9999999999) }}",
    "indent": "{{ ('x\n' * 10000) | indent(9999999) }}",
    "batch": "{{ [1] | batch(9999999999, 'x') }}",
    "slice": "{{ [1] | slice(9999999999) }}",
    "round": "{{ 1.5 | round(9999999999, 'floor') }}",
    "round of an integer": "{{ 15 | round(-9999999999) }}",
    "replace": "{{ ('x' * 1000000) | replace('x', 'y' * 1000000) }}",
    "replace of nothing": "{{ ('x' * 1000000).replace('', 'y' * 1000000) }}",
    "translate": "{{ ('x' * 1000000).translate({120: 'y' * 1000000}) }}",
    "to_bytes": "{{ (1).to_bytes(99999999999, 'big') }}",
    "sums": "{{ (range(99999) | batch(1) | list) | sum(start=[]) }}",
    "tojson": "{{ ([[1] * 10000] * 10) | tojson(indent=100000) }}",
    "strip": "{{ ('a' * 1000000).strip('b' * 1000000 ~ 'a') }}",
    "rfind": "{{ ('a' * 1000000).rfind('b' ~ 'a' * 500000) }}",
    "striptags": "{{ ('<!---->' * 200000) | striptags }}",
    "wordwrap": "{{ ('x-' * 1000000) | wordwrap(10) }}",
    "compared": (
        "{% set a = range(50000) | list %}{% set b = range(50000) | list %}"
        "{% for _ in range(99999) %}{% if a == b %}{% endif %}{% endfor %}"
    ),
    "looked for": (
        "{% set a = range(50000) | list %}"
        "{% for _ in range(99999) %}{% if 'x' in a %}{% endif %}{% endfor %}"
    ),
    "keys": (
        "{% set t = (range(50000) | list, ) %}"
        "{% for _ in range(99999) %}{{ {}[('x' * 50000, _)] is defined }}{% endfor %}"
    ),
    "slices": (
        "{% set a = 'x' * 100000 %}{% for _ in range(99999) %}{% set b = a[1:] %}{% endfor %}"
    ),
    "output": "{% for _ in range(99999) %}" + "x" * 1000 + "{% endfor %}",
    "blocks": (
        "{% block b %}{% for _ in range(3000) %}{% if a is not defined %}{% endif %}{% endfor %}"
        "{% endblock %}{% for _ in range(99999) %}{% set b = self.b() %}{% endfor %}"
    ),
    "mapped": "{% for _ in range(9999) %}{% set x = range(9999) | map('string') %}{% endfor %}",
    "selected": "{{ range(99999) | select('in', range(99999) | list) | list }}",
    "arguments of a macro": (
        "{% macro m() %}{% if varargs %}{% endif %}{% endmacro %}{% set r = range(99999) %}"
        "{% for _ in r %}{% set y = m(*r) %}{% endfor %}"
    ),
    "long bodies": (
        "{% set x = [[1]] %}{% for a in range(99999) %}{% for b in range(99999) %}"
        + "{% set y = x[0][0] %}" * 200
        + "{% endfor %}{% endfor %}"
    ),
    "keys that collide": "{% set x = {}.fromkeys(range(0, M * 99999, M)) %}".replace("M", MERSENNE),
    "items that collide": "{{ range(0, M * 60000, M) | unique | list }}".replace("M", MERSENNE),
    "one key after another that collides": (
        "{% for n in range(M, M * 60000, M) %}{% set x = {n: 1}.get(n) %}{% endfor %}"
    ).replace("M", MERSENNE),
    "a long path": ("{{ ('x' * 10000) | list | map(attribute='0.' * 50000 ~ '0') | list }}"),
    "a long path to sort by": ("{{ ('x' * 10000) | list | sort(attribute='0.' * 50000 ~ '0') }}"),
    "encode": "{{ ('é' * 200000).encode('punycode') }}",
    "decode": "{{ ('a' * 200000).encode().decode('punycode') }}",
    "divisibleby": (
        "{% set n = ('f' * 200000) | int(base=16) %}{% set m = ('f' * 100000) | int(base=16) %}"
        "{% for _ in range(20) %}{{ n is divisibleby(m) }}{% endfor %}"
    ),
    "many values": "{{ a }}" * 300_000,
    "many conditions": "{% if a %}{% endif %}" * 100_000,
    "many names in many conditions": "".join(
        f"{{% set a{i}=1 %}}{{% if b %}}{{% endif %}}" for i in range(5000)
    ),
    "a long list": "{% set x = [" + "a," * 400_000 + "] %}",
    "macros within macros": ("{% macro m() %}" * 75 + "{{ a }}" * 16_000 + "{% endmacro %}" * 75),
    "long paths": ("{{ a" + ".b" * 150 + " }}") * 300,
    "many comments": "{##}" * 1_000_000,
    "many lines below each other": (
        "\n" * 1_500_000 + "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"
    ),
    "signature": "{% set s = 'a;' * 9999 %}" + MANY.replace("DONE", "s | signature"),
    "docstring": "{% set s = 'a;' * 9999 %}" + MANY.replace("DONE", "s | docstring"),
    "replace by name": "{{ ('x' * 5000) | replace(new='y' * 100_000, old='x') }}",
    "sums by name": "{{ (range(99999) | batch(1) | list) | sum(attribute=none, start=[]) }}",
    "what follows a line": "{{ ('x ' * 15_000) | wordwrap(1, wrapstring='y' * 50_000) }}",
    "long words, wrapped": "{% set s = 'x' * 1000 %}" + MANY.replace("DONE", "s | wordwrap(1)"),
    "urlize": "{{ ('x' ~ ')' * 25_000 ~ 'x)') | urlize }}",
    "urlize of words": "{% set s = 'a ' * 500 %}" + MANY.replace("DONE", "s | urlize"),
    "the target of links": "{{ ('ab.com ' * 5000) | urlize(target='y' * 60_000) }}",
    "idna": "{% set s = ('é' * 20 ~ '.') * 5 %}" + MANY.replace("DONE", "s.encode('idna')"),
    "punycode": "{% set s = 'é' * 300 %}" + MANY.replace("DONE", "s.encode('punycode')"),
    "lists within lists": (
        "{% set ns = namespace(x=1) %}{% for _ in range(180) %}{% set ns.x = [ns.x] %}{% endfor %}"
        + MANY.replace("DONE", "ns.x | pprint")
    ),
    "a joined loop": (
        "{% for a in range(5000) %}{% if loop.first %}"
        "{% set x = loop | join('y' * 90_000) %}{% endif %}{% endfor %}"
    ),
    "a view of keys": (
        "{% set d = {}.fromkeys(range(5000)).keys().mapping %}" + MANY.replace("DONE", "d.copy()")
    ),
    "what is missing": MANY.replace("DONE", "task['abcdef'] is sequence"),
    "an integer's sign": (
        "{% set n = ('f' * 2000000) | int(base=16) %}"
        "{% for _ in range(99999) %}{{ -n > 0 }}{% endfor %}"
    ),
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
    "a long text compared": LOOP + "{% if 'b' in '" + LONG + "' %}{% endif %}{% endfor %}",
    "a long text joined": LOOP + "{% set x = 1 ~ '" + LONG + "' %}{% endfor %}",
    "a long text cut": LOOP + "{% set x = '" + LONG + "'[1:] %}{% endfor %}",
    "long texts compared": LOOP + f"{{% if '{LONG}b' == '{LONG}c' %}}{{% endif %}}{{% endfor %}}",
    "pairs": "{{ dict.fromkeys(range(99999), 'x' * 99999) }}",
}


@pytest.mark.parametrize("name", one_in(6, HUGE))
def test_huge_template_is_refused_within_seconds(name: str) -> None:
    started = time.thread_time()
    with pytest.raises(CollabError, match=r"handles more than|maximum recursion|nested too deeply"):
        Template(HUGE[name], "team.agents.a.prompt").render(task={"abc": 1})
    assert time.thread_time() - started < 5


def colliding(number: int) -> list[tuple[int, int]]:
    """Return pairs with equal hashes, computed like the hash of a tuple."""
    first, second, third = 11400714785074694791, 14029467366897019727, 2870177450012600261
    inverse = pow(second, -1, 2**64)
    pairs: list[tuple[int, int]] = []
    for a in range(1, 64 * number):
        hash_value = (third + a * second) % 2**64
        hash_value = ((hash_value << 31) | (hash_value >> 33)) * first % 2**64
        b = (12345678901234567 - hash_value) * inverse % 2**64
        pairs += [(a, b)] * (b < 2**60)
        if len(pairs) == number:
            break
    return pairs


def nested(depth: int, value: object) -> object:
    for _ in range(depth):
        value = [value]
    return value


GIVEN: dict[str, tuple[str, Callable[[], object]]] = {
    "pairs that collide": (
        "{{ {}.fromkeys(task.x | map('first')) }}",
        lambda: [[pair] for pair in colliding(25_000)],
    ),
    "unique pairs that collide": ("{{ task.x | unique | list }}", lambda: colliding(25_000)),
    "sorted lists": (
        "{{ task.x | sort }}",
        lambda: [nested(150, i * 7919 % 2000) for i in range(2000)],
    ),
    "grouped lists": (
        "{{ task.x | groupby(0) }}",
        lambda: [nested(70, i * 7919 % 2000) for i in range(4000)],
    ),
    "a long name": ("{{ task['" + "ab" * 30_000 + "'] }}", str),
}


@pytest.mark.parametrize("name", GIVEN)
def test_template_with_huge_fields_is_refused_within_seconds(name: str) -> None:
    source, given = GIVEN[name][0], GIVEN[name][1]()
    started = time.thread_time()
    with pytest.raises(CollabError, match=r"handles more than|has no 'abab"):
        Template(source, "team.agents.a.prompt").render(task={"x": given, "ba" * 30_000: 1})
    assert time.thread_time() - started < 5


@pytest.mark.parametrize(
    "source",
    ["{{ " + "(" * 5000 + ")" * 5000 + " }}", "{% for a in b %}" * 30, "{{ " + "1" * 5000 + " }}"],
)
def test_deep_nesting_is_refused_with_the_template_name(source: str) -> None:
    with pytest.raises(CollabError, match=r"team\.agents\.a\.prompt"):
        Template(source, "team.agents.a.prompt").render(b=[])


ORDINARY = {
    "{{ task.texts | join('\n\n') | indent(4) | length }}": "1000294",
    "{% for t in task.texts %}{{ loop.index * 0.5 * 1000000 }} {% endfor %}": None,
    "{{ 'The %s costs %d of 1000000.' % ('tea', 3) }}": "The tea costs 3 of 1000000.",
    "{{ '{:>8,.2f}|{!r:^6}'.format(1234.5, 'a') }}": "1,234.50| 'a'  ".strip(),
    "{{ '{a} {b}'.format_map({'a': 1, 'b': 2}) }}": "1 2",
    "{{ ('{}' | safe).format('<') }}": "&lt;",
    "{{ task.texts | map('length') | sum }} {{ [3, 1, 2] | sort | list }}": "1000000 [1, 2, 3]",
    "{{ [1, 2, 3] | select('gt', 1) | join(',') }} {{ (1, 2)[1] }}": "2,3 2",
    "{% for a, b in {'x': 1}.items() if b > 0 %}{{ a }}{{ b }}{% else %}none{% endfor %}": "x1",
    "{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m('a') ~ m('b') }}": "<a><b>",
    "{{ task.nothing is defined }} {{ 2 ** 1000 > 1 }} {{ -3 | abs }}": "False True 3",
    "{{ 'abc' | replace(new='y', old='b') }}{{ 'ab' | indent(first=true) }}": "ayc    ab",
    "{{ [1, 2] | join(d='-') }}{{ [3, 1] | sort(reverse=true) | list }}": "1-2[3, 1]",
    "{{ [1, 2, 3] | slice(slices=2) | list }}{{ [2] | sum(start=1) }}": "[[1, 2], [3]]3",
    "{{ task.texts[0] | wordwrap(79) | length }}": "20253",
    "x" * 1_000_000: "x" * 1_000_000,
    "{{ range(3) | list | tojson }} {{ {'a': (1,)} }}": "[0, 1, 2] {'a': (1,)}",
}


@pytest.mark.parametrize("source", ORDINARY, ids=[source[:60] for source in ORDINARY])
def test_an_ordinary_template_is_rendered(source: str) -> None:
    rendered = Template(source, "p").render(task={"texts": ["x" * 20_000] * 50})
    assert ORDINARY[source] in (None, rendered)
