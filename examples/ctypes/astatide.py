"""The C interface of Astatide (astatide_c.h) through ctypes: any arrays that give DLPack capsules, and memoryviews.

    engine = astatide.Engine()
    run = engine.build(astatide.load_algorithm("attention"), device="cpu", dtype="f32", sizes={"D": 64, "Dv": 64})
    run.launch({"Q": q, "K": k, "V": v, "O": o, "L": l})

ASTATIDE_LIBRARY names libastatide.so where the loader does not find it. Functions raise Error, whose text says what is
wrong, where, and what to try.
"""

import ctypes
import os
from ctypes import POINTER, Structure, byref, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint8, c_uint16
from ctypes import c_uint32, c_uint64, c_void_p

CPU, CUDA = 1, 2  # DLDeviceType
DTYPES = {"f16": (2, 16), "f32": (2, 32), "f64": (2, 64), "bf16": (4, 16), "i32": (0, 32), "i64": (0, 64), "u8": (1, 8),
          "bool": (6, 8)}  # DLDataTypeCode and bits
FORMATS = {"f": "f32", "d": "f64", "e": "f16", "i": "i32", "q": "i64", "l": "i64", "B": "u8", "?": "bool"}


class DLDevice(Structure):
    _fields_ = [("device_type", c_int32), ("device_id", c_int32)]


class DLDataType(Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class DLTensor(Structure):
    _fields_ = [("data", c_void_p), ("device", DLDevice), ("ndim", c_int32), ("dtype", DLDataType),
                ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)), ("byte_offset", c_uint64)]


class DLManagedTensorVersioned(Structure):
    _fields_ = [("major", c_uint32), ("minor", c_uint32), ("manager_ctx", c_void_p), ("deleter", c_void_p),
                ("flags", c_uint64), ("dl_tensor", DLTensor)]


class Tensor(Structure):
    _fields_ = [("name", c_char_p), ("tensor", POINTER(DLTensor)), ("managed", POINTER(DLManagedTensorVersioned))]


class Size(Structure):
    _fields_ = [("name", c_char_p), ("value", c_int64)]


class Scalar(Structure):
    _fields_ = [("name", c_char_p), ("value", c_double)]


class Sized(Structure):
    """Structures that begin with their own size."""

    def __init__(self, **values):
        super().__init__(struct_size=ctypes.sizeof(type(self)), **values)


class BuildOptions(Sized):
    _fields_ = [("struct_size", c_size_t), ("device", DLDevice), ("dtype", DLDataType), ("sizes", POINTER(Size)),
                ("size_count", c_size_t)]


class Launch(Sized):
    _fields_ = [("struct_size", c_size_t), ("tensors", POINTER(Tensor)), ("tensor_count", c_size_t),
                ("scalars", POINTER(Scalar)), ("scalar_count", c_size_t), ("extents", POINTER(Size)),
                ("extent_count", c_size_t), ("stream", c_void_p), ("workspace", c_void_p), ("workspace_bytes", c_int64),
                ("check_indices", c_int32)]


class Counters(Sized):
    _fields_ = [("struct_size", c_size_t), ("compiles", c_uint64), ("disk_hits", c_uint64), ("memory_hits", c_uint64),
                ("launches", c_uint64)]


class Error(RuntimeError):
    """`status` is 2 where the request is wrong, 3 where the machine lacks something, 4 for a fault of the library's."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


_library = ctypes.CDLL(os.environ.get("ASTATIDE_LIBRARY", "libastatide.so"))
_library.astatide_version.restype = _library.astatide_error_text.restype = c_char_p
_library.astatide_error_text.argtypes = _library.astatide_error_destroy.argtypes = [c_void_p]
_library.astatide_error_destroy.restype = None


def _call(name, *arguments):
    error = c_void_p()
    status = getattr(_library, name)(*arguments, byref(error))
    if status != 0:
        text = _library.astatide_error_text(error).decode()
        _library.astatide_error_destroy(error)
        raise Error(status, text)


class _Handle:
    def __init__(self, kind, maker, *arguments):
        self.pointer, self._destroy = c_void_p(), getattr(_library, f"astatide_{kind}_destroy")
        self._destroy.argtypes, self._destroy.restype = [c_void_p], None
        _call(maker, *arguments, byref(self.pointer))

    def __del__(self):
        if getattr(self, "pointer", None):
            self._destroy(self.pointer)


def version():
    return _library.astatide_version().decode()


def load_algorithm(path_or_name):
    return _Handle("algorithm", "astatide_algorithm_load", os.fsencode(path_or_name))


def load_schedule(path_or_name):
    return _Handle("schedule", "astatide_schedule_load", os.fsencode(path_or_name))


def _array(kind, values):
    return (kind * len(values))(*(kind(name.encode(), value) for name, value in values.items()))


def _view_tensor(view):
    """A DLTensor of a memoryview, and what has to live as long as it."""
    if view.format not in FORMATS or view.readonly:
        raise TypeError(f"no tensor: format {view.format}, readonly {view.readonly}")
    shape = (c_int64 * view.ndim)(*view.shape)
    strides = (c_int64 * view.ndim)(*(step // view.itemsize for step in view.strides))
    memory = (ctypes.c_char * view.nbytes).from_buffer(view) if view.nbytes else None
    data = ctypes.addressof(memory) if view.nbytes else None
    return DLTensor(data, DLDevice(CPU, 0), view.ndim, DLDataType(*DTYPES[FORMATS[view.format]], 1), shape, strides,
                    0), memory


def _capsule_of(array, stream):
    # -1: the launch is in the stream that the tensors are used in, so nothing has to wait.
    asked = {} if stream is None else {"stream": -1}
    try:
        return array.__dlpack__(max_version=(1, 0), **asked)
    except TypeError:  # an array library that knows no versions
        return array.__dlpack__(**asked)


def _tensor(name, array, stream):
    """An argument, and what has to live as long as it."""
    if not hasattr(array, "__dlpack__"):
        tensor, memory = _view_tensor(memoryview(array))
        return Tensor(name.encode(), ctypes.pointer(tensor), None), memory
    # The capsule is borrowed, not taken: it keeps its name, and frees what it holds when it dies.
    capsule, api = _capsule_of(array, stream), ctypes.pythonapi
    api.PyCapsule_IsValid.argtypes = api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, c_char_p]
    api.PyCapsule_GetPointer.restype = c_void_p
    if api.PyCapsule_IsValid(capsule, b"dltensor_versioned"):
        held = api.PyCapsule_GetPointer(capsule, b"dltensor_versioned")
        return Tensor(name.encode(), None, ctypes.cast(held, POINTER(DLManagedTensorVersioned))), capsule
    held = api.PyCapsule_GetPointer(capsule, b"dltensor")
    return Tensor(name.encode(), ctypes.cast(held, POINTER(DLTensor)), None), capsule


class Executable(_Handle):
    def launch(self, tensors, scalars=None, extents=None, stream=None, check_indices=False):
        """Inputs and outputs by name. `stream` is the number of a CUDA stream; on the CPU results are there afterwards."""
        arguments = [_tensor(name, array, stream) for name, array in tensors.items()]
        scalars, extents = _array(Scalar, scalars or {}), _array(Size, extents or {})
        launch = Launch(tensors=(Tensor * len(arguments))(*(argument for argument, _ in arguments)),
                        tensor_count=len(arguments), scalars=scalars, scalar_count=len(scalars), extents=extents,
                        extent_count=len(extents), stream=stream, check_indices=check_indices)
        _call("astatide_executable_launch", self.pointer, byref(launch))


class Engine(_Handle):
    def __init__(self):
        super().__init__("engine", "astatide_engine_create", None)

    def build(self, algorithm, schedule=None, device="cpu", dtype="f32", sizes=None):
        """`device` is "cpu", "cuda" or "cuda:1"; without a schedule the library takes the one that serves the sizes."""
        kind, _, ordinal = device.partition(":")
        sizes = _array(Size, sizes or {})
        options = BuildOptions(device=DLDevice({"cpu": CPU, "cuda": CUDA}[kind], int(ordinal or 0)),
                               dtype=DLDataType(*DTYPES[dtype], 1), sizes=sizes, size_count=len(sizes))
        return Executable("executable", "astatide_engine_build", self.pointer, algorithm.pointer,
                          schedule and schedule.pointer, byref(options))

    def counters(self):
        counters = Counters()
        _call("astatide_engine_counters", self.pointer, byref(counters))
        return {name: getattr(counters, name) for name, _ in Counters._fields_[1:]}
