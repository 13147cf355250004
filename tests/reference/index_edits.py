"""Edits of the bytes of an index, for `espalier_build.build(..., edit_index=...)`."""

import struct

import espalier_reference as reference


def u32(index, at):
    return struct.unpack_from("<I", index, at)[0]


def poke(code, place, value):
    """An edit of the index: writes a number at `place(index)`. `value` may be a function, too."""

    def edit(index):
        index, at = bytearray(index), place(index)
        number = value(index) if callable(value) else value
        struct.pack_into(code, index, at, number)
        return bytes(index)

    return edit


def table(index):
    return u32(index, 0)


def vtable(index):
    return table(index) - struct.unpack_from("<i", index, table(index))[0]


def entry(number):
    return lambda index: vtable(index) + 4 + 2 * number


def slot(number):
    """Where the table holds the reference to a vector."""
    return lambda index: table(index) + struct.unpack_from("<H", index, entry(number)(index))[0]


def vector(number):
    """Where a vector begins, with its number of elements."""
    return lambda index: slot(number)(index) + u32(index, slot(number)(index))


def insert(place, data=bytes(8)):
    """An edit of the index: puts bytes between two parts and mends what refers across them."""

    def edit(index):
        cut = place(index)
        moved = lambda position: position + (len(data) if position >= cut else 0)
        result = bytearray(index[:cut] + data + index[cut:])
        struct.pack_into("<I", result, 0, moved(table(index)))
        distance = moved(table(index)) - moved(vtable(index))
        struct.pack_into("<i", result, moved(table(index)), distance)
        for number in range(15):
            field, target = slot(number)(index), vector(number)(index)
            struct.pack_into("<I", result, moved(field), moved(target) - moved(field))
        return bytes(result)

    return edit


def move_vtable(index):
    """A copy of the vtable at the end of the index, and the table refers to that."""
    result = bytearray(index + index[vtable(index) : table(index)])
    struct.pack_into("<i", result, table(index), table(index) - len(index))
    return bytes(result)


def extra_field(index):
    """A vtable with 16 fields; the last is a copy of the one before it."""
    old = index[vtable(index) : table(index)]
    new = struct.pack("<H", 36) + old[2:] + old[-2:]
    index = insert(table, bytes(2))(index)
    return index[: table(index) - 36] + new + index[table(index) :]


def gaps(index):
    """The positions in an index of the one layout that belong to nothing."""
    sizes = [reference.np.dtype(reference.RECORDS[row[1]]).itemsize for row in reference.VECTORS]
    used = {*range(8), *range(vtable(index), table(index) + 64)}
    for number, size in enumerate(sizes):
        start = vector(number)(index)
        used.update(range(start, start + 4 + size * u32(index, start)))
    return [position for position in range(len(index)) if position not in used]
