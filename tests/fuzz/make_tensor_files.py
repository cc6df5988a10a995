"""Writes the tensor files that tests/unit/runtime_tensor_file.cpp compares with and the fuzz target starts from.

    python3 tests/fuzz/make_tensor_files.py      (needs numpy, ml_dtypes and safetensors)

Every tensor holds 0, 1, 2, … in the order of its index, minus 3 where the type has a sign; booleans alternate, false first.
"""

import json
import pathlib
import struct

import ml_dtypes
import numpy as np
from numpy.lib import format as npy_format
from safetensors.numpy import save

FOLDER = pathlib.Path(__file__).parent / "corpus/tensor_file"


def counting(dtype, shape):
    count = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    if np.dtype(dtype) == np.bool_:
        return count % 2 == 1
    return np.array(count if np.dtype(dtype).kind == "u" else count - 3).astype(dtype)


def write_npy(name, array, version=None):
    with open(FOLDER / f"{name}.npy", "wb") as file:
        npy_format.write_array(file, array, version=version)


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    for dtype in ["<f4", "<f2", "<f8", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "|b1", ">f4", ">f2", ">f8", ">i2", ">i8"]:
        order = "big" if dtype[0] == ">" else "little"
        write_npy(f"{dtype[1:]}_{order}", counting(dtype, (2, 3)))
    write_npy("bfloat16", counting(ml_dtypes.bfloat16, (2, 3)))
    write_npy("f4_fortran", np.asfortranarray(counting("<f4", (2, 3, 2))))
    write_npy("f4_version2", counting("<f4", (2, 3)), version=(2, 0))
    write_npy("f4_version3", counting("<f4", (2, 3)), version=(3, 0))
    write_npy("f4_scalar", counting("<f4", ()))
    write_npy("f4_vector", counting("<f4", (3,)))
    write_npy("f4_empty", counting("<f4", (2, 0, 3)))
    # The reader skips what NumPy itself would unpickle; such a file must be refused.
    write_npy("structured", np.zeros(2, dtype=[("a", "<f4"), ("b", "<i4")]))

    tensors = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f64": np.float64, "i64": np.int64, "i32": np.int32,
               "i16": np.int16, "i8": np.int8, "u32": np.uint32, "u16": np.uint16, "u8": np.uint8, "bool": np.bool_}
    content = save({name: counting(dtype, (2, 3)) for name, dtype in tensors.items()}, metadata={"made_by": "numpy"})
    (FOLDER / "all_types.safetensors").write_bytes(content)
    (FOLDER / "shapes.safetensors").write_bytes(save(
        {"scalar": counting(np.float32, ()), "empty": counting(np.float32, (0, 4)), "deep": counting(np.float32, (1, 2, 1, 3))}))

    def by_hand(name, header, data):
        text = header if isinstance(header, bytes) else json.dumps(header).encode()
        (FOLDER / f"{name}.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)

    one = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    by_hand("overlap", {"a": one, "b": one}, bytes(8))
    by_hand("deep", b"[" * 200, b"")
    by_hand("huge_shape", {"a": {"dtype": "F32", "shape": [2**40, 2**40], "data_offsets": [0, 8]}}, bytes(8))


main()
