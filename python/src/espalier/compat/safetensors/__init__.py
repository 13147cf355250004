"""The interface of safetensors 0.8, over files of both formats: change the import, and the rest of a program stays.

    from espalier.compat.safetensors import safe_open
    from espalier.compat.safetensors.torch import load_file, save_file

Reading: safetensors and Espalier files alike, told apart by their first bytes. The names of an Espalier file's tensors
are their keys joined with dots; other values are not listed. Its hashes are compared.

Writing: a name that ends in `.espalier` gets an Espalier file, with hashes. All others get safetensors files: programs
write to `model.safetensors.tmp` and rename it, or to names of their own, and other programs read the result. A file of
the wrong format there would be noticed late, by someone else.

Left out are serialize(), serialize_file() and TensorSpec, which take addresses of memory: save() and save_file() of the
modules do the same for arrays. `__version__` is that of the safetensors whose interface this is.

Exceptions are Espalier's: SafetensorError is EspalierError, the base of all, also of the FileNotFoundError.
"""

from ..._errors import EspalierError as SafetensorError
from ._open import deserialize, safe_open

__version__ = "0.8.0"

__all__ = ["SafetensorError", "__version__", "deserialize", "safe_open"]
