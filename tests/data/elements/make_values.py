"""Writes values.txt: what codes of each small dtype mean, according to numpy and ml_dtypes.

    pip install -r requirements.txt && python3 make_values.py > values.txt

Each line is "dtype code value": every code of the types of at most 8 bits, some of the 16-bit ones.
"""

import ml_dtypes
import numpy

TYPES = {
    "i8": numpy.int8, "u8": numpy.uint8,
    "i4": ml_dtypes.int4, "u4": ml_dtypes.uint4, "i2": ml_dtypes.int2, "u2": ml_dtypes.uint2,
    "f16": numpy.float16, "bf16": ml_dtypes.bfloat16,
    "f8_e4m3fn": ml_dtypes.float8_e4m3fn, "f8_e5m2": ml_dtypes.float8_e5m2,
    "f8_e4m3fnuz": ml_dtypes.float8_e4m3fnuz, "f8_e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "f8_e8m0fnu": ml_dtypes.float8_e8m0fnu,
    "f4_e2m1fn": ml_dtypes.float4_e2m1fn,
    "f6_e2m3fn": ml_dtypes.float6_e2m3fn, "f6_e3m2fn": ml_dtypes.float6_e3m2fn,
}
BITS = {"i4": 4, "u4": 4, "i2": 2, "u2": 2, "f16": 16, "bf16": 16, "f4_e2m1fn": 4,
        "f6_e2m3fn": 6, "f6_e3m2fn": 6}

for name, dtype in TYPES.items():
    bits = BITS.get(name, 8)
    # A multiple of 4 codes, so that every type fills whole bytes.
    codes = range(1 << bits) if bits < 16 else [code * 37 % 65536 for code in range(2048)]
    for code in codes:
        raw = numpy.array([code], dtype=numpy.uint16 if bits == 16 else numpy.uint8)
        if name in ("i4", "i2") and code >> (bits - 1):
            # ml_dtypes holds a narrow integer as a whole byte, with its sign.
            raw = numpy.array([code | (256 - (1 << bits))], dtype=numpy.uint8)
        value = raw.view(dtype).astype(numpy.float64)[0]
        print(name, code, repr(float(value)))
