"""The hostile zip archives, .npz and .npy files (docs/formats.md)."""

import struct

from corpus_case import Case
from foreign_files import (
    DESCRIPTOR, Entry, archive, check_npy, check_zip, directory_at, npy, npy_header, npy_text, raw_deflate,
)  # fmt: skip

SUFFIX = "npz"
REALS = {"descr": "'<f4'", "shape": "(2,)"}


def two(first=None, second=None, **archive_changes):
    """An archive of the arrays a and b, after changes of their entries."""
    a = Entry(b"a.npy", npy(), **(first or {}))
    b = Entry(b"b.npy", npy(b"floats!!", **REALS), **(second or {}))
    return archive([a, b], **archive_changes)


GOOD = two()
DIRECTORY = directory_at(GOOD)
END = len(GOOD) - 22
B = GOOD.index(b"PK\3\4", 1)


def cases():
    assert set(check_zip(GOOD)) == {"a.npy", "b.npy"}
    yield opens("zip-good", GOOD)
    for group in (ends, zip64, directory, places, local, strangers, others, deflated, checksums, limits, npz, npy_files):
        yield from group()


def refused(name, data, says, at=None, *, code="foreign_invalid", suffix="npz", **more):
    return Case(name, code, data, at, says=says, suffix=suffix, **more)


def opens(name, data, says=None, path=None, suffix="npz"):
    return Case(name, "-", data, path=path, found_by="opens", says=says, suffix=suffix)


def ends():
    cut = {"code": "truncated", "says": "the zip archive has no end record; copy or download the file again"}
    yield refused("zip-cut-by-one", GOOD[:-1], at=len(GOOD) - 1, **cut)
    yield refused("zip-cut-in-directory", GOOD[: DIRECTORY + 20], at=DIRECTORY + 20, **cut)
    yield refused("zip-cut-in-entry", GOOD[:100], at=100, **cut)
    yield refused("zip-signature-alone", b"PK\3\4", at=4, **cut)
    yield refused("zip-end-alone-and-cut", b"PK\5\6" + bytes(17), at=21, **cut)
    yield refused("zip-comment-too-long", two(comment_bytes=1), at=len(GOOD), **cut)
    yield opens("zip-comment", two(comment=b"PK\5\6"))
    for count in (1, 3, 22):
        says = f"the file goes on for {count} byte{'s' if count > 1 else ''} after the end of its zip archive"
        yield refused(f"zip-with-{count}-more", GOOD + b"x" * count, says, len(GOOD), code="trailing_bytes")
    # Programs that look for the last record find the inner one, and those that look for a fitting one the outer.
    inner = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 2, 2, END - DIRECTORY, DIRECTORY, 0)
    yield refused("zip-two-ends", two(comment=inner), "two records could end this zip archive", END)
    yield refused("zip-two-empty-ends", archive([], comment=b"PK\5\6" + bytes(18)),
                  "two records could end this zip archive", 0)  # fmt: skip
    moved = "the zip archive's directory does not end where its end record begins, so bytes were put before"
    yield refused("zip-twice", GOOD + GOOD, moved, END)
    yield refused("zip-behind-another", archive([Entry(b"x", b"y")]) + GOOD, moved)
    yield refused("zip-bytes-before-end", two(between=b"x"), moved, END)
    yield refused("zip-directory-too-short", two(size=END - DIRECTORY - 1), moved, END - 1)
    yield refused("zip-directory-too-early", two(offset=DIRECTORY - 1), moved, END - 1)
    late = "the zip archive's directory does not lie before its end record"
    yield refused("zip-directory-too-late", two(offset=DIRECTORY + 1), late, END)
    yield refused("zip-directory-too-long", two(size=END - DIRECTORY + 1), late, END)
    yield refused("zip-directory-offset-largest", two(offset=2**32 - 1), late, END)
    yield refused("zip-directory-size-largest", two(size=2**32 - 1), late, END)
    for name, change in (("disk", {"disk": 1}), ("directory-disk", {"directory_disk": 1}),
                         ("disk-entries", {"disk_entries": 1})):  # fmt: skip
        yield refused(f"zip-parts-by-{name}", two(**change), "the zip archive is one of several parts; join them", END)
    count = "the zip archive claims {} entries, and its directory has room for 2"
    yield refused("zip-claims-3-entries", two(entries=3, disk_entries=3), count.format(3), END)
    yield refused("zip-claims-65535-entries", two(entries=65535, disk_entries=65535), count.format(65535), END)
    second = DIRECTORY + 51
    yield refused("zip-claims-1-entry", two(entries=1, disk_entries=1),
                  "the zip archive's directory has 51 bytes after its last entry", second)  # fmt: skip
    yield refused("zip-claims-no-entry", two(entries=0, disk_entries=0),
                  "the zip archive's directory has 102 bytes after its last entry", DIRECTORY)  # fmt: skip


def zip64():
    good = two(zip64={})
    check_zip(good)
    yield opens("zip-64-good", good)
    # PyTorch fills the old record with ones.
    ones = {"entries": 65535, "disk_entries": 65535, "size": 2**32 - 1, "offset": 2**32 - 1}
    yield opens("zip-64-and-ones", two(zip64={}, disk=65535, directory_disk=65535, **ones))
    there = "the ZIP64 end record does not stand directly before its locator"
    yield refused("zip-64-locator-alone", b"PK\3\4" + bytes(40) + GOOD[-22:-22] + b"PK\6\7" + bytes(16) + GOOD[-22:],
                  "the zip archive has no ZIP64 end record before its locator", 64)  # fmt: skip
    yield refused("zip-64-without-record", GOOD[:END] + struct.pack("<4sIQI", b"PK\6\7", 0, END, 1) + GOOD[END:], there)
    yield refused("zip-64-signature", two(zip64={"signature": b"PK\6\5"}), there, END)
    yield refused("zip-64-record-longer", two(zip64={"record": 45, "middle": b"x"}), there, END + 1)
    yield refused("zip-64-record-size", two(zip64={"record": 43}), there, END)
    yield refused("zip-64-apart", two(zip64={"middle": b"x"}), there, END + 1)
    yield refused("zip-64-elsewhere", two(zip64={"at": END - 1}), there, END)
    yield refused("zip-64-elsewhere-by-2^64", two(zip64={"at": 2**64 - 1}), there, END)
    other = "the two end records of the zip archive disagree"
    for name, change in (("entries", {"entries": 1, "disk_entries": 1}), ("size", {"size": END - DIRECTORY - 1}),
                         ("offset", {"offset": DIRECTORY - 1})):  # fmt: skip
        yield refused(f"zip-64-other-{name}", two(zip64=change), other, END)
    parts = "the zip archive is one of several parts; join them"
    for name, change in (("disk", {"disk": 1}), ("directory-disk", {"directory_disk": 1}),
                         ("disk-entries", {"disk_entries": 1}), ("disks", {"disks": 2})):  # fmt: skip
        yield refused(f"zip-64-parts-by-{name}", two(zip64=change, **ones), parts, END + 76)
    late = "the zip archive's directory does not lie before its end record"
    yield refused("zip-64-directory-late", two(zip64={"offset": DIRECTORY + 1}, **ones), late, END)
    yield refused("zip-64-directory-wraps", two(zip64={"offset": 2**64 - 51, "size": 51 + END}, **ones), late, END)
    yield refused("zip-64-entries-of-2^63", two(zip64={"entries": 2**63, "disk_entries": 2**63}, **ones),
                  f"the zip archive claims {2**63} entries, and its directory has room for 2", END)  # fmt: skip


def directory():
    first, second = DIRECTORY, DIRECTORY + 51
    missing = "the zip archive's directory has no entry where its number {} should be"
    yield refused("zip-entry-signature-first", two({"central": {"signature": b"PK\1\1"}}), missing.format(1), first)
    yield refused("zip-entry-signature-second", two(None, {"central": {"signature": b"PK\3\4"}}), missing.format(2),
                  second)  # fmt: skip
    cut = archive([Entry(b"a", npy())])[:-22] + b"PK\1\2" + bytes(41)
    end = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 2, 2, 47 + 45, len(cut) - 47 - 45, 0)
    yield refused("zip-entry-of-45-bytes", cut + end, missing.format(2), len(cut) - 45)
    beyond = "an entry of the zip archive's directory reaches beyond its end"
    for part in ("name", "extra", "comment"):
        length = {f"{part}_bytes": 6 if part == "name" else 1}
        yield refused(f"zip-entry-{part}-beyond", two(None, {"central": length}), beyond, second)
        yield refused(f"zip-entry-{part}-of-65535", two(None, {"central": {f"{part}_bytes": 65535}}), beyond, second)
    # The name of the first entry reaches over the whole second entry.
    yield refused("zip-entry-over-the-next", two({"central": {"comment_bytes": 50}}), missing.format(2), second + 50)
    text = "an entry of the zip archive has a name that is empty or not UTF-8 text"
    for name, raw in (("empty", b""), ("with-zero", b"a\0.npy"), ("latin-1", b"\xe4.npy"),
                      ("surrogate", b"\xed\xa0\x80.npy"), ("overlong", b"\xc0\xaf.npy")):  # fmt: skip
        yield refused(f"zip-name-{name}", archive([Entry(raw, npy()), Entry(b"b.npy", npy())]), text)
    yield refused("zip-name-empty-last", archive([Entry(b"a.npy", npy()), Entry(b"")]), text)
    for bit in (0, 6, 13):
        wrong = two({"flags": 1 << bit})
        yield refused(f"zip-encrypted-by-bit-{bit}", wrong, "the entry 'a.npy' of the zip archive is encrypted", first)
    for method in (1, 7, 9, 12, 14, 93, 95, 99, 65535):
        says = f"the entry 'a.npy' of the zip archive is compressed by method {method}; only stored and deflated"
        yield refused(f"zip-method-{method}", two({"method": method}), says, first)
    disk = "the entry 'b.npy' of the zip archive lies in another part of the archive"
    yield refused("zip-entry-on-disk-1", two(None, {"central": {"disk": 1}}), disk, second)
    yield opens("zip-entry-on-disk-65535", two(None, {"central": {"disk": 65535}}))
    sizes = "the entry 'a.npy' of the zip archive is stored as it is, but has two sizes"
    for name, length in (("more", 133), ("fewer", 131), ("none", 0)):
        yield refused(f"zip-stored-{name}", two({"central": {"length": length}, "local": {"length": length}}), sizes, first)

    fields = "the entry 'a.npy' of the zip archive has extra fields that are no ZIP64 fields, or more than one of them"
    both = struct.pack("<HHQQ", 1, 16, 132, 132)
    large = {"stored": 2**32 - 1, "length": 2**32 - 1}
    good = two({"central_extra": both, "central": large})
    check_zip(good)
    yield opens("zip-extra-good", good)
    yield opens("zip-extra-of-others", two({"central_extra": struct.pack("<HHI", 0x4246, 4, 0) + both, "central": large}))
    for name, extra in (("cut", b"\1\0\0"), ("past-end", struct.pack("<HH", 1, 1)), ("twice", both + both),
                        ("unknown-past-end", struct.pack("<HH", 0x4246, 1)),
                        ("short", struct.pack("<HHQ", 1, 8, 132)), ("shorter", struct.pack("<HHI", 1, 4, 132)),
                        ("by-one-short", both[:2] + b"\x0f\0" + both[4:19])):  # fmt: skip
        yield refused(f"zip-extra-{name}", two({"central_extra": extra, "central": large}), fields, first)
    yield opens("zip-extra-empty-at-end", two({"central_extra": struct.pack("<HH", 0x4246, 0)}))
    # Twice, and neither is needed.
    yield refused("zip-extra-twice-unused", two({"central_extra": b"\1\0\0\0" * 2}), fields, first)


def places():
    first = DIRECTORY
    before = "the entry '{}' of the zip archive does not lie before the archive's directory"
    largest = 2**32 - 1

    def offset(number, **more):
        return two(None, {"central": {"offset": number}} | more)

    yield refused("zip-entry-beyond", offset(DIRECTORY), before.format("b.npy"), first + 51)
    yield refused("zip-entry-beyond-by-one", offset(B + 1), before.format("b.npy"), first + 51)
    yield refused("zip-entry-offset-largest", offset(largest), before.format("b.npy"), first + 51)
    wraps = {"central": {"offset": largest}, "central_extra": struct.pack("<HHQ", 1, 8, 2**64 - 1)}
    yield refused("zip-entry-offset-of-2^64", two(None, wraps), before.format("b.npy"))
    long = {"central": {"stored": largest, "length": largest},
            "central_extra": struct.pack("<HHQQ", 1, 16, 2**64 - 1, 2**64 - 1)}  # fmt: skip
    yield refused("zip-entry-size-of-2^64", two(None, long), before.format("b.npy"))
    sized = {"central": {"stored": 500, "length": 500}, "local": {"stored": 500, "length": 500}}
    yield refused("zip-entry-too-long", two(None, sized), before.format("b.npy"), first + 51)
    descriptor = {"flags": DESCRIPTOR}
    yield refused("zip-entry-without-room-for-descriptor", two(None, descriptor), before.format("b.npy"), first + 51)

    over = "the entry 'a.npy' of the zip archive overlaps the next one"
    yield refused("zip-overlap-by-one", offset(B - 1), over, 0)
    yield refused("zip-overlap-descriptor", two({"flags": DESCRIPTOR, "after": b"12345678901"}), over, 0)
    inside = {"central": {"stored": 136 + 35, "length": 136 + 35}, "local": {"stored": 136 + 35, "length": 136 + 35}}
    yield refused("zip-entry-inside-another", two(inside), over, 0)
    # The bomb of a few bytes: two names for the same data.
    yield refused("zip-overlap-whole", offset(0), "of the zip archive overlaps the next one", 0)
    said = "the zip archive has {} before its first entry"
    yield refused("zip-gap-before-first", two({"central": {"offset": 1}}), said.format("1 byte"), 0)
    yield refused("zip-stub-before-first", b"PK\3\4" + two(before=b"stub")[4:], said.format("4 bytes"), 0)
    yield refused("zip-empty-with-bytes", b"PK\3\4" + archive([], before=b"    ")[4:], said.format("4 bytes"), 0)
    yield opens("zip-gap", two({"after": b"gap"}), "the zip archive has 3 bytes between its entries that belong to none")
    yield opens("zip-gap-before-directory", two(None, {"after": b"12345"}), "the zip archive has 5 bytes between")
    for size in (12, 16, 20, 24):
        yield opens(f"zip-descriptor-of-{size}", two({"flags": DESCRIPTOR, "after": b"PK\7\x08" + bytes(size - 4)}))
    yield opens("zip-descriptor-and-gap", two({"flags": DESCRIPTOR, "after": bytes(25)}), "has 13 bytes between")
    names = "the zip archive has two entries with the name 'a.npy', so programs disagree about its contents"
    twice = archive([Entry(b"a.npy", npy()), Entry(b"a.npy", npy(b"DATA"))])
    yield refused("zip-name-twice", twice, names, twice.index(b"PK\3\4", 1))
    apart = [Entry(b"a.npy", npy()), Entry(b"b.npy", npy()), Entry(b"a.npy", npy())]
    yield refused("zip-name-twice-apart", archive(apart), names)


def local():
    def header(called, says, first=None, **change):
        data = two({"local": change} | (first or {}))
        # A descriptor that no known writer has makes the prediction fail, and the header is read.
        kind = "late" if first else "local"
        return refused(f"zip-{kind}-{called}", data, f"the local header of 'a.npy' in the zip archive {says}", 0)

    flags = "has other flags or another method than the directory says"
    yield header("encrypted", flags, flags=1)
    yield header("descriptor", flags, flags=DESCRIPTOR)
    yield header("method", flags, method=8)
    yield header("method-unknown", flags, method=99)
    other = "has another name than the directory says"
    yield header("name", other, name=b"A.npy")
    yield header("name-shorter", other, name_bytes=4)
    yield header("name-longer", other, name_bytes=6)
    sizes = "has another size or CRC than the directory says"
    yield header("stored", sizes, stored=131)
    yield header("length", sizes, length=133)
    yield header("sizes-zero", sizes, stored=0, length=0)
    yield header("crc", sizes, crc=1)
    yield header("crc-zero", sizes, crc=0)
    yield header("extra", "makes its entry overlap the next one", extra_bytes=1)
    yield header("extra-of-65535", "makes its entry overlap the next one", extra_bytes=65535)
    yield opens("zip-header-of-ones", two({"local": {"stored": 2**32 - 1, "length": 2**32 - 1}}))
    second = bytearray(GOOD)
    second[B] = 0
    yield refused("zip-local-signature", bytes(second), "the local header of 'b.npy' in the zip archive is not there", B)
    late = {"flags": DESCRIPTOR, "after": bytes(12)}
    yield header("stored", sizes, late, stored=131)
    yield header("length", sizes, late, length=133)
    yield header("crc", sizes, late, crc=1)
    short = {"flags": DESCRIPTOR, "after": bytes(12), "local": {"extra_bytes": 1}}
    yield refused("zip-late-extra", two(short),
                  "the local header of 'a.npy' in the zip archive makes its entry overlap the next one", 0)  # fmt: skip


def strangers():
    def stranger(name, entry, says, suffix="zip"):
        return refused(name, archive([Entry(b"a.npy", npy()), Entry(entry)]), says, 0, code="not_a_checkpoint", suffix=suffix)

    yield stranger("zip-keras", b"model.weights.h5", "it is a Keras model (.keras)", "keras")
    yield stranger("zip-wheel", b"x.dist-info/WHEEL", "it is a Python wheel; install it with pip", "whl")
    yield stranger("zip-office", b"[Content_Types].xml", "it is an office document", "docx")
    yield stranger("zip-npy-beside-others", b"readme", "it is a zip archive with .npy arrays beside other files", "npz")
    plain = archive([Entry(b"a", b"b")])
    yield refused("zip-of-something", plain, "it is a zip archive; unpack it first: unzip FILE", 0,
                  code="not_a_checkpoint", suffix="zip")  # fmt: skip
    # Without a folder, it is not PyTorch's.
    yield refused("zip-pickle-without-folder", archive([Entry(b"data.pkl", b"N.")]), "it is a zip archive; unpack it", 0,
                  code="not_a_checkpoint", suffix="pt")  # fmt: skip


def others():
    """Files of other programs are refused by name."""

    def other(name, front, says, suffix="bin"):
        data = front + bytes(600 - len(front))
        return refused(f"other-{name}", data, f"); {says}", 0,
                       code="not_a_checkpoint", suffix=suffix)  # fmt: skip

    # Scanners that knew the zip archive behind it by its end let the pickle in it run.
    yield refused("other-zip-behind-descriptor", b"PK\7\x08" + GOOD, "no format that the library reads (Espalier, ", 0,
                  code="not_a_checkpoint", suffix="pt")  # fmt: skip
    yield other("7z", b"7z\xbc\xaf\x27\x1c", "it is a 7z archive; unpack it first: 7z x FILE", "pt")
    yield other("rar", b"Rar!\x1a\x07", "it is a RAR archive; unpack it first")
    yield other("gzip", b"\x1f\x8b\x08", "it is compressed with gzip; unpack it first")
    yield other("zstd", b"\x28\xb5\x2f\xfd", "it is compressed with zstd; unpack it first")
    yield other("xz", b"\xfd7zXZ\0", "it is compressed with xz; unpack it first")
    yield other("bzip2", b"BZh9", "it is compressed with bzip2; unpack it first")
    yield other("lz4", b"\x04\x22\x4d\x18", "it is compressed with lz4; unpack it first")
    yield other("tar", b"storages".ljust(257, b"\0") + b"ustar", "it is a tar archive; unpack it first: tar -xf FILE", "tar")
    yield other("lfs", b"version https://git-lfs.github.com/spec/v1", "it is a Git LFS pointer; run 'git lfs pull'")
    yield other("page", b"<!DOCTYPE html>", "it looks like a web page instead of the downloaded file")


LARGE = npy(bytes(300), shape="(300,)")


def deflated_entry(data=LARGE, packed=None, name=b"a.npy", **more):
    return Entry(name, data, raw_deflate(data) if packed is None else packed, method=8, **more)


def deflated():
    def damaged(name, says, **changes):
        """An array whose header is intact."""
        return refused(f"deflate-{name}", archive([deflated_entry(**changes)]), f"the compressed entry 'a.npy' {says}",
                       found_by="read")  # fmt: skip

    def unread(name, says, **changes):
        """An array whose header cannot be read."""
        data = archive([deflated_entry(**changes), Entry(b"b.npy", npy())])
        return refused(f"deflate-{name}", data, f"this array cannot be read: {says}", found_by="verify", path="a")

    good = archive([deflated_entry()])
    check_zip(good)
    yield opens("deflate-good", good)
    yield opens("deflate-good-small", archive([deflated_entry(npy())]))
    stream = raw_deflate(LARGE)
    whole = len(LARGE)
    yield damaged("crc", "does not match its CRC-32; copy or download the file again", central={"crc": 1}, local={"crc": 1})
    flipped = stream[:-1] + b"\1"
    yield damaged("bit", "does not match its CRC-32; copy or download the file again", packed=flipped)
    yield damaged("cut", f"holds {whole - 1} bytes and not the {whole} that the archive's directory says", packed=stream[:-1])
    # All bytes of the array, and no end of the stream.
    yield damaged("without-end", f"holds {whole} bytes and not the {whole}", packed=b"\0" + stream[1:])
    more = raw_deflate(LARGE + b"x")
    yield damaged("more", f"holds more than the {whole} bytes that the archive's directory says", packed=more)
    joined = b"\0" + stream[1:] + raw_deflate(b"x")
    yield damaged("more-in-another-block", f"holds more than the {whole} bytes", packed=joined)
    yield damaged("trailing", "ends before the 2 bytes that the archive's directory has for it beyond", packed=stream + b"xy")
    shorter = b"\0" + raw_deflate(LARGE[:280])[1:] + b"\7\0\0\0"
    yield damaged("third-kind-of-block", "is damaged; copy or download the file again", packed=shorter)
    lengths = b"\0" + raw_deflate(LARGE[:280])[1:] + b"\1\x94\0\0\0" + LARGE[280:]
    yield damaged("lengths-differ", "is damaged; copy or download the file again", packed=lengths)

    yield opens("deflate-crc-0", archive([deflated_entry(central={"crc": 0}, local={"crc": 0})]))

    size = "does not match its size and CRC-32; copy or download the file again"
    small = npy()
    yield unread("header-crc", f"the entry 'a.npy' of the zip archive {size}", data=small, central={"crc": 1},
                 local={"crc": 1})  # fmt: skip
    yield unread("header-cut", f"the entry 'a.npy' of the zip archive {size}", data=small, packed=raw_deflate(small[:-1]))
    broken = "the entry 'a.npy' of the zip archive cannot be read: the compressed data are damaged"
    yield unread("header-damaged", broken, packed=b"\7" + stream[1:])
    yield unread("header-empty", "the array does not begin as .npy files do", packed=b"\3\0" + bytes(800))
    bomb = "the entry 'a.npy' of the zip archive claims more bytes than its compressed data can hold"

    def claims(length, packed=raw_deflate(npy())):
        numbers = {"length": length}
        entry = deflated_entry(npy(), packed, central=numbers, local=numbers)
        return archive([entry]), len(packed)

    data, packed = claims(137 * 1032 + 1032)
    assert packed == 137
    yield refused("deflate-bomb", data, bomb, directory_at(data))
    data, _ = claims(137 * 1032)
    says = "this array cannot be read: its header asks for 4 bytes of elements and the archive has 141256"
    yield refused("deflate-bomb-just-possible", data, says, found_by="verify", path="a")
    data, _ = claims(2**32 - 2)
    yield refused("deflate-bomb-of-4-gib", data, bomb, directory_at(data))
    data, _ = claims(1032, b"")
    yield refused("deflate-bomb-of-nothing", data, bomb, directory_at(data))


def checksums():
    wrong = "the bytes do not match the CRC-32 that the file has for them; copy or download the file again"
    other = {"central": {"crc": 1}, "local": {"crc": 1}}
    large = archive([Entry(b"a.npy", LARGE, **other), Entry(b"b.npy", npy())])
    yield refused("zip-crc-of-large", large, wrong, 35, code="chunk_corrupt", found_by="verify", path="a")
    flipped = bytearray(archive([Entry(b"b.npy", npy()), Entry(b"a.npy", LARGE)]))
    at = flipped.index(b"PK\3\4", 1) + 35
    flipped[at + 427] ^= 1
    yield refused("zip-bit-of-large", bytes(flipped), wrong, at, code="chunk_corrupt", found_by="verify", path="a")
    # A header that is read whole is checked at once.
    size = "this array cannot be read: the entry 'a.npy' of the zip archive does not match its size and CRC-32"
    yield refused("zip-crc-of-small", two(other), size, found_by="verify", path="a")
    # PyTorch writes 0 if it is told to record none.
    none = {"central": {"crc": 0}, "local": {"crc": 0}}
    yield opens("zip-crc-0", two(none))


def limits():
    limited = {"code": "limit_exceeded"}
    yield refused("zip-limit-directory", two(comment=b"."), "the zip archive's directory has 102 bytes and Limits::zip_directory_bytes "
                  "allows 101", DIRECTORY, limits={"zip_directory_bytes": 101}, **limited)  # fmt: skip
    three = archive([Entry(b"a.npy", npy()), Entry(b"b.npy", npy()), Entry(b"c.npy", npy())])
    yield refused("zip-limit-nodes", three, "the archive has 3 arrays, and with its roots Limits::nodes allows 4",
                  limits={"nodes": 4}, **limited)  # fmt: skip
    yield refused("zip-limit-nodes-of-roots", archive([]), "the archive has 0 arrays, and with its roots Limits::nodes allows 1",
                  limits={"nodes": 1}, **limited)  # fmt: skip
    both = archive([deflated_entry(), deflated_entry(name=b"b.npy", data=LARGE[:-1] + b"b")])
    yield refused("zip-limit-made", both, f"and Limits::made_bytes allows {len(LARGE) - 1}", limits={"made_bytes": len(LARGE) - 1},
                  found_by="read", **limited)  # fmt: skip
    yield refused("zip-limit-chunks", archive([Entry(b"a.npy", npy())]), 
                  "the file has more chunks than fit in Limits::index_bytes", limits={"index_bytes": 31}, **limited)  # fmt: skip
    named = archive([Entry(b"long.npy", npy())])
    yield refused("zip-limit-path", named, "Limits::path_bytes", limits={"path_bytes": 3}, **limited)
    yield refused("zip-limit-text", archive([Entry(b"text.npy", npy())]), "Limits::text_bytes", limits={"text_bytes": 3},
                  **limited)  # fmt: skip


def npz():
    """An array that cannot be read is null, and the others open."""

    def broken(name, data, says, **more):
        file = archive([Entry(b"a.npy", data), Entry(b"b.npy", npy())], **more)
        return refused(f"npz-{name}", file, f"this array cannot be read: {says}", found_by="verify", path="a")

    yield broken("magic", b"\x93NUMPX" + npy()[6:], "the array does not begin as .npy files do")
    yield broken("empty", b"", "the array does not begin as .npy files do")
    yield broken("cut-in-magic", npy()[:11], "the .npy header is cut")
    yield broken("cut-after-length", npy()[:12], "its .npy header is cut")
    yield broken("cut-in-header", npy()[:100], "its .npy header is cut")
    yield broken("cut", npy()[:-1], "its header asks for 4 bytes of elements and the archive has 3")
    yield broken("trailing", npy() + b"x", "its header asks for 4 bytes of elements and the archive has 5")
    yield broken("version-4", npy_header(npy_text(), 4), "the .npy header has version 4; 1, 2 and 3 can be read")
    yield broken("shape-of-2^63", npy(shape="(9223372036854775809,)"), "its header asks for more than 2^63 bytes of elements")
    yield broken("product-wraps", npy(shape="(4294967296, 4294967296)"), "its header asks for more than 2^63 bytes")
    yield broken("wraps-to-size", npy(shape="(4611686018427387905, 4)"), "its header asks for more than 2^63 bytes")
    yield broken("65-axes", npy(b"d", shape=f"({'1, ' * 65})"), "the .npy header has more than 64 axes")
    objects = archive([Entry(b"a.npy", npy(b"\x80\4N.", descr="'|O'", shape="(1,)")), Entry(b"b.npy", npy())])
    yield opens("npz-objects", objects, "this is an array of Python objects, which are stored as a pickle", "a")
    fortran = npy(b"abcd", descr="'|S1'", order="True", shape="(2, 2)")
    yield opens("npz-fortran-texts", archive([Entry(b"a.npy", fortran)]), "this array has Fortran order and elements", "a")
    # Names are keys: nothing is written under them.
    yield opens("npz-path", archive([Entry(b"../../a.npy", npy()), Entry(b"/etc/b.npy", npy())]))
    yield opens("npz-backslash", archive([Entry(b"C:\\a.npy", npy())]))
    yield opens("npz-folder", archive([Entry(b"x/"), Entry(b"x/a.npy", npy())]))


def npy_files():
    def file(name, data, says, at=None, **more):
        return refused(f"npy-{name}", data, says, at, suffix="npy", **more)

    def header(name, text, says, at=None, **more):
        return file(name, npy_header(text) + b"data", f"the .npy header {says}", at, **more)

    good = npy()
    check_npy(good)
    yield opens("npy-good", good, suffix="npy")
    yield opens("npy-ml-dtypes", npy(descr="'<V2'", shape="(2,)"), "NumPy stores elements of ml_dtypes", "", "npy")
    yield opens("npy-ml-dtypes-of-1-byte", npy(descr="'<V1'"), "NumPy stores elements of ml_dtypes", "", "npy")
    for descr in ("<f10", "<f16", "<c20", "<c32"):
        data = bytes(int(descr[2:]))
        yield opens(f"npy-long-double-{descr[1:]}", npy(data, descr=f"'{descr}'", shape="(1,)"), suffix="npy")
    yield opens("npy-dates", npy(bytes(8), descr="'<M8[s]'", shape="(1,)"), suffix="npy")
    yield opens("npy-field-of-just-4-gib", npy(b"", descr="[('a', '|V4294967295')]", shape="(0,)"), suffix="npy")
    yield opens("npy-empty-texts", npy(b"", descr="'<U0'"), "the elements of this array have no bytes", "", "npy")
    yield opens("npy-opaque-without-axes", npy(descr="'|S4'", shape="()"), "this array has one element and no axes", "", "npy")
    cut = {"code": "truncated", "says": "the .npy header is cut; copy or download the file again"}
    yield file("magic-alone", good[:6], at=6, **cut)
    yield file("cut-before-length", good[:11], at=11, **cut)
    yield file("cut-in-header", good[:127], at=127, **cut)
    yield file("header-past-end", npy_header(npy_text(), length=200) + b"data", at=132, **cut)
    for version in (0, 4, 255):
        says = f"the .npy header has version {version}; 1, 2 and 3 can be read"
        yield file(f"version-{version}", npy_header(npy_text(), version) + b"data", says, 6, code="unsupported_version")
    says = "the .npy header has 65537 bytes, more than the 65536 that are read"
    limited = {"code": "limit_exceeded"}
    yield file("header-of-64-kib", npy_header(npy_text(), 2, 65537 - 12) + b"data", says, 8, **limited)
    yield file("header-of-4-gib", npy_header(npy_text(), 3, 2**32 - 1) + b"data", "more than the 65536", 8, **limited)
    yield file("length-of-65535", npy_header(npy_text(), 1, 65535) + b"data", "the .npy header has 65545 bytes", 8, **limited)
    yield file("header-of-just-64-kib", npy_header(npy_text(), 2, 65536 - 12) + b"data", at=len(good), **cut)
    needs = "the array needs 4 bytes and the file has 3 after its header; copy or download it again"
    yield file("cut", good[:-1], needs, len(good) - 1, code="truncated")
    says = "the file goes on for 1 byte after its array; save several arrays with numpy.savez"
    yield file("trailing", good + b"x", says, len(good), code="trailing_bytes")
    yield file("twice", good + good, "the file goes on for 132 bytes after its array", len(good), code="trailing_bytes")
    yield file("of-petabytes", npy(shape="(1125899906842624,)"), "the array needs 1125899906842624 bytes", code="truncated")
    for name, shape in (("of-2^63", "(9223372036854775809,)"), ("product-wraps", "(4294967296, 4294967296)"),
                        ("wraps-to-size", "(4611686018427387905, 4)")):  # fmt: skip
        yield file(name, npy(shape=shape), "the array needs more than 2^63 bytes", code="truncated")
    yield file("items-wrap", npy(descr="'<f8'", shape="(2305843009213693952,)"), "the array needs more than 2^63 bytes",
               code="truncated")  # fmt: skip
    pickled = "this is an array of Python objects, which are stored as a pickle"
    yield file("objects", npy(b"\x80\4N.", descr="'|O'", shape="(1,)"), pickled, 128)
    yield file("object-field", npy(b"\x80\4N.", descr="[('a', '|O')]", shape="(1,)"), pickled, 128)
    yield file("objects-of-2^63", npy(descr="'|O'", shape="(9223372036854775809,)"), "the array has more than 2^63 elements")
    fortran = npy(descr="'|S1'", order="True", shape="(2, 2)")
    yield file("fortran-texts", fortran, "this array has Fortran order and elements that are no numbers", 128)
    yield file("limit-rank", npy(shape="(1, 1, 4)"), "the array has 3 axes and Limits::rank allows 2",
               limits={"rank": 2}, **limited)  # fmt: skip
    yield file("limit-chunks", npy(b"DATA"), "the file has more chunks than fit in Limits::index_bytes", limits={"index_bytes": 31},
               **limited)  # fmt: skip

    text = npy_text()
    member = "has a member besides descr, fortran_order and shape"
    yield header("member-unknown", text.replace("}", "'x': 1}"), member)
    yield header("member-in-capitals", text.replace("shape", "Shape"), member)
    for name in ("descr", "fortran_order", "shape"):
        value = {"descr": "'|u1'", "fortran_order": "False", "shape": "(4,)"}[name]
        yield header(f"{name}-twice", text.replace("}", f"'{name}': {value}}}"), "has a member twice")
        yield header(f"without-{name}", text.replace(f"'{name}': {value}, ", ""), "lacks descr, fortran_order or shape")
    yield header("members-missing", "{}", "lacks descr, fortran_order or shape")
    lacks = "is damaged: it lacks a '{}'"
    yield header("no-dict", "[" + text[1:], lacks.format("{"), 10)
    yield header("without-colon", text.replace("':", "'"), lacks.format(":"))
    yield header("without-comma", text.replace("', ", "' "), lacks.format("}"))
    yield header("dict-open", text.replace(", }", ""), lacks.format("}"))
    yield header("key-no-string", "{1: 2}", lacks.format("'"))
    yield header("string-open", "{'descr': '|u1", "is damaged: a string does not end")
    yield header("string-open-by-escape", "{'descr': '|u1\\'}", "is damaged: a string does not end")
    yield header("two-dicts", text + "{}", "goes on after its dict")
    yield header("code", text + ", __import__('os')", "goes on after its dict")
    yield header("zero-after-dict", text + "\0", "goes on after its dict")
    yield header("expression", npy_text(shape="(2 + 2,)"), lacks.format(")"))
    yield header("order-1", npy_text(order="1"), "has a fortran_order that is neither True nor False")
    yield header("order-true", npy_text(order="true"), "has a fortran_order that is neither True nor False")
    length = "has a length that is no number, or too large"
    for name, axis in (("negative", "-1"), ("over-u64", "18446744073709551616"), ("text", "'4'"), ("none", "None"),
                       ("nested", "(4,)")):  # fmt: skip
        yield header(f"shape-{name}", npy_text(shape=f"({axis},)"), length)
    yield header("shape-list", npy_text(shape="[4]"), lacks.format("("))
    yield header("shape-number", npy_text(shape="4"), lacks.format("("))
    yield header("shape-reversed", npy_text(shape=")4,("), lacks.format("("))
    yield header("shape-open", npy_text(shape="(4, "), length)
    yield header("shape-fraction", npy_text(shape="(4.0,)"), lacks.format(")"))
    yield header("65-axes", npy_text(shape=f"({'1, ' * 64}4)"), "has more than 64 axes")
    unknown = "has a descr of no type that NumPy stores: '"
    for name, descr in (("empty", ""), ("order-alone", "<"), ("unknown", "<x4"), ("int-of-3", "<i3"), ("int-of-0", "<i0"),
                        ("int-without-size", "<i"), ("int-of-16", "<i16"), ("float-of-1", "<f1"), ("float-of-9", "<f9"),
                        ("float-of-17", "<f17"), ("complex-of-18", "<c18"), ("complex-of-34", "<c34"), ("bool-of-2", "<b2"),
                        ("bool-with-size", "?1"), ("date-of-4", "<M4"), ("date-unit-open", "<M8[s"),
                        ("date-unit-closed", "<M8s]"), ("text-with-unit", "<U4[s]"), ("int-with-unit", "<i4[s]"),
                        ("objects-with-unit", "|O8x"), ("size-over-u32", "|S4294967296"),
                        ("characters-over-u32", "<U1073741824"), ("characters-wrap", "<U4611686018427387905"),
                        ("size-over-u64", "|V18446744073709551616")):  # fmt: skip
        yield header(f"descr-{name}", npy_text(f"'{descr}'"), f"{unknown}{descr}'")
    yield header("descr-none", npy_text("None"), lacks.format("'"))
    fields = lambda inner: npy_text(f"[{inner}]", shape="(1,)")
    field = "has a field of no type that NumPy stores"
    yield header("field-unknown", fields("('a', '<x4')"), field)
    yield header("field-without-type", fields("('a',)"), lacks.format("'"))
    yield header("field-no-tuple", fields("'a', '<i4'"), lacks.format("("))
    yield header("field-open", fields("('a', '<i4'"), lacks.format(")"))
    yield header("fields-without-comma", fields("('a', '|u1') ('b', '|u1')"), lacks.format("]"))
    yield header("field-title-of-three", fields("(('t', 'a', 'b'), '<i4')"), lacks.format(")"))
    yield header("field-shape-of-65", fields(f"('a', '|u1', ({'1, ' * 65}))"), "has more than 64 axes")
    yield header("field-shape-text", fields("('a', '|u1', 'x')"), length)
    nested = "('a', [" * 32 + "('a', '<i4')" + "])" * 32
    yield header("fields-too-deep", fields(nested), "nests its fields too deeply")
    yield header("fields-deep", fields("('a', [" * 500), "nests its fields too deeply")
    large = "has elements of more than 4 GiB"
    yield header("field-of-4-gib", fields("('a', '<i4', (1073741824,))"), large)
    yield header("fields-of-4-gib", fields("('a', '|V4294967295'), ('b', '|u1')"), large)
    yield header("field-wraps", fields("('a', '<i8', (2305843009213693952,))"), large)
    yield header("field-wraps-twice", fields("('a', '<i4', (4294967296, 4294967296))"), large)
