"""The hostile files of PyTorch: archives, files from before 1.6, plain pickles (docs/formats.md).

Nothing in them may run. Faults of a plain pickle are also tried beside a tensor, where a file opens.
"""

import struct

from corpus_case import Case
from foreign_files import (
    DESCRIPTOR, LEGACY, SYSTEM, Entry, archive, call, check_legacy, check_pickle, check_zip, integer, legacy,
    pickled, raw_deflate, sizes, storage, tensor, text, torch_archive, tuple_of,
)  # fmt: skip

SUFFIX = "pkl"
SYSTEM_CALL = call("posix", "system", text("id") + b"\x85")
DAMAGED = "the pickle is damaged: "
UNKNOWN = "would call posix.system"
LIMITED = {"code": "limit_exceeded"}


def cases():
    for group in (good, damaged, literals, names, containers, outside, calls, hidden, calls_beside, shared, limits, archives,
                  storages, layouts, arrays, dtypes, legacies, legacy_lists, inner, forged, beside_known):  # fmt: skip
        yield from group()


def refused(name, data, says, at=None, *, code="foreign_invalid", suffix="pkl", **more):
    return Case(name, code, data, at, says=says, suffix=suffix, **more)


def opens(name, data, says=None, path=None, suffix="pkl"):
    return Case(name, "-", data, path=path, found_by="opens", says=says, suffix=suffix)


def beside(*values):
    """A list of a tensor and of values."""
    return b"](" + tensor() + b"".join(values) + b"e"


def file(*values, **options):
    """An archive of such a list."""
    return torch_archive(pickled(beside(*values)), **options)


def good():
    values = b"](" + text("a") + integer(-5) + integer(2**40) + b"G" + struct.pack(">d", 1.5) + b"\x88N}" + b"]e"
    check_pickle(pickled(values))
    yield opens("pickle-good", pickled(values))
    check_zip(file())
    check_pickle(pickled(beside()))
    yield opens("torch-good", file(), suffix="pt")
    data = legacy(tensor(of=storage(view=b"N")))
    check_legacy(data)
    yield opens("legacy-good", data, suffix="pt")


def damaged():
    """A plain pickle that differs in one way from a valid one."""

    def plain(name, body, says, valid, at=None, **more):
        check_pickle(pickled(valid))
        return refused(f"pickle-{name}", pickled(body), says, at, **more)

    under = DAMAGED + "it takes more from the stack than there is"
    for name, body, valid in (
        ("pop-empty", b"0N", b"N0N"), ("dup-empty", b"2", b"N20"), ("tuple1-empty", b"\x85", b"N\x85"),
        ("tuple2-of-one", b"N\x86", b"NN\x86"), ("tuple3-of-two", b"NN\x87", b"NNN\x87"), ("reduce-empty", b"R", b"N"),
        ("reduce-of-one", b")R", b")"), ("newobj-of-one", b")\x81", b"cm\nC\n)\x81"),
        ("newobj-ex-of-two", b")}\x92", b"cm\nC\n)}\x92"), ("build-of-one", b"}b", b"cm\nC\n)\x81}b"),
        ("append-of-one", b"]a", b"]Na"), ("setitem-of-two", b"}Ns", b"}NNs"), ("stop-empty", b"", b"N"),
        ("put-empty", b"q\0", b"Nq\0"), ("memoize-empty", b"\x94", b"N\x94"), ("persid-empty", b"Q", b"NQ"),
        ("stack-global-of-one", text("m") + b"\x93", text("m") * 2 + b"\x93"), ("reduce-below-mark", b"N(R", b"cm\nC\n)\x81"),
        ("pop-in-mark", b"((00N0", b"N"), ("appends-below-mark", b"(e", b"](e"), ("setitems-below-mark", b"((u", b"}(u"),
        ("additems-below-mark", b"(N\x90", b"\x8f(N\x90"), ("obj-of-nothing", b"(o", b"(cm\nC\no"),
    ):  # fmt: skip
        at = 2 + len(body) if name == "stop-empty" else None
        if name == "pop-in-mark":  # The first pops take marks, and the last finds nothing.
            body = b"((000N"
        yield plain(name, body, under, valid, at)
    mark = DAMAGED + "it takes the values above a mark, and there is no mark"
    for name, op, valid in (
        ("tuple", b"t", b"(t"), ("list", b"l", b"(l"), ("dict", b"d", b"(d"), ("frozenset", b"\x91", b"(\x91"),
        ("appends", b"e", b"](e"), ("setitems", b"u", b"}(u"), ("additems", b"\x90", b"\x8f(\x90"),
        ("pop-mark", b"1", b"(1N"), ("obj", b"o", b"(cm\nC\no"), ("inst", b"im\nC\n", b"(im\nC\n"),
    ):  # fmt: skip
        yield plain(f"mark-missing-{name}", b"N" + op, mark, valid, 3)
    left = DAMAGED + "it ends with values left on its stack"
    yield plain("two-values", b"NN", left, b"N", 4)
    yield plain("mark-left", b"(N", left, b"N", 4)
    yield plain("mark-left-below", b"N(", under, b"N", 4)

    memo = DAMAGED + "GET {} names nothing"
    yield plain("get-7", b"h\7", memo.format(7), b"Nq\7h\7\x86", 2)
    yield plain("get-text-7", b"g7\n", memo.format(7), b"Np7\ng7\n\x86", 2)
    yield plain("get-long-of-ones", b"j\xff\xff\xff\xff", memo.format(2**32 - 1), b"Nr\1\0\0\0j\1\0\0\0\x86", 2)
    yield plain("get-before-put", b"h\0Nq\0\x86", memo.format(0), b"Nq\0h\0\x86", 2)
    for number in (0, 9, 21474836470):  # The last one has 2^31 - 1 before its last digit.
        line = str(number).encode() + b"\n"
        yield opens(f"pickle-memo-{number}", pickled(b"Np" + line + b"g" + line + b"\x86"))
    number = DAMAGED + "the number of a memo is no number"
    for name, line in (("negative", b"-1"), ("sign-alone", b"-"), ("colon", b":"), ("letter", b"x"), ("hexadecimal", b"0x1"), ("of-21-digits", b"9" * 21)):
        yield plain(f"put-{name}", b"Np" + line + b"\n", number, b"Np1\n", 3)
        yield plain(f"get-{name}", b"Nq\1g" + line + b"\n\x86", number, b"Nq\1g1\n\x86", 5)
    yield plain("put-nothing", b"Np\n", DAMAGED + "a memo has no number", b"Np0\n", 3)
    yield plain("get-nothing", b"Nq\0g\n\x86", DAMAGED + "a memo has no number", b"Nq\0g0\n\x86", 5)
    yield opens("pickle-memo-of-ones", pickled(b"Nr\xff\xff\xff\xffj\xff\xff\xff\xff\x86"))
    yield opens("pickle-memo-replaced", pickled(b"Nq\0K\1q\0h\0\x87"))

    for name, op in (("00", 0), ("ff", 0xFF), ("99", 0x99), ("0x7f", 0x7F)):
        says = f"{DAMAGED}opcode 0x{op:02x} is none"
        yield plain(f"opcode-{name}", b"N" + bytes([op]), says, b"N", 3)
    other = {"code": "unsupported_feature", "valid": b"N"}
    for name, ops in (("ext1", b"\x82\1"), ("ext2", b"\x83\1\0"), ("ext4", b"\x84\1\0\0\0"), ("persid", b"P1\n"),
                      ("next-buffer", b"\x97"), ("readonly-buffer", b"N\x98")):  # fmt: skip
        says = f"the pickle needs something outside it (opcode 0x{ops.lstrip(b'N')[0]:02x}); no checkpoint does"
        yield plain(name, ops, says, at=2 + (ops[0:1] == b"N"), **other)
    says = "the pickle has protocol 6, and the last known one is 5"
    yield plain("protocol-6", b"\x80\6N", says, b"\x80\5N", 2, code="unsupported_version")
    yield plain("protocol-255", b"\x80\xffN", "the pickle has protocol 255, and", b"N", 2, code="unsupported_version")
    yield refused("pickle-begins-with-protocol-6", pickled(b"N", 6), "no format that the library reads (Espalier, ", 0,
                  code="not_a_checkpoint")  # fmt: skip

    # What the bytes lack may yet come, in a file that is no archive.
    cut = {"code": "truncated", "says": "the pickle ends in the middle; copy or download the file again"}
    for name, body in (("before-stop", b"N"), ("protocol-alone", b""), ("in-text", text("abc")[:-1]), ("in-length", b"X\1\0"),
                       ("in-int", b"J\1\2\3"), ("in-line", b"I12"), ("in-long", b"\x8a\2\1"), ("in-put", b"Nq"),
                       ("in-float", b"G1234567"), ("in-frame", b"\x95\1\0\0")):  # fmt: skip
        data = pickled(body)[:-1]
        yield refused(f"pickle-cut-{name}", data, at=len(data), **cut)
    yield refused("pickle-cut-in-class", pickled(b"cposix")[:-1], DAMAGED + "it ends in the name of a class", 2,
                  code="truncated")  # fmt: skip
    yield refused("pickle-cut-in-class-name", pickled(b"cposix\nsys")[:-1], DAMAGED + "it ends in the name of a class", 2,
                  code="truncated")  # fmt: skip
    for op in (b"\x8d", b"\x8e", b"\x96"):
        for name, length in (("2-63", 2**63), ("2-64", 2**64 - 1), ("one-more", 2)):
            data = pickled(op + struct.pack("<Q", length), 5)
            yield refused(f"pickle-length-of-{name}-by-{op.hex()}", data, at=len(data), **cut)
    for name, op in (("string", b"T"), ("long", b"\x8b")):
        yield plain(f"length-negative-{name}", op + b"\xff\xff\xff\xff", DAMAGED + "a length is negative", b"N", 2)
        yield plain(f"length-least-{name}", op + b"\0\0\0\x80", DAMAGED + "a length is negative", b"N", 2)
    for name, more in (("pickle", b"N."), ("byte", b"\0"), ("text", b"joblib")):
        says = f"the file goes on for {len(more)} byte{'s' * (len(more) > 1)} after its pickle"
        says += ", with another pickle; nothing was run; ask its author" if name == "pickle" else ""
        yield refused(f"pickle-then-{name}", pickled(b"K\7") + more, says, 5, code="trailing_bytes")


def literals():
    malformed = DAMAGED + "a literal of protocol 0 is malformed"
    for name, line, valid in (
        ("int-letter", b"I1x", b"I1"), ("int-empty", b"I", b"I1"), ("int-sign-alone", b"I-", b"I-1"),
        ("int-long", b"I1L", b"I1"), ("int-of-65-digits", b"I" + b"9" * 65, b"I" + b"9" * 64), ("int-plus", b"I+1", b"I1"),
        ("int-space", b"I 1", b"I1"), ("int-slash", b"I/", b"I0"), ("int-colon", b"I:", b"I0"), ("long-empty", b"L", b"L1L"),
        ("long-letter", b"L1x", b"L1L"), ("long-two-signs", b"L--1L", b"L-1L"),
        ("string-open", b"S'a", b"S'a'"), ("string-unopened", b"Sa'", b"S'a'"),
        ("string-quote-alone", b"S'", b"S''"), ("string-empty", b"S", b"S''"), ("string-two-quotes", b"S'a\"", b"S'a'"),
        ("string-bare", b"Saa", b"S'a'"), ("string-of-backquotes", b"S`a`", b"S'a'"),
    ):  # fmt: skip
        check_pickle(pickled(valid + b"\n"))
        yield refused(f"pickle-{name}", pickled(line + b"\n"), malformed, 2)
    yield refused("pickle-float", pickled(b"F1\n"), "the pickle has a float in decimal digits", 2, code="unsupported_feature")
    yield refused("pickle-bigint-with-zeros", pickled(b"L" + b"0" * 5 + b"9" * 30 + b"L\n"), malformed, 2)
    yield opens("pickle-int-of-64", pickled(b"I" + b"9" * 64 + b"\n"))
    yield opens("pickle-text-half-pair", pickled(b"X\3\0\0\0\xed\xa0\x80"))


def names():
    # A name of more than 4096 bytes does not fit in these files; a unit test has one.
    yield opens("pickle-long-class", pickled(b"c" + b"a" * 2000 + b"\nb\n"),
                "Loading this with pickle would import " + "a" * 256 + "...; nothing was run.")
    no_text = DAMAGED + "the name of a class is no text"
    for name, values in (("int", integer(1) + text("b")), ("second-int", text("a") + integer(1)), ("tuple", b")" + text("b")),
                         ("second-tuple", text("a") + b")"), ("bytes", b"C\1a" + text("b")), ("escaped", b"Va\n" + text("b")),
                         ("second-none", text("a") + b"N")):  # fmt: skip
        check_pickle(pickled(text("a") + text("b") + b"\x93"))
        yield refused(f"pickle-class-named-by-{name}", pickled(values + b"\x93", 4), no_text, 2 + len(values))


def containers():
    twice = "a dict has the same key twice; Python writes no such pickle"
    for name, first, second in (("int", integer(1), integer(1)), ("true-and-1", b"\x88", integer(1)), ("false-and-0", b"\x89", integer(0)),
                                ("text", text("a"), text("a")), ("text-by-escape", text("a"), b"V\\u0061\n"),
                                ("text-and-string", text("a"), b"U\1a"), ("long", integer(2**40), b"L1099511627776L\n")):  # fmt: skip
        yield refused(f"pickle-key-{name}-twice", pickled(b"}(" + first + b"N" + second + b"Nu"), twice)
    yield refused("pickle-key-twice-apart", pickled(b"}(" + b"".join(integer(i) + b"N" for i in (1, 2, 3, 1)) + b"u"), twice)
    yield refused("pickle-key-set-twice", pickled(b"}K\1NsK\1Ns"), twice)
    yield refused("pickle-key-twice-inside", pickled(b"}" + text("a") + b"}(K\1NK\1Nus"), twice, path="a/1")
    lone = DAMAGED + "it sets a key without a value"
    yield refused("pickle-key-alone", pickled(b"}(K\1u"), lone, 6)
    yield refused("pickle-three-in-dict", pickled(b"(K\1NK\2d"), lone, 8)
    for name, target in (("None", b"N"), ("an int", integer(1)), ("a bool", b"\x88"), ("a str", text("a")), ("a tuple", b")"),
                         ("a float", b"G12345678"), ("a dict", b"}"), ("a set", b"\x8f"), ("a frozenset", b"(\x91"),
                         ("a class", b"cm\nC\n"), ("a bytes", b"C\1a"), ("a bytearray", b"\x96" + bytes(8))):  # fmt: skip
        body = target + b"Na"
        yield refused(f"pickle-append-to-{name.split()[-1]}", pickled(body, 5), f"{DAMAGED}it adds elements to {name}", 1 + len(body))
    yield refused("pickle-setitem-of-list", pickled(b"]NNs"), DAMAGED + "it adds elements to a list", 5)
    yield refused("pickle-additems-to-list", pickled(b"](N\x90", 4), DAMAGED + "it adds elements to a list", 5)
    yield refused("pickle-append-to-list-of-tuple", pickled(b")(Ne"), DAMAGED + "it adds elements to a tuple", 5)
    for name, target in (("None", b"N"), ("a str", text("a")), ("a list", b"]"), ("a dict", b"}"), ("a class", b"cm\nC\n"),
                         ("an int", integer(2**80)), ("a persistent object", b"NQ")):  # fmt: skip
        body = target + b"}b"
        yield refused(f"pickle-state-of-{name.split()[-1]}{len(target)}", pickled(body), f"{DAMAGED}it sets the state of {name}",
                      1 + len(body))  # fmt: skip
    twice = DAMAGED + "it sets the state of one object twice"
    yield refused("pickle-state-twice", pickled(b"cm\nC\n)\x81}b}b"), twice, 12)
    yield opens("pickle-list-in-itself", pickled(b"]q\0K\7ah\0a"), "This object is inside itself; a null stands in its place.", "1")
    yield opens("pickle-dict-in-itself", pickled(b"}q\0" + text("a") + b"h\0s"), "This object is inside itself", "a")
    yield opens("pickle-state-in-itself", pickled(b"cm\nC\n)\x81q\0}" + text("a") + b"h\0sb"), "This object is inside itself", "a")


def outside():
    """References to what is not in the pickle."""
    foreign = "the pickle refers to an object outside it that is not a torch storage"
    parts = [text("storage"), b"ctorch\nFloatStorage\n", text("0"), text("cpu"), integer(4)]

    def reference(number, value):
        return tuple_of(*parts[:number], value, *parts[number + 1 :]) + b"Q"

    check_pickle(pickled(beside(storage())))
    for name, pid in (("int", integer(1) + b"Q"), ("text", text("0") + b"Q"), ("list", b"]Q"), ("empty", b")Q"),
                      ("of-four", tuple_of(*parts[:4]) + b"Q"), ("of-other-kind", reference(0, text("tensor"))),
                      ("of-no-kind", reference(0, b"N")), ("class-text", reference(1, text("FloatStorage"))),
                      ("class-none", reference(1, b"N")), ("key-int", reference(2, integer(0))), ("key-none", reference(2, b"N")),
                      ("key-half-pair", reference(2, b"X\3\0\0\0\xed\xa0\x80")), ("location-int", reference(3, integer(0))),
                      ("numel-text", reference(4, text("4"))), ("numel-none", reference(4, b"N")),
                      ("numel-negative", reference(4, integer(-4))), ("numel-bigint", reference(4, integer(2**64)))):  # fmt: skip
        yield refused(f"torch-reference-{name}", file(pid), foreign, path="1", suffix="pt")
        layout = tensor(of=pid)
        yield refused(f"torch-tensor-of-{name}", file(layout), foreign, path="1", suffix="pt")
    yield refused("pickle-reference", pickled(b"NQ"), foreign, path="")
    for name, value in (("int", integer(0)), ("tuple", b")"), ("class", b"cm\nC\n"), ("dict", b"}")):
        yield refused(f"torch-tensor-of-plain-{name}", file(tensor(of=value)), foreign, path="1", suffix="pt")
    missing = "data/9 is not in the archive; the file is incomplete"
    yield refused("torch-storage-missing", file(storage("9")), missing, path="1", suffix="pt")
    yield refused("torch-storage-path", file(storage("../data/0")), "data/../data/0 is not in the archive", path="1", suffix="pt")
    yield refused("torch-storage-absolute", file(storage("/etc/passwd")), "data//etc/passwd is not in the archive", path="1",
                  suffix="pt")  # fmt: skip
    yield refused("torch-storage-zero-byte", file(storage("0\0")), "is not in the archive; the file is incomplete", path="1",
                  suffix="pt")  # fmt: skip
    yield refused("pickle-storage", pickled(storage("9")), "storage 9 is not in the file; the file is incomplete", path="")


def calls():
    """Without tensors, whatever calls something unknown is refused."""
    only = "this pickle holds no tensors, and loading it with pickle would call {}; nothing was run; ask its author for"
    named = [("posix", "system"), ("builtins", "eval"), ("builtins", "exec"), ("builtins", "getattr"), ("subprocess", "Popen"),
             ("pip._internal.cli.main", "main"), ("pkgutil", "resolve_name"), ("runpy", "run_path"), ("webbrowser", "open"),
             ("torch.utils._config_module", "load_config"), ("idlelib.pyshell", "main"), ("numpy.testing", "runstring"),
             ("torch.jit.unsupported_tensor_ops", "execWrapper"), ("_io", "FileIO"), ("torch", "load")]  # fmt: skip
    for module, name in named:
        body = call(module, name, text("id") + b"\x85")
        check_pickle(pickled(body))
        yield refused(f"call-{module}.{name}", pickled(body), only.format(f"{module}.{name}"))
    yield refused("call-of-python-2", pickled(call("__builtin__", "eval", text("1") + b"\x85")), only.format("builtins.eval"))
    evil = only.format("posix.system")
    stack = text("posix") + text("system") + b"\x93" + text("id") + b"\x85R"
    yield refused("call-by-stack-global", pickled(stack, 4), evil)
    yield refused("call-by-inst", pickled(b"(" + text("id") + b"iposix\nsystem\n"), evil)
    yield refused("call-by-obj", pickled(b"(cposix\nsystem\n" + text("id") + b"o"), evil)
    # A class without arguments is made, and a function is called.
    yield refused("call-by-inst-without-arguments", pickled(b"(iposix\nabort\n"), only.format("posix.abort"))
    yield refused("call-by-obj-without-arguments", pickled(b"(cposix\nabort\no"), only.format("posix.abort"))
    # MEMOIZE takes the number of entries; one entry was there before those with smaller numbers.
    memo = b"Nq\1" + b"0Nq\0" + b"0Nq\1" + b"0cpathlib\nPurePosixPath\nq\3" + b"0cposix\nsystem\n\x940"
    yield refused("call-by-number-of-memoize", pickled(memo + b"h\3" + text("id") + b"\x85R", 4), evil)
    yield refused("call-of-a-call", pickled(call("builtins", "getattr", tuple_of(text("a"), text("b"))) + b")R"),
                  "would call")  # fmt: skip
    yield refused("call-with-list-of-arguments", pickled(b"cposix\nsystem\n]" + text("id") + b"aR"), evil)
    reconstruct = lambda base, state: call("copyreg", "_reconstructor", b"csubprocess\nPopen\n" + base + state + b"\x87")
    # It calls the __init__ of the base with the state.
    yield refused("call-by-reconstructor", pickled(reconstruct(b"csubprocess\nPopen\n", text("id"))),
                  only.format("copyreg._reconstructor"))  # fmt: skip
    yield refused("call-by-reconstructor-of-call", pickled(reconstruct(SYSTEM_CALL, b"N")), "would call")
    yield opens("pickle-reconstructor", pickled(reconstruct(b"cbuiltins\nobject\n", b"N")), "would call subprocess.Popen")
    for name, body in (("by-pop", SYSTEM_CALL + b"0N"), ("by-pop-mark", b"N(" + SYSTEM_CALL + b"1"),
                       ("by-memo", SYSTEM_CALL + b"q\0" + b"0N"), ("as-key", b"}" + SYSTEM_CALL + b"Ns"),
                       ("in-a-state", b"cm\nC\n)\x81" + SYSTEM_CALL + b"b"), ("in-a-dict", b"}" + text("a") + SYSTEM_CALL + b"s"),
                       ("as-keywords", b"cm\nC\n)" + SYSTEM_CALL + b"\x92"),
                       ("replaced-in-memo", SYSTEM_CALL + b"q\0" + b"0Nq\0")):  # fmt: skip
        yield refused(f"call-hidden-{name}", pickled(body, 4), "would call posix.system")
    # Python makes the call before it comes to the damage, which hid such pickles from scanners.
    yield refused("call-before-damage", pickled(SYSTEM_CALL + b"0h\7"), DAMAGED + "GET 7 names nothing")
    # torch.load() in torch.load().
    within = call("torch.storage", "_load_from_bytes", b"C\2N.\x85")
    yield refused("call-of-load-from-bytes", pickled(within, 3), only.format("torch.storage._load_from_bytes"))
    yield refused("call-hidden-as-class", pickled(SYSTEM_CALL + b")\x81"), only.format("what another call returns"))
    codec = call("_codecs", "encode", tuple_of(text("a"), text("rot13")))
    yield refused("call-of-another-codec", pickled(codec), "bytes are encoded in another way than Python does")
    yield refused("call-of-codec-with-wide-text", pickled(call("_codecs", "encode", tuple_of(text("\u0100"), text("latin1")))),
                  "bytes are encoded in another way than Python does")  # fmt: skip


def hidden():
    """Beside a tensor, the file opens, and a note names each call."""
    noted = "Loading this with pickle would call posix.system"
    shown = thrown = noted + "; nothing was run."
    yield opens("torch-call-beside", file(SYSTEM_CALL), shown, "1", "pt")
    yield opens("torch-call-by-inst", file(b"(" + text("id") + b"iposix\nsystem\n"), shown, "1", "pt")
    yield opens("torch-call-popped", file(SYSTEM_CALL + b"0"), thrown, "", "pt")
    yield opens("torch-call-popped-first", torch_archive(pickled(SYSTEM_CALL + b"0" + tensor())), thrown, "", "pt")
    hooks = tensor(more=b"\x89" + SYSTEM_CALL)
    yield opens("torch-call-as-hooks", torch_archive(pickled(hooks)), thrown, "", "pt")
    metadata = tensor(more=b"\x89)" + SYSTEM_CALL)
    yield opens("torch-call-as-metadata", torch_archive(pickled(metadata)), noted, None, "pt")
    yield opens("torch-call-as-requires-grad", torch_archive(pickled(beside(tensor(more=SYSTEM_CALL + b")")))), noted, None, "pt")
    sized = tensor().replace(sizes(4), SYSTEM_CALL, 1)
    yield refused("torch-call-as-size", torch_archive(pickled(sized)), "a tensor's size, stride or offset is malformed", path="",
                  suffix="pt")  # fmt: skip
    popen = call("copyreg", "_reconstructor", b"csubprocess\nPopen\ncsubprocess\nPopen\n" + text("id") + b"\x87")
    yield opens("torch-call-by-reconstructor", file(popen), "would call copyreg._reconstructor", "1", "pt")
    wrapped = call("torch._tensor", "_rebuild_from_type_v2", tuple_of(b"cposix\nsystem\n", b"ctorch\nTensor\n", text("id") + b"\x85", b"}"))
    yield opens("torch-call-by-rebuild", file(wrapped), "would call torch._tensor._rebuild_from_type_v2", "1", "pt")
    rebuild = b"ctorch._tensor\n_rebuild_from_type_v2\n"
    args = tuple_of(rebuild, b"ctorch\nTensor\n", tuple_of(b"N", b"N", b"N", b"N"), b"N")
    twice = call("torch._tensor", "_rebuild_from_type_v2", tuple_of(rebuild, b"ctorch\nTensor\n", args, b"N"))
    yield opens("torch-rebuild-in-rebuild", file(twice), "would call torch._tensor._rebuild_from_type_v2", "1", "pt")
    # A storage of a plain pickle is a whole file, which torch.load() would run.
    inner = pickled(call("posix", "system", text("id") + b"\x85"))
    within = call("torch.storage", "_load_from_bytes", b"C" + bytes([len(inner)]) + inner + b"\x85")
    yield opens("torch-call-in-storage", file(tensor(of=within)), "would call torch.storage._load_from_bytes", None, "pt")
    yield opens("torch-call-as-storage", file(tensor(of=SYSTEM_CALL)), noted, None, "pt")


def calls_beside():
    """What looks like a value that is known, with something else in it."""
    for name, value, label in (
        ("set-of-call", call("builtins", "set", SYSTEM_CALL + b"\x85"), "builtins.set"),
        ("deque-of-call", call("collections", "deque", SYSTEM_CALL + b"\x85"), "collections.deque"),
        ("dtype-of-call", call("numpy", "dtype", SYSTEM_CALL + b"\x85"), "numpy.dtype"),
        ("size-of-call", call("torch", "Size", SYSTEM_CALL + b"\x85"), "posix.system"),
        ("device-of-call", call("torch", "device", SYSTEM_CALL + b"\x85"), "torch.device"),
        ("layout-of-call", call("torch.serialization", "_get_layout", SYSTEM_CALL + b"\x85"), "torch.serialization._get_layout"),
        ("path-of-call", call("pathlib", "PosixPath", SYSTEM_CALL + b"\x85"), "pathlib.PosixPath"),
        ("factory-of-call", call("collections", "defaultdict", SYSTEM_CALL + b"\x85"), "collections.defaultdict"),
        ("counter-of-call", call("collections", "Counter", SYSTEM_CALL + b"\x85"), "collections.Counter"),
        ("parameter-of-number", call("torch._utils", "_rebuild_parameter", b"K\1\x88N\x87"), "torch._utils._rebuild_parameter"),
        ("tag-of-number", call("torch.jit._pickle", "restore_type_tag", b"K\1K\1\x86"), "torch.jit._pickle.restore_type_tag"),
    ):  # fmt: skip
        yield opens(f"torch-{name}", file(value), f"would call {label}", None, "pt")


def shared():
    many = "objects in this pickle are shared so often that its tree would have more nodes than the pickle has bytes"
    # 2^20 leaves, in 45 bytes.
    yield refused("pickle-shared-tuples", pickled(b"]" + b"2\x86" * 20), many, **LIMITED)
    lists = b"(]q\0" + b"".join(b"](h%ch%ceq%c" % (i, i, i + 1) for i in range(20)) + b"t"
    yield refused("pickle-shared-lists", pickled(lists), many, **LIMITED)
    yield opens("pickle-shared-a-little", pickled(b"]" + b"2\x86" * 14))
    deep = "calls in this pickle are nested too deep"
    parameter = b"ctorch._utils\n_rebuild_parameter\n"
    yield refused("pickle-calls-in-calls", pickled(parameter * 40 + b")" + b"\x88N\x87R" * 40), deep)
    yield opens("pickle-calls-in-31-calls", pickled(parameter * 31 + b")" + b"\x88N\x87R" * 31))
    yield refused("pickle-too-deep", pickled(b"(" * 300 + b"l" * 300), "Limits::depth", **LIMITED)
    yield refused("pickle-tuples-too-deep", pickled(b"N" + b"\x85" * 3000), "Limits::depth", **LIMITED)


def limits():
    body = b"](" + text("limit") + b"K\1K\2K\3e"
    yield refused("pickle-limit-bytes", pickled(body), "Limits::pickle_bytes", limits={"pickle_bytes": len(body) + 2}, **LIMITED)
    # Of more bytes than the directory has, which has a limit of its own.
    long = text("limit" * 40)
    data = file(long)
    size = len(pickled(beside(long)))
    yield refused("torch-limit-bytes", data, f"the pickle has {size} bytes and Limits::pickle_bytes allows {size - 1}", 0, suffix="pt",
                  limits={"pickle_bytes": size - 1}, **LIMITED)  # fmt: skip
    data = legacy(b"](" + tensor(of=storage(view=b"N")) + text("limit") + b"e")
    size = len(data) - 24
    yield refused("legacy-limit-bytes", data, "Limits::pickle_bytes", suffix="pt", limits={"pickle_bytes": size - 1}, **LIMITED)
    yield refused("pickle-limit-nodes", pickled(b"](K\1K\2K\3K\4e"), "Limits::nodes", limits={"nodes": 5}, **LIMITED)
    yield refused("pickle-limit-depth", pickled(b"]]]aa"), "Limits::depth", limits={"depth": 1}, **LIMITED)
    number = b"\x8a\x11" + bytes(16) + b"\1"
    yield refused("pickle-limit-bigint", pickled(number), "than the bytes that Limits::bigint_bytes allows", path="", limits={"bigint_bytes": 16}, **LIMITED)
    digits = b"L" + str(2**128).encode() + b"L\n"
    yield refused("pickle-limit-decimal", pickled(digits), "Limits::bigint_bytes", path="", limits={"bigint_bytes": 16}, **LIMITED)
    yield refused("pickle-bigint-of-1025", pickled(b"\x8b\1\4\0\0" + bytes(1024) + b"\1"), "Limits::bigint_bytes", **LIMITED)
    yield refused("pickle-limit-path", pickled(b"}" + text("long") + b"Ns"), "Limits::path_bytes", limits={"path_bytes": 3}, **LIMITED)
    yield refused("pickle-limit-text", pickled(text("text")), "Limits::text_bytes", limits={"text_bytes": 3}, **LIMITED)
    ranked = torch_archive(pickled(tensor(size=(1, 1, 4), stride=(4, 4, 1))))
    yield refused("torch-limit-rank", ranked, "Limits::rank", path="", suffix="pt", limits={"rank": 2}, **LIMITED)
    yield refused("torch-rank-65", torch_archive(pickled(tensor(size=(1,) * 65, stride=(1,) * 65))), "Limits::rank", path="",
                  suffix="pt", **LIMITED)  # fmt: skip
    # A stride of 0: with three bytes more or less in the file, 4 TiB.
    repeats = "up to this tensor, the tensors take more than {} bytes, which a file of {} bytes may stand for; ".format
    for name, elements in (("torch-of-4-tib", 2**40), ("torch-limit-repeats", 1000)):
        data = torch_archive(pickled(b"}" + text("c") + tensor(size=(elements,), stride=(0,)) + b"s"))
        room = 2**30 if elements > 1000 else 4 * elements - 1
        yield refused(name, data, repeats(room, len(data)), path="c", suffix="pt",
                      limits={} if elements > 1000 else {"decoded_bytes": room}, **LIMITED)  # fmt: skip
    # 256 MiB, but each byte costs a loop for each axis.
    data = torch_archive(pickled(b"}" + text("c") + tensor(size=(2,) * 26, stride=(0,) * 26) + b"s"))
    yield refused("torch-of-26-axes", data, repeats(2**30, len(data)), path="c", suffix="pt", **LIMITED)
    chunks = torch_archive(pickled(b"}" + text("c") + tensor() + b"s"))
    yield refused("torch-limit-chunks", chunks, "the file has more chunks than fit in Limits::index_bytes", suffix="pt",
                  limits={"index_bytes": 31}, **LIMITED)  # fmt: skip


def archives():
    def pt(name, data, says, at=None, **more):
        return refused(f"torch-{name}", data, says, at, suffix="pt", **more)

    pickle = pickled(beside())
    twice = archive([Entry(b"a/data.pkl", pickle), Entry(b"a/data/0", bytes(16)), Entry(b"b/data.pkl", pickle)])
    yield pt("two-pickles", twice, "the archive has two data.pkl, and programs take either of them", twice.rindex(b"PK\3\4"))
    # PyTorch finds entries by names in any case.
    upper = torch_archive(pickle, folder=b"b", more=[Entry(b"a/DATA.PKL", pickle)])
    yield pt("two-pickles-in-cases", upper, "the archive has two data.pkl", upper.rindex(b"PK\3\4"))
    cases = "the archive has two entries whose names differ only in case, and programs take either of them"
    more = [Entry(b"archive/byteorder", b"little"), Entry(b"archive/ByteOrder", b"big")]
    yield pt("two-byte-orders-in-cases", torch_archive(pickle, more=more), cases)
    yield pt("two-storages-in-cases", torch_archive(pickle, {"0": bytes(16), "k": bytes(16), "K": bytes(16)}), cases)
    other = "the archive has its {} under a name in other letters, which not all programs find"
    yield pt("pickle-in-capitals", archive([Entry(b"a/DATA.PKL", pickle), Entry(b"a/data/0", bytes(16))]), other.format("data.pkl"), 0)
    for name in (b"archive/BYTEORDER", b"ARCHIVE/byteorder"):
        swapped = torch_archive(pickle, more=[Entry(name, b"big")])
        yield pt(f"byte-order-as-{name.decode().replace('/', '-')}", swapped, other.format("byteorder"), swapped.rindex(b"PK\3\4"))
    # The pickle begins after a header and its name.
    yield pt("pickle-then-another", torch_archive(pickle + pickled(SYSTEM_CALL)), "the pickle goes on after its end", 46 + len(pickle))
    yield pt("pickle-then-byte", torch_archive(pickle + b"\0"), "the pickle goes on after its end")
    # The entry is whole, so this is no download that ended early.
    yield pt("pickle-cut", torch_archive(pickle[:-1]), "the pickle ends in the middle; copy or download the file again")
    yield pt("pickle-empty", torch_archive(b""), "the pickle ends in the middle")
    yield pt("pickle-damaged", torch_archive(pickled(b"h\7")), DAMAGED + "GET 7 names nothing")
    # What runs before the pickle fails is told, too.
    first = SYSTEM_CALL + b"0"
    code = "; loading this with pickle would import or call posix.system; nothing was run"
    yield pt("pickle-calls-then-damage", torch_archive(pickled(first + b"h\7")), DAMAGED + "GET 7 names nothing" + code)
    yield pt("pickle-calls-without-storage", torch_archive(pickled(first + tensor()), {}), "data/0 is not in the archive; the file is incomplete" + code, path="")
    yield pt("pickle-of-protocol-6", torch_archive(pickled(b"N", 6)), "the pickle has protocol 6", code="unsupported_version")
    yield pt("pickle-calls", torch_archive(pickled(SYSTEM_CALL)), "would call posix.system")
    rooted = archive([Entry(b"/data.pkl", pickle), Entry(b"/data/0", bytes(16))])
    yield pt("folder-without-name", rooted, "it is a zip archive; unpack it first", 0, code="not_a_checkpoint")
    wrong = "the entry 'archive/data.pkl' of the zip archive does not match its size and CRC-32"
    other = {"central": {"crc": 1}, "local": {"crc": 1}}
    yield pt("pickle-crc", archive([Entry(b"archive/data.pkl", pickle, **other), Entry(b"archive/data/0", bytes(16))]), wrong)

    def deflated(name, packed, says, data=pickle, **more):
        entry = Entry(b"archive/data.pkl", data, packed, method=8, **more)
        return pt(f"pickle-deflated-{name}", archive([entry, Entry(b"archive/data/0", bytes(16))]), says)

    valid = archive([Entry(b"archive/data.pkl", pickle, raw_deflate(pickle), method=8), Entry(b"archive/data/0", bytes(16))])
    check_zip(valid)
    yield opens("torch-pickle-deflated", valid, suffix="pt")
    broken = "the entry 'archive/data.pkl' of the zip archive cannot be read: the compressed data are damaged"
    yield deflated("damaged", b"\7" + raw_deflate(pickle)[1:], broken)
    yield deflated("cut", raw_deflate(pickle)[:-1], wrong)
    yield deflated("crc", raw_deflate(pickle), wrong, **other)
    claims = {"length": 2 << 20}
    bomb = Entry(b"archive/data.pkl", pickle, raw_deflate(pickle) + bytes(2100), method=8, central=claims, local=claims)
    says = f"the pickle has {2 << 20} bytes and its deflated form {len(bomb.packed)}, which no checkpoint needs"
    yield pt("pickle-deflated-bomb", archive([bomb, Entry(b"archive/data/0", bytes(16))]), says, 0, code="limit_exceeded")
    yield opens("torch-folder-in-capitals", archive([Entry(b"A/data.pkl", pickle), Entry(b"A/data/0", bytes(16))]), suffix="pt")
    order = "the byte order is neither little nor big"
    for name, value in (("empty", b""), ("middle", b"middle"), ("capitals", b"Big"), ("line", b"big\n"), ("long", b"little" + bytes(20))):
        yield pt(f"byteorder-{name}", file(more=[Entry(b"archive/byteorder", value)]), order)
    yield pt("byteorder-crc", file(more=[Entry(b"archive/byteorder", b"little", **other)]),
             "the entry 'archive/byteorder' of the zip archive does not match its size and CRC-32")  # fmt: skip
    for value in (b"little", b"big"):
        yield opens(f"torch-byteorder-{value.decode()}", file(more=[Entry(b"archive/byteorder", value)]), suffix="pt")
    yield opens("torch-byteorder-elsewhere", file(more=[Entry(b"other/byteorder", b"middle")]),
                "The archive holds 1 file outside archive/, which are not shown.", "", "pt")  # fmt: skip
    unused = torch_archive(pickle, {"0": bytes(16), "1": bytes(5)})
    yield opens("torch-unreached", unused, "5 bytes of the storages belong to no tensor; a converted file lacks them.", "", "pt")
    part = torch_archive(pickled(tensor(offset=1, size=(2,))))
    yield opens("torch-unreached-part", part, "8 bytes of the storages belong to no tensor", "", "pt")
    overlapping = beside(tensor(size=(3,)), tensor(offset=2, size=(2,)))[:-1] + b"e"
    yield opens("torch-views", torch_archive(pickled(overlapping)), suffix="pt")
    code = [Entry(b"archive/code/__torch__.py", b"import os")]
    upper = [Entry(b"archive/CODE/__torch__.py", b"import os")]
    yield opens("torch-code-in-capitals", file(more=upper), "The archive holds TorchScript code, which torch.jit would run", "", "pt")
    yield opens("torch-code", file(more=code), "The archive holds TorchScript code, which torch.jit would run; it is neither shown nor run here.", "", "pt")
    constants = [Entry(b"archive/constants/0", b"x"), Entry(b"archive/constants/1", b"y")]
    yield opens("torch-constants", file(more=constants), "The archive holds 2 constants of TorchScript code", "", "pt")
    storage_crc = archive([Entry(b"archive/data.pkl", pickle), Entry(b"archive/data/0", bytes(16), **other)])
    yield pt("storage-crc", storage_crc, "the bytes do not match the CRC-32 that the file has for them", storage_crc.rindex(bytes(16)
             , 0, storage_crc.index(b"PK\1\2")), code="chunk_corrupt", found_by="verify", path="0")  # fmt: skip
    packed = Entry(b"archive/data/0", bytes(16), raw_deflate(bytes(16)), method=8)
    bomb = Entry(b"archive/data/0", bytes(16), b"\3\0", method=8)
    yield opens("torch-storage-deflated", archive([Entry(b"archive/data.pkl", pickle), packed]), suffix="pt")
    yield pt("storage-deflated-empty", archive([Entry(b"archive/data.pkl", pickle), bomb]),
             "the compressed entry 'archive/data/0' holds 0 bytes and not the 16", found_by="read")  # fmt: skip
    # What torch writes where it skips the checksum, and with descriptors.
    late = {"flags": DESCRIPTOR, "after": b"PK\7\x08" + bytes(12)}
    yield opens("torch-descriptors", archive([Entry(b"x/data.pkl", pickle, **late), Entry(b"x/data/0", bytes(16), **late)]), suffix="pt")


def storages():
    def pt(name, value, says, **more):
        data = torch_archive(pickled(b"](" + value + b"e"), more.pop("storages", None))
        return refused(f"torch-{name}", data, says, path="0", suffix="pt", **more)

    short = "storage 0 has {} and should have {} of {}"
    yield pt("storage-short", tensor(), short.format("15 bytes", "4 elements", "4 bytes"), storages={"0": bytes(15)})
    yield pt("storage-long", tensor(), short.format("17 bytes", "4 elements", "4 bytes"), storages={"0": bytes(17)})
    yield pt("storage-of-0", tensor(), short.format("0 bytes", "4 elements", "4 bytes"), storages={"0": b""})
    yield pt("numel-5", tensor(storage(numel=5)), short.format("16 bytes", "5 elements", "4 bytes"))
    yield pt("numel-wraps", tensor(storage(numel=2**62 + 4)), short.format("16 bytes", f"{2**62 + 4} elements", "4 bytes"))
    yield pt("numel-largest", tensor(storage(numel=2**63 - 1)), short.format("16 bytes", f"{2**63 - 1} elements", "4 bytes"))
    yield pt("storage-wider", tensor(storage(cls="DoubleStorage")), short.format("16 bytes", "4 elements", "8 bytes"))
    yield pt("storage-untyped", tensor(storage(numel=4, cls="UntypedStorage", module="torch.storage")),
             short.format("16 bytes", "4 elements", "1 byte"))  # fmt: skip
    part = "a part of storage 0 goes beyond it"
    for name, view in (("beyond", (1, 4)), ("late", (5, 0)), ("long", (0, 5)), ("negative", (-1, 1)), ("count-negative", (0, -1)),
                       ("wraps", (2**63 - 1, 2**63 - 1))):  # fmt: skip
        of = storage(view=tuple_of(text("0"), integer(view[0]), integer(view[1])))
        yield pt(f"part-{name}", tensor(of, size=(1,)), part)
    for name, view in (("of-two", tuple_of(text("0"), integer(0))), ("offset-text", tuple_of(text("0"), text("0"), integer(4))),
                       ("count-none", tuple_of(text("0"), integer(0), b"N"))):  # fmt: skip
        yield pt(f"part-{name}", tensor(storage(view=view)), part)
    half = storage(view=tuple_of(text("0"), integer(0), integer(2)))
    yield opens("torch-part-first", torch_archive(pickled(tensor(half, size=(2,)))), "8 bytes of the storages belong", "", "pt")
    nothing = tensor(storage(numel=0), size=(0,))
    yield opens("torch-numel-0", torch_archive(pickled(nothing), {"0": b""}), suffix="pt")
    yield opens("torch-cuda", torch_archive(pickled(tensor(storage(module="torch.cuda")))), suffix="pt")
    # As long as the ending of the names that are known.
    other_end = tensor(storage(cls="FloatSt0rage"))
    yield opens("torch-storage-with-another-end", torch_archive(pickled(beside(other_end))), "the class of its storage is unknown", "1", "pt")
    unknown = storage(cls="StrangeStorage")
    placeholder = "This tensor cannot be given: the class of its storage is unknown."
    yield opens("torch-storage-unknown", torch_archive(pickled(beside(tensor(unknown)))), placeholder, "1", "pt")
    yield opens("torch-storage-unknown-alone", torch_archive(pickled(beside(unknown))), "the class of this storage is unknown", "1", "pt")
    other_module = storage(module="os")
    yield opens("torch-storage-of-another-module", torch_archive(pickled(beside(tensor(other_module)))), placeholder, "1", "pt")
    untyped = storage(numel=16, cls="UntypedStorage", module="torch.storage")
    yield opens("torch-storage-without-dtype", torch_archive(pickled(beside(tensor(untyped)))), "its storage has no dtype", "1", "pt")


def layouts():
    def pt(name, value, says, **more):
        return refused(f"torch-{name}", torch_archive(pickled(b"](" + value + b"e")), says, path="0", suffix="pt", **more)

    needs = "storage 0 has 16 bytes and the tensor needs "
    yield pt("tensor-longer", tensor(size=(5,)), needs + "20")
    yield pt("tensor-later", tensor(offset=1), needs + "20")
    yield pt("tensor-wider-steps", tensor(size=(2,), stride=(4,)), needs + "20")
    yield pt("tensor-two-axes", tensor(size=(2, 3), stride=(2, 1)), needs + "20")
    yield pt("tensor-of-terabytes", tensor(size=(2**40,)), needs + str(2**42))
    for name, shape in (("offset-wraps", {"offset": 2**63 - 1}), ("stride-wraps", {"size": (3,), "stride": (2**63 - 1,)}),
                        ("reach-wraps", {"size": (2, 2, 2), "stride": (2**63 - 1, 2**63 - 1, 2)}),
                        ("bytes-wrap", {"size": (2**62 + 1,)}), ("bytes-just-wrap", {"size": (2**62,)})):  # fmt: skip
        yield pt(f"tensor-{name}", tensor(**shape), needs + "more than 2^64")
    yield pt("tensor-product-wraps", tensor(size=(2**32, 2**32), stride=(0, 0)), needs + "more than 2^64")
    for name, value in (("empty-beyond", tensor(offset=100, size=(0,))), ("strided", tensor(size=(2,), stride=(2,))),
                        ("metadata-none", tensor(more=b"\x89)N")), ("negated", tensor(more=b"\x89)}" + text("neg") + b"\x88s")),
                        ("requires-grad-int", tensor(more=b"K\1)")),
                        ("conjugated", tensor(storage(numel=2, cls="ComplexFloatStorage"), size=(2,), more=b"\x89)}" + text("conj") + b"\x88s")),
                        ("metadata-false", tensor(more=b"\x89)}" + text("other") + b"\x89s"))):  # fmt: skip
        yield opens(f"torch-{name}", torch_archive(pickled(beside(value))), suffix="pt")
    malformed = "a tensor's size, stride or offset is malformed"
    yield pt("size-by-call-of-call", tensor().replace(sizes(4), call("posix", "system", b")") + b")R", 1), malformed)
    yield pt("size-negative", tensor(size=(-4,)), malformed)
    yield pt("stride-negative", tensor(stride=(-1,)), malformed)
    yield pt("offset-negative", tensor(offset=-1), malformed)
    yield pt("ranks-differ", tensor(size=(2, 2)), malformed)
    yield pt("strides-more", tensor(stride=(1, 1)), malformed)
    plain = tensor()
    for name, part, other in (("size", sizes(4), text("4")), ("size-of-text", sizes(4), tuple_of(text("4"))), ("size-none", sizes(4), b"N"),
                              ("size-of-float", sizes(4), tuple_of(b"G12345678")), ("size-number", sizes(4), integer(4)),
                              ("size-bigint", sizes(4), sizes(2**64)), ("stride", sizes(1), text("1")), ("stride-none", sizes(1), b"N"),
                              ("stride-of-bools", sizes(1), tuple_of(b"\x88"))):  # fmt: skip
        yield pt(f"{name}-malformed", plain.replace(part, other, 1), malformed)
    for name, other in (("text", text("0")), ("none", b"N"), ("tuple", b")"), ("float", b"G12345678")):
        yield pt(f"offset-{name}", plain.replace(b"QK\0", b"Q" + other, 1), malformed)
    size_call = lambda args: plain.replace(sizes(4), call("torch", "Size", args), 1)
    yield opens("torch-size-by-call", torch_archive(pickled(size_call(sizes(4) + b"\x85"))), suffix="pt")
    yield pt("size-by-call-of-two", size_call(sizes(4) * 2 + b"\x86"), malformed)
    yield pt("size-by-other-call", plain.replace(sizes(4), call("posix", "system", sizes(4) + b"\x85"), 1), malformed)

    def noted(name, value, says):
        return opens(f"torch-{name}", torch_archive(pickled(beside(value))), f"This tensor cannot be given: {says}", "1", "pt")

    changed = "its size, stride or metadata may have changed since."
    yield noted("size-list", plain.replace(sizes(4), b"]K\4a", 1), changed)
    yield noted("stride-list", plain.replace(sizes(1), b"]K\1a", 1), changed)
    grown = tensor(more=b"\x89)}q\1")
    yield noted("metadata-grown", grown + b"h\1" + text("neg") + b"\x88s0", changed)
    yield noted("metadata-unknown", tensor(more=b"\x89)}" + text("sparse") + b"\x88s"), "it has unknown metadata.")
    third = lambda dtype, *more: tensor(storage(numel=16, cls="UntypedStorage", module="torch.storage"), size=(2,),
                                        more=b"\x89)" + dtype + b"".join(more), name="_rebuild_tensor_v3")  # fmt: skip
    yield opens("torch-third", torch_archive(pickled(beside(third(b"ctorch\nfloat64\n")))), suffix="pt")
    yield noted("third-dtype-unknown", third(b"ctorch\nfloat7\n"), "its dtype is unknown.")
    yield noted("third-dtype-of-other-module", third(b"cos\nfloat64\n"), "its dtype is unknown.")
    yield noted("third-dtype-text", third(text("float64")), "its dtype is unknown.")
    without = tensor(storage(numel=16, cls="UntypedStorage", module="torch.storage"), size=(2,), name="_rebuild_tensor_v3")
    yield noted("third-without-dtype", without, "its arguments are malformed.")
    yield pt("third-too-long", tensor(storage(numel=16, cls="UntypedStorage", module="torch.storage"), size=(3,),
             more=b"\x89)ctorch\nfloat64\n", name="_rebuild_tensor_v3"), needs + "24")  # fmt: skip
    strided = lambda dtype: tensor(storage(numel=16, cls="UntypedStorage", module="torch.storage"), size=(2,), stride=(2,),
                                   more=b"\x89)" + dtype, name="_rebuild_tensor_v3")  # fmt: skip
    halves = "its elements are strided and have no whole bytes."
    yield noted("pairs-strided", strided(b"ctorch\nfloat4_e2m1fn_x2\n"), halves)
    yield noted("opaque-strided", strided(b"ctorch\ncomplex32\n"), halves)
    unknown = "it is conjugated or negated, and its elements are of a type unknown here."
    yield noted("opaque-conjugated", third(b"ctorch\ncomplex32\n", b"}" + text("conj") + b"\x88s"), unknown)
    single = tensor(storage("1", 4, cls="UntypedStorage", module="torch.storage"), size=(), stride=(),
                    more=b"\x89)ctorch\ncomplex32\n", name="_rebuild_tensor_v3")  # fmt: skip
    yield opens("torch-opaque-single", torch_archive(pickled(beside(single)), {"0": bytes(16), "1": bytes(4)}), "This has no axes; as it is opaque here", "1", "pt")
    yield opens("torch-pairs", torch_archive(pickled(beside(third(b"ctorch\nfloat4_e2m1fn_x2\n")))), suffix="pt")
    big = [Entry(b"archive/byteorder", b"big")]
    yield opens("torch-opaque-bytes-big-endian", torch_archive(pickled(beside(third(b"ctorch\nbits8\n"))), more=big), suffix="pt")
    value = third(b"ctorch\ncomplex32\n")
    says = "its elements are big-endian and of a type unknown here."
    yield opens("torch-opaque-big-endian", torch_archive(pickled(beside(value)), more=big), f"This tensor cannot be given: {says}", "1", "pt")
    state = lambda *parts: b"ctorch\nFloatTensor\n)R" + tuple_of(*parts) + b"b"
    yield opens("torch-old-tensor", torch_archive(pickled(beside(state(storage(), integer(0), sizes(4), sizes(1))))), suffix="pt")
    yield noted("old-tensor-of-three", state(storage(), integer(0), sizes(4)), "its state is malformed.")
    yield noted("old-tensor-offset-text", state(storage(), text("0"), sizes(4), sizes(1)), "its state is malformed.")
    yield pt("old-tensor-longer", state(storage(), integer(0), sizes(5), sizes(1)), needs + "20")
    attribute = call("collections", "OrderedDict", b")") + b"}" + text("_metadata") + tensor() + b"sb"
    yield opens("torch-tensor-in-attribute", file(attribute), "This tensor is in an attribute, where none can be kept.", None, "pt")


def arrays():
    """Arrays of NumPy inside a pickle."""
    kind = lambda code: call("numpy", "dtype", tuple_of(text(code), b"\x89", b"\x88"))

    def array(size=sizes(4), dtype=None, order=b"\x89", data=b"C\4data", parts=5):
        made = call("numpy.core.multiarray", "_reconstruct", tuple_of(b"cnumpy\nndarray\n", sizes(0), b"C\1b"))
        values = [integer(1), size, kind("u1") if dtype is None else dtype, order, data]
        return made + tuple_of(*values[:parts]) + b"b"

    def noted(name, value, says):
        data = pickled(b"](" + value + b"K\7e", 3)
        check_pickle(data)
        return opens(f"array-{name}", data, f"This tensor cannot be given: {says}", "0")

    valid = pickled(array(), 3)
    check_pickle(valid)
    yield opens("array-good", valid)
    unlike = "its array is not one that numpy writes."
    yield noted("of-four-parts", array(parts=4), unlike)
    yield noted("size-list", array(size=b"]K\4a"), unlike)
    yield noted("size-negative", array(size=sizes(-4)), unlike)
    yield noted("order-text", array(order=text("C")), unlike)
    dtype = "its dtype has no counterpart here."
    yield noted("dtype-text", array(dtype=text("u1")), dtype)
    yield noted("dtype-unknown", array(dtype=kind("x1")), dtype)
    yield noted("dtype-of-no-bytes", array(dtype=kind("S0"), data=b"C\0"), dtype)
    yield noted("dtype-by-other-call", array(dtype=call("posix", "system", tuple_of(text("u1")))), dtype)
    lacks = "it holds Python objects, or its bytes are not in the pickle."
    yield noted("data-list", array(data=b"]"), lacks)
    yield noted("data-text", array(data=text("data")), lacks)
    yield noted("data-none", array(data=b"N"), lacks)
    yield noted("data-of-other-codec", array(data=call("_codecs", "encode", tuple_of(text("data"), text("utf-8")))), lacks)
    yield noted("data-by-call", array(data=call("posix", "system", tuple_of(text("data"), text("latin1")))), lacks)
    fit = "its bytes do not fit its shape."
    yield noted("data-short", array(data=b"C\3dat"), fit)
    yield noted("data-long", array(data=b"C\5data!"), fit)
    yield noted("size-wraps", array(size=sizes(2**62, 2**62)), fit)
    yield noted("size-wraps-to-4", array(size=sizes(2**62 + 1, 4)), fit)
    yield noted("fortran-texts", array(size=sizes(2, 2), dtype=kind("S1"), order=b"\x88"), "it has Fortran order and elements that are no")
    yield noted("dtype-list", array(dtype=b"]"), dtype)
    yield noted("dtype-of-other-module", array(dtype=call("other", "dtype", tuple_of(text("u1")))), dtype)
    yield noted("dtype-of-other-name", array(dtype=call("numpy", "dtypes", tuple_of(text("u1")))), dtype)
    yield noted("dtype-by-call-of-call", array(dtype=call("numpy", "dtype", b")") + b")R"), dtype)
    yield noted("data-by-call-of-call", array(data=call("_codecs", "encode", b")") + b")R"), lacks)
    encoded = lambda *values: call("_codecs", "encode", tuple_of(*values))
    yield noted("data-encoded-from-int", array(data=encoded(integer(7), text("latin1"))), lacks)
    yield noted("data-encoded-by-three", array(data=encoded(text("data"), text("latin1"), text("strict"))), lacks)
    yield noted("data-encoded-by-one", array(data=encoded(text("data"))), lacks)
    for codec in ("latin1", "latin-1"):
        yield opens(f"array-data-{codec}", pickled(array(data=encoded(text("dat\u00ff"), text(codec)))))
    yield opens("array-texts", pickled(array(size=sizes(2, 2), dtype=kind("S1")), 3))
    yield opens("array-texts-of-one-axis", pickled(array(dtype=kind("S1"), order=b"\x88"), 3))
    buffer = lambda size: call("numpy.core.numeric", "_frombuffer", tuple_of(b"C\4data", kind("u1"), size, text("C")))
    yield opens("array-buffer", pickled(buffer(sizes(4)), 3))
    yield noted("buffer-size-negative", buffer(sizes(-4)), unlike)
    # A call that would give its bytes made the value in the list.
    twisted = encoded(text("data"), text("latin1")) + b"0" + array(data=b"]Na0]Na")
    yield noted("data-list-like-a-call", twisted, lacks)
    scalar = lambda dtype, data: call("numpy.core.multiarray", "scalar", dtype + data + b"\x86")
    yield opens("array-scalar", pickled(scalar(kind("f4"), b"C\4data"), 3))
    yield noted("scalar-short", scalar(kind("f4"), b"C\3dat"), fit)
    yield opens("array-scalar-opaque", pickled(scalar(kind("S4"), b"C\4data"), 3), "This has no axes; as it is opaque here", "")


def dtypes():
    """Structured elements, whose description may be as wrong as anything."""

    def structured(names, fields, size, code="V", base=b"N"):
        """(version, order, (base, shape), names, {name: (dtype, offset)}, bytes, alignment, flags)"""
        made = call("numpy", "dtype", tuple_of(text(f"{code}{size}"), b"\x89", b"\x88"))
        return made + tuple_of(integer(3), text("|"), base, names, fields, integer(size), integer(1), integer(0)) + b"b"

    def fields(*of):
        return b"}(" + b"".join(text(name) + tuple_of(dtype, offset) for name, dtype, offset in of) + b"u"

    def array(dtype, data=b"C\4data"):
        made = call("numpy.core.multiarray", "_reconstruct", tuple_of(b"cnumpy\nndarray\n", sizes(0), b"C\1b"))
        return made + tuple_of(integer(1), sizes(1), dtype, b"\x89", data) + b"b"

    def noted(name, dtype):
        data = pickled(b"](" + array(dtype) + b"K\7e", 3)
        check_pickle(data)
        return opens(f"dtype-{name}", data, "This tensor cannot be given: its dtype has no counterpart here.", "0")

    u2 = call("numpy", "dtype", tuple_of(text("u2"), b"\x89", b"\x88"))
    names = tuple_of(text("a"), text("b"))
    valid = structured(names, fields(("a", u2, integer(0)), ("b", u2, integer(2))), 4)
    yield opens("dtype-structured", pickled(array(valid), 3))
    yield noted("fields-none", structured(names, b"N", 4))
    yield noted("fields-list", structured(names, b"]", 4))
    yield noted("field-missing", structured(names, fields(("a", u2, integer(0))), 4))
    yield noted("field-name-int", structured(tuple_of(integer(1)), fields(("a", u2, integer(0))), 4))
    yield noted("field-offset-text", structured(names, fields(("a", u2, text("0")), ("b", u2, integer(2))), 4))
    yield noted("field-offset-negative", structured(names, fields(("a", u2, integer(-2)), ("b", u2, integer(2))), 4))
    yield noted("fields-overlap", structured(names, fields(("a", u2, integer(0)), ("b", u2, integer(1))), 4))
    yield noted("field-beyond", structured(names, fields(("a", u2, integer(0)), ("b", u2, integer(3))), 4))
    yield noted("field-dtype-text", structured(names, fields(("a", text("u2"), integer(0)), ("b", u2, integer(2))), 4))
    parts = lambda size: structured(b"N", b"N", 4, base=tuple_of(u2, size))
    yield opens("dtype-of-two-numbers", pickled(array(parts(sizes(2))), 3))
    yield noted("base-shape-text", parts(text("2")))
    yield noted("base-dtype-text", structured(b"N", b"N", 4, base=tuple_of(text("u2"), sizes(2))))
    for depth in (8, 9):
        inner = call("numpy", "dtype", tuple_of(text("u4"), b"\x89", b"\x88"))
        for _ in range(depth):
            inner = structured(tuple_of(text("a")), fields(("a", inner, integer(0))), 4)
        if depth == 8:
            yield opens("dtype-of-8-levels", pickled(array(inner), 3))
        else:
            yield noted("of-9-levels", inner)


def forged():
    """Objects whose number is the offset of a literal: a reader that takes one for the other sees that literal."""

    def number_2(literal, then):
        """A list that is object number 2, with the literal at offset 2, is GET 99 in `then`."""
        return pickled(literal + b"0]0]0]qc0" + then, 4)

    it = b"hc"
    no_text = DAMAGED + "the name of a class is no text"
    yield refused("forged-class", number_2(text("m"), it + text("b") + b"\x93"), no_text)
    key = number_2(text("a"), b"}(" + text("a") + b"N" + it + b"Nu")
    pairs = "This dict has keys other than texts and integers of 64 bits; it is a list of pairs."
    yield opens("forged-key", key, pairs, "")
    yield opens("forged-key-of-int", number_2(integer(1), b"}(" + integer(1) + b"N" + it + b"Nu"), pairs, "")
    kind = tuple_of(it, b"ctorch\nFloatStorage\n", text("0"), text("cpu"), integer(4)) + b"Q"
    yield refused("forged-storage", number_2(text("storage"), kind), "that is not a torch storage", path="")
    yield refused("forged-reference", number_2(text("storage"), it + b"Q"), "that is not a torch storage", path="")

    def pt(name, literal, value, says, path="1"):
        data = torch_archive(number_2(literal, b"](" + tensor() + value + b"e"))
        return opens(f"forged-{name}", data, says, path, "pt")

    malformed = "a tensor's size, stride or offset is malformed"
    offset = tensor().replace(b"QK\0", b"Q" + it, 1)
    yield refused("forged-offset", torch_archive(number_2(integer(0), b"](" + offset + b"e")), malformed, path="0", suffix="pt")
    size = tensor().replace(sizes(4), tuple_of(it), 1)
    yield refused("forged-size", torch_archive(number_2(integer(4), b"](" + size + b"e")), malformed, path="0", suffix="pt")
    yield pt("requires-grad", b"\x88", tensor(more=it + b")"), "would call torch._utils._rebuild_tensor_v2")
    yield pt("real", b"G12345678", call("builtins", "complex", it + b"K\1\x86"), "would call builtins.complex")
    yield pt("device", text("cpu"), call("torch", "device", it + b"\x85"), "would call torch.device")
    # What PyTorch before 1.6 wrote for a class: ('module', class, file, source).
    source = lambda *parts: tuple_of(*parts) + b"Q)\x81"
    parts = [text("module"), b"cm\nC\n", text("f"), text("s")]
    yield opens("torch-class-with-source", file(source(*parts)), "would call m.C", "1", "pt")
    new = "Loading this with pickle would call what another call returns"
    for name, value in (("of-three", source(*parts[:3])), ("of-five", source(*parts, b"N")), ("of-int", b"K\1Q)\x81"),
                        ("of-list", b"]Q)\x81"), ("of-other-kind", source(text("other!"), *parts[1:])),
                        ("of-text", source(parts[0], text("m.C"), *parts[2:])), ("of-a-list", source(parts[0], b"]", *parts[2:]))):  # fmt: skip
        yield opens(f"torch-class-with-source-{name}", file(value), new, "1", "pt")
    yield pt("class-with-source", text("module"), source(it, *parts[1:]), new)
    data = number_2(b"C\4data", call("numpy.core.multiarray", "scalar", call("numpy", "dtype", text("f4") + b"\x85") + it + b"\x86"))
    yield opens("forged-data", data, "it holds Python objects, or its bytes are not in the pickle", "")
    # A list whose first batch of elements has the number of the offset of a class.
    twisted = b"ctorch\nFloatStorage\n0" + b"]Na0" * 2 + b"]Naqc0"
    of = tuple_of(text("storage"), it, text("0"), text("cpu"), integer(4), b"N") + b"Q"
    yield refused("legacy-forged-class", legacy(twisted + tensor(of=of)), "a storage has no size, or a type that is unknown", suffix="pt")
    numel = tuple_of(text("storage"), b"ctorch\nFloatStorage\n", text("0"), text("cpu"), it, b"N") + b"Q"
    yield refused("legacy-forged-numel", legacy(integer(4) + b"0]0]0]qc0" + tensor(of=numel)), "a storage has no size, or a type",
                  suffix="pt")  # fmt: skip
    yield refused("legacy-forged-key", legacy(tensor(of=storage(view=b"N")), key_list=b"U\x0100]0]0]qc0]" + it + b"a"),
                  "the key of a storage is no text", suffix="pt")  # fmt: skip


def beside_known():
    """Calls that are known, with arguments that they never have: what they are is not known then."""
    od = "ccollections\nOrderedDict\n"
    arguments = tuple_of(storage(), integer(0), sizes(4), sizes(1), b"\x89", b")")

    def rebuilt(function, cls=b"ctorch\nTensor\n"):
        return call("torch._tensor", "_rebuild_from_type_v2", tuple_of(function, cls, arguments, b"}"))

    for name, value, says in (
        ("list-of-arguments", od.encode() + b"]R", "collections.OrderedDict"), ("new-with-list", b"cm\nC\n]\x81", "m.C"),
        ("set-of-two", call("builtins", "set", b"NN\x86"), "builtins.set"), ("set-of-int", call("builtins", "set", b"K\1\x85"), "builtins.set"),
        ("set-and-elements", call("builtins", "set", b"]K\1a\x85") + b"(K\2\x90", "builtins.set"),
        ("pairs-of-int", call("collections", "OrderedDict", b"]K\1a\x85"), "collections.OrderedDict"),
        ("pairs-int", call("collections", "OrderedDict", b"K\1\x85"), "collections.OrderedDict"),
        ("pairs-of-three", call("collections", "OrderedDict", b"](NNNta\x85"), "collections.OrderedDict"),
        ("deque-of-class", call("collections", "deque", text("m") + text("C") + b"\x93\x85"), "collections.deque"),
        ("deque-length-text", call("collections", "deque", b")" + text("5") + b"\x86"), "collections.deque"),
        ("scalar-dtype-unknown", call("numpy.core.multiarray", "scalar", call("numpy", "dtype", text("x1") + b"\x85") + b"C\1a\x86"),
         "numpy.core.multiarray.scalar"), ("scalar-dtype-text", call("numpy.core.multiarray", "scalar", text("u1") + b"C\1a\x86"),
                                           "numpy.core.multiarray.scalar"),
        ("array-of-other-function", call("numpy.core.multiarray", "rebuild", b")") + tuple_of(integer(1)) + b"b",
         "numpy.core.multiarray.rebuild"),
        ("array-of-other-module", call("numpyX_core.multiarray", "_reconstruct", b")") + tuple_of(integer(1)) + b"b",
         "numpyX_core.multiarray._reconstruct"),
        ("scalar-of-other-module", call("other.core.multiarray", "scalar", text("u1") + b"C\1a\x86"), "other.core.multiarray.scalar"),
        ("rebuild-of-text", call("torch._tensor", "_rebuild_from_type_v2", tuple_of(text("f"), b"ctorch\nTensor\n", b")", b"}")),
         "torch._tensor._rebuild_from_type_v2"),
        ("rebuild-for-text", call("torch._tensor", "_rebuild_from_type_v2",
                                  tuple_of(b"ctorch._utils\n_rebuild_tensor_v2\n", text("t"), b")", b"}")), "torch._tensor._rebuild"),
        ("set-of-list-and-list", call("builtins", "set", b"]K\1a]\x86"), "builtins.set"),
        ("rebuild-good-for-text", rebuilt(b"ctorch._utils\n_rebuild_tensor_v2\n", text("t")), "torch._tensor._rebuild_from_type_v2"),
        ("rebuild-of-other-module", rebuilt(b"cother\n_rebuild_tensor_v2\n"), "torch._tensor._rebuild_from_type_v2"),
        ("rebuild-unknown", rebuilt(b"ctorch._utils\n_rebuild_nothing\n"), "torch._tensor._rebuild_from_type_v2"),
        ("device-number-text", call("torch", "device", text("cpu") + text("1") + b"\x86"), "torch.device"),
        ("parameter-of-text", call("torch._utils", "_rebuild_parameter", b")" + text("yes") + b"N\x87"), "torch._utils._rebuild_parameter"),
    ):  # fmt: skip
        yield opens(f"torch-{name}", file(value), f"Loading this with pickle would call {says}", "1", "pt")
    plain = legacy(storage(view=b"N"))
    argument = b"B" + struct.pack("<I", len(plain)) + plain + b"\x85"
    other = tensor(of=call("other", "_load_from_bytes", argument))
    yield opens("inner-by-other-call", pickled(b"](" + other + b"e", 3), "would call other._load_from_bytes", "")
    # What is called is data, so that no note on code tells them apart.
    for name, args in (("deque", argument), ("deque-of-nothing", b")")):
        by_data = tensor(of=call("collections", "deque", args))
        yield opens(f"inner-by-{name}", pickled(b"](" + by_data + b"e", 3), "the class of its storage is unknown.", "0")
    as_text = tensor(of=call("torch.storage", "_load_from_bytes", text("data") + b"\x85"))
    yield opens("inner-text", pickled(b"](" + as_text + b"e", 3), "the class of its storage is unknown.", "0")
    hooks = b"}" + text("x") + b"\x88s"
    scale = tuple_of(b"ctorch\nper_tensor_affine\n", b"G12345678", integer(0))
    quantised = (b"ctorch._utils\n_rebuild_qtensor\n(" + storage(numel=16, cls="QInt8Storage") + integer(0) + sizes(16) + sizes(1) + scale +
                 b"\x89" + hooks + b"tR")  # fmt: skip
    yield opens("torch-quantised", torch_archive(pickled(beside(quantised)[:1] + b"(" + quantised + b"e")), suffix="pt")
    for name, value in (("deque", call("collections", "deque", b")\x85")), ("deque-of-5", call("collections", "deque", b")K\5\x86")),
                        ("device", call("torch", "device", text("cpu") + b"\x85")), ("counter", call("collections", "Counter", b"}\x85")),
                        ("device-of-number", call("torch", "device", text("cuda") + b"K\1\x86"))):  # fmt: skip
        yield opens(f"known-{name}", pickled(value))


def legacies():
    plain = tensor(of=storage(view=b"N"))

    def old(name, data, says, at=None, **more):
        return refused(f"legacy-{name}", data, says, at, suffix="pt", **more)

    whole = legacy(plain)
    data_at = len(whole) - 24
    ends = {"code": "truncated", "says": "the file ends before the end of storage 0; copy or download it again"}
    yield old("cut", whole[:-1], at=data_at, **ends)
    yield old("without-data", whole[:data_at], at=data_at, **ends)
    yield old("cut-in-count", whole[: data_at + 7], at=data_at, **ends)
    cut = {"code": "truncated", "says": "the pickle ends in the middle; copy or download the file again"}
    yield old("cut-in-keys", whole[: data_at - 1], at=data_at - 1, **cut)
    yield old("cut-after-object", whole[: whole.index(b"](")] [:-2], **cut)  # fmt: skip
    yield old("cut-in-object", whole[:150], at=150, **cut)
    yield old("cut-after-magic", LEGACY, at=len(LEGACY), **cut)
    yield old("magic-cut", LEGACY[:20], "the file goes on for 5 bytes after its pickle", 15, code="trailing_bytes")
    other = bytearray(whole)
    other[4] ^= 1
    yield old("magic-other", bytes(other), "after its pickle, with another pickle; nothing was run", 15, code="trailing_bytes")
    yield old("version-other", whole.replace(b"\x80\2M\xe9\3.", b"\x80\2M\xea\3.", 1), "after its pickle", 15, code="trailing_bytes")
    yield old("trailing", whole + b"x", "the file goes on for 1 byte after its last storage", len(whole), code="trailing_bytes")
    yield old("twice", whole + whole, f"the file goes on for {len(whole)} bytes after its last storage", len(whole),
              code="trailing_bytes")  # fmt: skip
    says = "storage 0 has {} and the pickle says 4"
    for name, count in (("5", 5), ("3", 3), ("0", 0)):
        yield old(f"count-{name}", legacy(plain, storages=[(count, bytes(16))]), says.format(f"{count} elements"), data_at)
    yield old("count-negative", legacy(plain, storages=[(-4, bytes(16))]), says.format(f"{2**64 - 4} elements"), data_at)
    swapped = legacy(plain, storages=[(4 << 56, bytes(16))])
    yield old("count-big-endian", swapped, says.format(f"{4 << 56} elements"), data_at)
    big = SYSTEM.replace(b"\x88u", b"\x89u")
    yield opens("legacy-big-endian", legacy(plain, storages=[(4 << 56, bytes(16))], system=big), suffix="pt")
    for name, system in (("list", b"]" + text("little_endian") + b"a"), ("tuple", text("little_endian") + b"\x85"), ("int", integer(1))):
        yield opens(f"legacy-system-{name}", legacy(plain, system=system), suffix="pt")
    yield opens("legacy-numel-0", legacy(tensor(of=storage(numel=0, view=b"N"), size=(0,)), storages=[(0, b"")]), suffix="pt")
    twice = b"](" + plain + tensor(of=storage(view=b"N"), size=(1,)) + b"e"
    yield opens("legacy-storage-twice", legacy(twice), suffix="pt")
    beside_object = "a pickle beside the object holds calls or classes, where PyTorch writes plain values"
    yield old("call-in-system", legacy(plain, system=b"}" + text("a") + SYSTEM_CALL + b"s"), beside_object)
    yield old("call-in-system-popped", legacy(plain, system=SYSTEM_CALL + b"0}"), beside_object)
    yield old("call-in-keys", legacy(plain, key_list=SYSTEM_CALL + b"0](" + text("0") + b"e"), beside_object)
    yield old("instance-in-keys", legacy(plain, key_list=b"cm\nC\n)\x810](" + text("0") + b"e"), beside_object)
    yield old("call-in-object", legacy(b"](" + SYSTEM_CALL + b"e", keys=(), storages=[]), "would call posix.system")
    yield old("pickle-damaged", legacy(b"h\7", keys=(), storages=[]), DAMAGED + "GET 7 names nothing")
    yield old("system-damaged", legacy(plain, system=b"h\7"), DAMAGED + "GET 7 names nothing", 23)
    yield opens("legacy-call-beside", legacy(b"](" + plain + SYSTEM_CALL + b"e"), "would call posix.system", "1", "pt")


def legacy_lists():
    plain = tensor(of=storage(view=b"N"))

    def old(name, data, says, **more):
        return refused(f"legacy-{name}", data, says, suffix="pt", **more)

    no_list = "the list of storages is no list"
    for name, keys in (("none", b"N"), ("tuple", tuple_of(text("0"))), ("dict", b"}"), ("text", text("0"))):
        yield old(f"keys-{name}", legacy(plain, key_list=keys), no_list)
    for name, key in (("int", integer(0)), ("none", b"N"), ("tuple", b")"), ("escaped", b"V0\n")):
        yield old(f"key-{name}", legacy(plain, key_list=b"]" + key + b"a"), "the key of a storage is no text")
    twice = "the list of storages names one twice"
    yield old("key-twice", legacy(plain, keys=("0", "0"), storages=[(4, bytes(16))] * 2), twice)
    yield old("key-twice-apart", legacy(plain, keys=("0", "1", "0"), storages=[(4, bytes(16))] * 3), twice)
    size = "a storage has no size, or a type that is unknown"
    old_storage = lambda **options: tensor(of=storage(view=b"N", **options))
    yield old("numel-negative", legacy(old_storage(numel=-4)), size)
    yield old("numel-text", legacy(plain.replace(b"K\4Nt", text("4") + b"Nt", 1)), size)
    yield old("numel-none", legacy(plain.replace(b"K\4Nt", b"NNt", 1)), size)
    yield old("class-unknown", legacy(old_storage(cls="StrangeStorage")), size)
    yield old("class-of-other-module", legacy(old_storage(module="os")), size)
    yield old("class-text", legacy(plain.replace(b"ctorch\nFloatStorage\n", text("FloatStorage"), 1)), size)
    ways = "one storage is described in two ways"
    other = lambda **options: b"](" + plain + tensor(of=storage(view=b"N", **options), size=(1,)) + b"e"
    yield old("numel-two", legacy(other(numel=3)), ways)
    yield old("class-two", legacy(other(cls="DoubleStorage")), ways)
    unnamed = "storage 1 is named by no tensor, so its size is unknown"
    yield old("key-unused", legacy(plain, keys=("0", "1"), storages=[(4, bytes(16))] * 2), unnamed)
    ends = {"code": "truncated", "says": "the file ends before the end of storage 0"}
    yield old("numel-large", legacy(old_storage(numel=2**40)), **ends)
    yield old("numel-wraps", legacy(old_storage(numel=2**62)), **ends)
    yield old("numel-wraps-to-16", legacy(old_storage(numel=2**62 + 4)), **ends)
    yield old("numel-largest", legacy(old_storage(numel=2**61 - 1, cls="DoubleStorage")), **ends)
    missing = "storage 0 is not in the file; the file is incomplete"
    # Its key comes before the one that the file has.
    both = b"](" + tensor(of=storage("1", view=b"N")) + plain + b"e"
    yield old("storage-missing-before", legacy(both, keys=("1",)), missing, path="1")
    missing = "storage 1 is not in the file; the file is incomplete"
    yield old("storage-missing", legacy(b"](" + plain + tensor(of=storage("1", view=b"N")) + b"e"), missing, path="1")
    yield old("no-keys", legacy(plain, keys=(), storages=[]), "storage 0 is not in the file; the file is incomplete", path="")
    needs = "storage 0 has 16 bytes and the tensor needs 20"
    yield old("tensor-longer", legacy(tensor(of=storage(view=b"N"), size=(5,))), needs, path="")
    part = storage(view=tuple_of(text("v"), integer(2), integer(3)))
    yield old("part-beyond", legacy(tensor(of=part, size=(1,))), "a part of storage 0 goes beyond it", path="")
    foreign = "the pickle refers to an object outside it that is not a torch storage"
    four = tuple_of(text("storage"), b"ctorch\nFloatStorage\n", text("0"), text("cpu")) + b"Q"
    yield old("reference-of-four", legacy(b"](" + plain + four + b"e"), foreign, path="1")


def inner():
    """A plain pickle has a whole old file in place of each storage."""

    def within(data):
        assert len(data) < 2**16
        return call("torch.storage", "_load_from_bytes", b"B" + struct.pack("<I", len(data)) + data + b"\x85")

    def noted(name, data, says="the class of its storage is unknown.", path="0"):
        body = b"](" + tensor(of=within(data)) + b"K\7e"
        return opens(f"inner-{name}", pickled(body, 3), says, path)

    plain = legacy(storage(view=b"N"))
    check_legacy(plain)
    yield opens("inner-good", pickled(tensor(of=within(plain)), 3))
    yield noted("no-file", b"data")
    # Both pickles before it are passed over, so nothing else would tell.
    yield noted("of-version-1002", plain.replace(b"M\xe9\3.", b"M\xea\3.", 1))
    yield noted("cut", plain[:-1])
    yield noted("trailing", plain + b"x")
    yield noted("count", legacy(storage(view=b"N"), storages=[(5, bytes(16))]))
    yield noted("two-storages", legacy(b"](" + storage(view=b"N") + storage("1", view=b"N") + b"e", keys=("0", "1"),
                                       storages=[(4, bytes(16))] * 2))  # fmt: skip
    yield noted("list", legacy(b"]" + storage(view=b"N") + b"a"))
    called = legacy(SYSTEM_CALL + b"0" + storage(view=b"N"))
    yield noted("call", called, "Loading this with pickle would call posix.system; nothing was run.")
    of_call = legacy(call("builtins", "getattr", b")") + b")R0" + storage(view=b"N"))
    yield noted("call-of-call", of_call, "would call builtins.getattr")
    yield refused("inner-tensor-longer", pickled(tensor(of=within(plain), size=(5,)), 3),
                  "storage inside the pickle has 16 bytes and the tensor needs 20", path="")  # fmt: skip
