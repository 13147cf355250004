"""Edits of the tables of a file, for use before `espalier_build.build`; each is a function of them."""

from espalier_build import from_tree


def find(tables, *keys):
    """The number of the node with this key path."""
    texts, node = tables.texts(), 0
    for key in keys:
        first, count = tables.nodes[node].value, tables.nodes[node].count
        for child in range(first, first + count):
            record = tables.nodes[child]
            if record.key_kind == 1 and texts[record.key].decode() == key:
                break
            if record.key_kind == 2 and tables.words[record.key] == key % 2**64:
                break
            if record.key_kind == 0 and child - first == key:
                break
        else:
            raise KeyError(key)
        node = child
    return node


def node(*keys, **values):
    """A change of the node at a key path."""

    def change(tables):
        record = tables.nodes[find(tables, *keys)]
        for name, value in values.items():
            setattr(record, name, value)

    return change


def row(vector, number, **values):
    """A change of row `number` of a vector of records."""

    def change(tables):
        record = getattr(tables, vector)[number]
        for name, value in values.items():
            assert hasattr(record, name)
            setattr(record, name, value)

    return change


def put(vector, number, value):
    """A change of a whole row of a vector of tuples or numbers."""
    return lambda tables: getattr(tables, vector).__setitem__(number, value)


def append(vector, *values):
    return lambda tables: getattr(tables, vector).extend(values)


def drop(vector, number=-1):
    return lambda tables: getattr(tables, vector).pop(number)


def both(*changes):
    def change(tables):
        for each in changes:
            each(tables)

    return change


def swap(vector, a, b):
    def change(tables):
        rows = getattr(tables, vector)
        rows[a], rows[b] = rows[b], rows[a]

    return change


def retext(old, new):
    """Replaces one text in place, its number unchanged."""

    def change(tables):
        texts = tables.texts()
        assert old in texts
        tables.set_texts([new if text == old else text for text in texts])

    return change


def add_text(text):
    """Adds a text that nothing uses, at the end; it must be above all others."""
    return lambda tables: tables.set_texts(tables.texts() + [text])


def tree(value):
    """Not a change of the sample, but another tree."""
    return lambda tables: tables.__dict__.update(from_tree(value).__dict__)
