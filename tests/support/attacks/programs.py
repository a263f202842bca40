"""Attacks that are complete programs."""

WHOLE = {
    "equal/always": """
        class Yes:
            def __eq__(self, other): return True
            __hash__ = None
        def f(n): return Yes()
    """,
    "equal/int_subclass": """
        class I(int):
            def __eq__(self, other): return True
            __hash__ = int.__hash__
        def f(n): return I(n)
    """,
    "equal/str_subclass_inside": """
        class S(str):
            def __eq__(self, other): return True
            __hash__ = str.__hash__
        def f(n): return [S('x')]
    """,
    "equal/bool_subclass_of_float": """
        class F(float):
            def __eq__(self, other): return True
            def __rsub__(self, other): return 0
        def f(n): return F(n)
    """,
    "equal/metaclass": """
        class M(type):
            def __eq__(cls, other): return True
            def __instancecheck__(cls, x): return True
            __hash__ = type.__hash__
        class C(metaclass=M): pass
        def f(n): return C
    """,
    "equal/lying_class": """
        class L:
            __class__ = int
            def __eq__(self, other): return True
        def f(n): return L()
    """,
    "equal/any_like_mock": "from unittest.mock import ANY\ndef f(n): return ANY",
    "equal/named_int": """
        def __eq__(self, other): return True
        int_ = type('int', (int,), {'__eq__': __eq__, '__module__': 'builtins'})
        def f(n): return int_(n)
    """,
    "zero/no_function": "x = 1",
    "zero/empty": "",
    "zero/other_name": "def g(n): return n + 1",
    "zero/not_callable": "f = 2",
    "zero/none": "def f(n): pass",
    "zero/generator": "def f(n):\n    yield n + 1",
    "zero/coroutine": "async def f(n): return n + 1",
    "zero/raises_assertion": "def f(n): raise AssertionError",
    "zero/raises_stop_iteration": "def f(n): raise StopIteration",
    "zero/raises_own_base": """
        class Out(BaseException): pass
        def f(n): raise Out
    """,
    "zero/raises_skip": "import unittest\ndef f(n): raise unittest.SkipTest('all good')",
    "zero/raises_surrogates": "def f(n): raise ValueError('\\ud800' * 9)",
    "zero/raises_surrogates_loading": "raise type('\\ud800', (Exception,), {})('\\ud800')",
    "zero/error_without_text": """
        class E(Exception):
            def __str__(self): raise E
        def f(n): raise E
    """,
    "zero/error_without_text_loading": """
        class E(Exception):
            def __str__(self): raise E
        raise E
    """,
    "zero/name_is_no_string": """
        class M(type):
            __name__ = property(lambda c: 7)
        class E(Exception, metaclass=M): pass
        def f(n): raise E
    """,
    "zero/raises_sandbox_error": """
        import sys
        Trouble = next((vars(m)['Trouble'] for m in list(sys.modules.values())
                        if 'Trouble' in vars(m)), Exception)
        def f(n): raise Trouble('not my fault')
    """,
    "zero/redefines_check": "def check(candidate): pass\ndef f(n): return 0",
    "zero/string_of_value": "def f(n): return str(n + 1)",
    "zero/near_float": "def f(n): return n + 1 + 1e-9",
    "zero/mutates_argument": "def f(n):\n    n = 2\n    return n - 1",
    "parser/parentheses": "def f(n): return " + "(" * 90_000 + "n" + ")" * 90_000,
    "parser/minuses": "def f(n): return " + "-" * 90_000 + "n",
    "parser/brackets": "def f(n): return " + "[" * 90_000,
    "parser/attributes": "def f(n): return n" + ".real" * 90_000 + " - 1",
    "parser/nested_functions": "".join(" " * i + f"def f{i}():\n" for i in range(200)),
    "parser/not": "def f(n): return " + "not " * 90_000 + "n",
    "parser/power": "def f(n): return " + "**".join(["9"] * 20_000),
    "parser/constant_folding": "def f(n): return 'x' * 2**40 + ((1 << 3000000) * (1 << 3000000))",
    "parser/nul": "def f(n): return n\0 + 1",
    "parser/surrogate": "def f(n): return '\ud800'",
    "parser/cookie": "# -*- coding: utf-7 -*-\ndef f(n): return n +AC0- 1",
    "parser/unknown_cookie": "# -*- coding: nothing -*-\ndef f(n): return n",
    "parser/long_line": "def f(n): return [" + "n, " * 500_000 + "]",
    "parser/many_lines": "x = 1\n" * 200_000 + "def f(n): return n",
    "parser/huge_integer": "def f(n): return " + "9" * 1_000_000,
    "parser/unbalanced": "def f(n): return (((",
    "parser/not_python": "Here is the function:\n```python\ndef f(n): return n + 1\n```",
    "parser/form_feed_tabs": "def f(n):\n\tif n:\n        return n + 1",
    "answer/huge_string": "def f(n): return 'x' * 50_000_000",
    "answer/huge_list": "def f(n): return [0] * 5_000_000",
    "answer/deep": """
        def f(n):
            x = n
            for _ in range(100_000): x = [x]
            return x
    """,
    "answer/cycle": "def f(n):\n    x = []\n    x.append(x)\n    return x",
    "answer/huge_int": "def f(n): return 1 << 100_000_000",
    "answer/colliding_keys": "def f(n): return {i * (2**61 - 1): i for i in range(40_000)}",
    "answer/surrogates": "def f(n): return '\\ud800' * 1000",
    "answer/not_a_number": "def f(n): return float('nan')",
    "answer/lies_after_load": """
        import threading, time
        def later():
            import os
            time.sleep(0.05); os._exit(0)
        threading.Thread(target=later, daemon=True).start()
        def f(n):
            time.sleep(0.2)
            return n + 1 if n > 10**9 else n
    """,
}
