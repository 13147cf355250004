"""What is wrong with the imports between the modules of a Python package.

What runs when a module is loaded must not import in a circle. Imports of a package's own modules are relative, so that all of
them are seen. Imports by a name that is made at run time stand in functions of a few modules.
"""
import ast
import re

from cpp_rooms import circle_of

# Modules that import what the program uses, by name, in functions.
MAY_IMPORT_BY_NAME = {"", "_frameworks", "_progress", "_urls", "compat.safetensors._open", "compat.safetensors.torch"}
BY_NAME = {"__import__", "__builtins__", "builtins", "eval", "exec", "importlib", "imp", "pkgutil", "runpy", "zipimport"}
# The extension module: it imports nothing of ours.
CORE = "_core"
# Names a package of others, which is there or not.
OF_OTHERS = re.compile(r"importlib\.import_module\('(?!espalier\b)\w[\w.]*'\)")


def later(node):
    """The children of a node that do not run when its module is loaded: bodies of functions, and what is for type checkers."""
    if isinstance(node, ast.Lambda):
        return [node.body]
    is_for_checkers = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    return node.body if is_for_checkers or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) else []


def at_load(node):
    """All nodes below this one that run when a module is loaded."""
    for child in ast.iter_child_nodes(node):
        if child not in later(node) and not (isinstance(child, ast.Call) and OF_OTHERS.fullmatch(ast.unparse(child))):
            yield child
            yield from at_load(child)


def parents(name):
    """All packages that a module is in, and it."""
    parts = name.split(".") if name else []
    return [".".join(parts[:length]) for length in range(len(parts) + 1)]


def names_in(node):
    """The first parts of the names that a node imports absolutely, or is."""
    if isinstance(node, ast.Import):
        return {alias.name.split(".")[0] for alias in node.names}
    if isinstance(node, ast.ImportFrom):
        return {node.module.split(".")[0]} if node.level == 0 else set()
    return {node.id} if isinstance(node, ast.Name) else set()


def targets_of(node, package, modules):
    """What a relative import takes: `from . import a` modules, or names of the package, and `from .a import b` what is in a module."""
    base = ".".join((*package[:len(package) - (node.level - 1)], *filter(None, [node.module])))
    whole = [".".join(filter(None, [base, alias.name])) for alias in node.names]
    return {name if name in modules else base for name in whole}


def faults(texts, package):
    """`texts` has the text of each file by its path in the package, as `torch/__init__.py`."""
    trees = {re.sub(r"(^|\.)__init__$", "", path.removesuffix(".py").replace("/", ".")): (path, ast.parse(text)) for path, text in texts.items()}
    modules = {*trees, CORE}
    # Packages that import a module when one of its names is used.
    lazy = {name for name, (path, tree) in trees.items() if path.endswith("__init__.py")
            and any(getattr(node, "name", "") == "__getattr__" for node in ast.walk(tree))}
    found, imports = [], {}
    for name, (path, tree) in trees.items():
        folder = tuple(path.split("/")[:-1])
        imports[name] = set()
        for node in ast.walk(tree):
            if package in names_in(node) and isinstance(node, (ast.Import, ast.ImportFrom)):
                found.append(f"{path}: {ast.unparse(node)}: import modules of {package} relatively")
            if names_in(node) & BY_NAME and name not in MAY_IMPORT_BY_NAME:
                found.append(f"{path}: {ast.unparse(node)}: only modules of MAY_IMPORT_BY_NAME may do so (python_imports.py)")
        for node in at_load(tree):
            if names_in(node) & BY_NAME and ast.unparse(node) != "import importlib":
                found.append(f"{path}: {ast.unparse(node)}: do so in a function")
            if not isinstance(node, ast.ImportFrom) or node.level == 0:
                continue
            targets = targets_of(node, folder, modules)
            if targets - modules or targets & lazy:
                found.append(f"{path}: {ast.unparse(node)}: import it from the module that defines it")
            # The packages that a module is in are loaded before it; those of this one are being loaded.
            imports[name] |= targets | set().union(*map(parents, targets)) - set(parents(name))
        imports[name].discard(name)
    circle = circle_of(imports)
    return found + ([f"{package} has a circle of imports: {circle}"] if circle else [])
