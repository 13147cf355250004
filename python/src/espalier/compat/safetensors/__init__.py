"""The interface of safetensors 0.8, over files of both formats: change the import, and the rest of a program stays.

    from espalier.compat.safetensors import safe_open
    from espalier.compat.safetensors.torch import load_file, save_file

Reading: safetensors and Espalier files alike, told apart by their first bytes. The names of an Espalier file's tensors
are their keys joined with dots; other values are not listed. Its hashes are compared.

Writing: a name that ends in `.espalier` gets an Espalier file, with hashes. All others get safetensors files: programs
write to `model.safetensors.tmp` and rename it, or to names of their own, and other programs read the result. A file of
the wrong format there would be noticed late, by someone else.

`__version__` is that of the safetensors whose interface this is.

Exceptions are Espalier's: SafetensorError is EspalierError, the base of all, also of the FileNotFoundError.

substitute() gives all this to libraries that import safetensors.
"""

import sys

from ..._errors import EspalierError as SafetensorError
from ._open import _safe_open_handle, deserialize, safe_open
from ._specs import TensorSpec, serialize, serialize_file

__version__ = "0.8.0"


def substitute() -> None:
    """Gives this module to all that imports safetensors from now on: transformers, diffusers, PEFT, huggingface_hub and others.

        import espalier.compat.safetensors
        espalier.compat.safetensors.substitute()
        import transformers

    It sets sys.modules["safetensors"] and those of .numpy, .torch and .flax, for the whole process, and so comes first in a
    program: it is an error if safetensors was imported before, as others then hold its functions. The package safetensors
    stays installed, since libraries ask for its version. To call this again does nothing.
    """
    ours = sys.modules[__name__]
    if sys.modules.get("safetensors") is ours:
        return
    if "safetensors" in sys.modules:
        raise SafetensorError(
            "safetensors was imported before, and what imported it keeps using it; call substitute() at the program's beginning, "
            "before transformers, diffusers, PEFT and the like are imported"
        )
    from . import flax, numpy

    sys.modules.update({"safetensors": ours, "safetensors.numpy": numpy, "safetensors.flax": flax})
    try:
        from . import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        return
    sys.modules["safetensors.torch"] = torch


__all__ = [
    "SafetensorError", "TensorSpec", "__version__", "_safe_open_handle", "deserialize", "safe_open", "serialize",
    "serialize_file", "substitute",
]  # fmt: skip
