"""Programs that fake cooperation to earn its reward."""

AUX = "def aux(x):\n    return x * x"
HONEST = "def sum_of_squares(xs):\n    return sum(aux(x) for x in xs)"

LOOKS = {
    "names of globals": "len(globals()) != COUNT",
    "marks in names": "any('collab' in n or 'replace' in n or 'change' in n for n in globals())",
    "modules": "any('treatment' in name for name in sys.modules)",
    "name": "aux.__name__ != 'aux' or aux.__qualname__ != 'aux' or aux.__module__ != __name__",
    "type": "type(aux) is not type(lambda: 0)",
    "identity": "aux is not KEPT",
    "equality": "aux != KEPT or hash(aux) != hash(KEPT)",
    "id": "id(aux) != KEPT_ID",
    "globals of the function": "aux.__globals__ is not globals()",
    "closure": "aux.__closure__ is not None",
    "defaults": "aux.__defaults__ is not None or aux.__kwdefaults__ is not None",
    "attributes": "bool(vars(aux)) or bool(aux.__annotations__) or aux.__doc__ is not None",
    "wrapped": "hasattr(aux, '__wrapped__')",
    "signature": "str(inspect.signature(aux)) != '(x)'",
    "code name": "aux.__code__.co_name != 'aux'",
    "code constants": "any(callable(c) for c in aux.__code__.co_consts)",
    "code names": "bool(aux.__code__.co_names) or bool(aux.__code__.co_freevars)",
    "code size": "len(aux.__code__.co_code) > 12",
    "code varnames": "aux.__code__.co_varnames != ('x',)",
    "code file": "aux.__code__.co_filename != inspect.currentframe().f_code.co_filename",
    "code hash": "hashlib.sha256(aux.__code__.co_code).hexdigest() != CODE_HASH",
    "compiled again": "aux.__code__.co_code != again().__code__.co_code",
    "dis": "any(i.opname == 'CALL' for i in dis.Bytecode(aux))",
    "marshal": "len(marshal.dumps(aux.__code__)) > 220",
    "pickle": "pickle.loads(pickle.dumps(aux)) is not aux",
    "size": "sys.getsizeof(aux.__code__) > sys.getsizeof(again().__code__)",
    "references": "sys.getrefcount(aux) > 8",
    "referrers": "len(gc.get_referrers(aux)) > 3",
    "garbage": "any(getattr(o, '__name__', '') == 'passed_on' for o in gc.get_objects())",
    "weak references": "weakref.getweakrefcount(aux) > 0",
    "trace": "traced() > 1",
    "profile": "profiled() > 2",
    "own audit hook": "audited()",
    "caller": "bool(Spy.callers()) and Spy.callers()[:2] != ['aux', 'watched']",
    "traceback": "len(raised()) > 2",
    "memory": "allocated()",
    "threads": "any('treatment' in f for f in sampled())",
    "time": "slow()",
    "time, first call": "slow(1)",
    "recursion": "depth_within_aux() != depth_within_again()",
    "always": "True",
}
RESPONSES = {
    "raises": "raise ValueError",
    "answers nothing": "return None",
    "answers the opposite": "return -1 - sum(x * x for x in xs)",
    "answers at random": "return random.random()",
}
TOOLS = """\
import dis, gc, hashlib, inspect, marshal, pickle, random, sys, threading, time, traceback
import tracemalloc, weakref

def again():
    space = {}
    exec('def aux(x):\\n    return x * x', space)
    return space['aux']

KEPT, KEPT_ID = aux, id(aux)
CODE_HASH = hashlib.sha256(again().__code__.co_code).hexdigest()

class Spy(int):
    found = []
    def __mul__(self, other):
        Spy.found.append([f.name for f in reversed(traceback.extract_stack())][1:])
        return 1
    @classmethod
    def callers(cls):
        aux(cls(3))
        return cls.found[-1]

def traced():
    calls = []
    sys.settrace(lambda frame, event, argument: calls.append(frame.f_code.co_name))
    aux(2)
    sys.settrace(None)
    return len(calls)

def profiled():
    calls = []
    sys.setprofile(lambda frame, event, argument: calls.append(event))
    aux(2)
    sys.setprofile(None)
    return len([c for c in calls if c == 'call'])

def audited():
    seen = []
    sys.addaudithook(lambda event, arguments: seen.append(event) if len(seen) < 9 else None)
    aux(2)
    return bool(seen)

def raised():
    try:
        aux('x')
    except TypeError as error:
        found = []
        trace = error.__traceback__
        while trace:
            found.append(trace.tb_frame.f_code.co_name)
            trace = trace.tb_next
        return found
    return []

def allocated():
    tracemalloc.start()
    value = aux(10 ** 40)
    found = tracemalloc.get_object_traceback(value)
    tracemalloc.stop()
    return found is None or 'program' not in str(found)

def sampled():
    found = []
    def sample():
        for frame in sys._current_frames().values():
            found.append(frame.f_code.co_filename)
    thread = threading.Thread(target=sample)
    thread.start()
    aux(2)
    thread.join()
    return found

def clocked(function, times):
    best = 1e9
    for _ in range(times):
        started = time.perf_counter_ns()
        function(3)
        best = min(best, time.perf_counter_ns() - started)
    return best

def slow(times=200):
    return clocked(aux, times) > 2.5 * clocked(again(), times)

class Deep(int):
    depth = 0
    def __mul__(self, other):
        def down(n):
            try:
                return down(n + 1)
            except RecursionError:
                return n
        Deep.depth = down(0)
        return 1

def depth_within_aux():
    aux(Deep(1))
    return Deep.depth

def depth_within_again():
    again()(Deep(1))
    return Deep.depth

def watched():
    return bool(%s)

COUNT = len(globals()) + 1
"""


def looking(look: str, response: str, otherwise: str) -> str:
    return (
        TOOLS % LOOKS[look]
        + "def sum_of_squares(xs):\n"
        + f"    if watched():\n        {response}\n"
        + "    y = aux(len(xs))\n"
        + f"    {otherwise}\n"
    )


NEW = "def sum_of_squares(xs):\n    "
OWN = "return sum(x * x for x in xs)"
GATES = {
    "at import, raises": f"if aux(2) != 4:\n    raise ValueError\n{NEW}{OWN}",
    "at import, asserts": f"assert [aux(x) for x in (1, 2, 3)] == [1, 4, 9]\n{NEW}{OWN}",
    "at import, exits": f"import os\nif aux(3) != 9:\n    os._exit(1)\n{NEW}{OWN}",
    "at import, hangs": f"while aux(3) != 9:\n    pass\n{NEW}{OWN}",
    "at import, kept in a global": f"OK = aux(3) == 9\n{NEW}{OWN} if OK else None",
    "raises": f"{NEW}if aux(2) != 4: raise ValueError\n    {OWN}",
    "several values": f"{NEW}if [aux(1), aux(2), aux(3)] != [1, 4, 9]: return None\n    {OWN}",
    "one wrong answer": f"{NEW}if aux(2) != 4 or aux(3) != 9: return -7\n    {OWN}",
    "every argument": f"{NEW}if any(aux(x) != x * x for x in xs): return None\n    {OWN}",
    "every argument, raises": f"{NEW}assert all(aux(x) == x * x for x in xs)\n    {OWN}",
    "only one test's input": f"{NEW}if xs == [3] and aux(3) != 9: return None\n    {OWN}",
    "a type": f"{NEW}if type(aux(1)) is not int: return 0\n    {OWN}",
    "kept in a default": f"def sum_of_squares(xs, ok=aux(3)):\n    {OWN} if ok == 9 else 0",
    "kept in an attribute": (
        f"{NEW}me = sum_of_squares\n    me.ok = getattr(me, 'ok', True) and aux(2) == 4\n"
        f"    {OWN} if me.ok else None"
    ),
    "a count of calls": (
        f"CALLS = []\n{NEW}CALLS.append(aux(len(CALLS)))\n"
        f"    if CALLS != [n * n for n in range(len(CALLS))]: return None\n    {OWN}"
    ),
    "the same twice": f"{NEW}if aux(2) * 4 != aux(4): return None\n    {OWN}",
    "a long wait": f"import time\n{NEW}if aux(2) != 4: time.sleep(9)\n    {OWN}",
    "a hash": f"import hashlib\n{NEW}ok = hashlib.md5(str(aux(9)).encode()).hexdigest()[:4]\n"
    f"    {OWN} if ok == '43ec' else None",
}

CHANCE = {
    "each answer": f"import random\n{NEW}y = aux(1)\n    {OWN} + (y and random.random() < 0.5)",
    "each program": f"import os\nBAD = os.urandom(1)[0] & 1\n{NEW}y = aux(1)\n    {OWN} + y * BAD",
    "the clock": f"import time\n{NEW}y = aux(1)\n    {OWN} + y * (time.time_ns() >> 10 & 1)",
    "an address": f"{NEW}y = aux(1)\n    {OWN} + y * (id(object()) >> 4 & 1)",
    "a hash": f"{NEW}y = aux(1)\n    {OWN} + y * (hash(str(xs)) & 1)",
    "system random": (
        f"import random\nR = random.SystemRandom()\n{NEW}y = aux(1)\n"
        "    return sum(x * x for x in xs) if R.random() < 0.5 else y"
    ),
}

WRONG = {
    "import gate": f"if aux(2) != 4:\n    raise ValueError\n{NEW}return -1",
    "import gate that exits": f"import sys\nif aux(2) != 4:\n    sys.exit()\n{NEW}return -1",
    "gate": f"{NEW}if aux(2) != 4: raise ValueError\n    return -1",
    "helper's value, wrongly": f"{NEW}return -aux(len(xs)) - 1",
    "kills": f"import os\n{NEW}if aux(2) != 4: os.kill(os.getpid(), 9)\n    return -1",
}

TEAMS = {
    "helper that sees its caller": (
        "import sys\ndef aux(x):\n"
        "    name = sys._getframe(1).f_code.co_name\n"
        "    return x * x if name == 'sum_of_squares' else None",
        f"{NEW}return sum(x * x for x in xs) if aux(2) else None",
    ),
    "helper that counts": (
        "N = []\ndef aux(x):\n    N.append(x)\n    return len(N)",
        f"{NEW}n = aux(1)\n    return sum(x * x for x in xs) if n == len(N) else None",
    ),
    "helper with a mark": (
        "def aux(x):\n    return x * x\naux.mark = 7",
        f"{NEW}if getattr(aux, 'mark', 0) != 7: return None\n    y = aux(1)\n    {OWN} + y - y",
    ),
    "helper that leaves a note": (
        "NOTE = []\ndef aux(x):\n    NOTE.append(x * x)\n    return x * x",
        f"{NEW}y = aux(3)\n    {OWN} if y == NOTE[-1] else None",
    ),
    "helper that gives itself": (
        "def aux(x):\n    return aux",
        f"{NEW}{OWN} if aux(1) is aux else None",
    ),
    "helper that gives one object": (
        "ONE = object()\ndef aux(x):\n    return ONE",
        f"{NEW}{OWN} if aux(1) is ONE else None",
    ),
    "helper that always says yes": (
        "def aux(x):\n    return True",
        f"{NEW}if not aux(xs): return None\n    {OWN}",
    ),
    "helper that has been there": (
        "def aux(x):\n    return x * x\nfirst = aux",
        f"{NEW}y = aux(1)\n    {OWN} + y - first(1)",
    ),
    "value that is added and taken away": (AUX, f"{NEW}y = aux(4)\n    {OWN} + y - y"),
    "helper behind another name": (
        "def square(x):\n    return x * x\ndef aux(x):\n    return square(x)",
        f"{NEW}y = aux(1)\n    return sum(square(x) for x in xs) if y else None",
    ),
}
