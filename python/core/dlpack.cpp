#include "dlpack.h"

#include <atomic>
#include <utility>

#include <nanobind/ndarray.h>

namespace espalier::python {

namespace nb = nanobind;

namespace {

// DLManagedTensor of the DLPack specification, version 0.x.
struct Managed {
  nb::dlpack::dltensor tensor = {};
  void* context = nullptr;
  void (*deleter)(Managed*) = nullptr;
};

// What the capsule and the library that takes the tensor own together: the second of them to end
// frees it. A library that fails may have called the deleter, and leave the capsule as it was.
struct Owner {
  Managed managed;
  std::atomic<bool> has_one_ended = false;
  std::vector<std::int64_t> shape;
  std::shared_ptr<const void> keeper;
};

constexpr const char* kName = "dltensor";

nb::dlpack::dtype type_of(DType dtype) {
  // The numbers of DLDataTypeCode.
  constexpr std::uint8_t kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kComplex = 5, kBool = 6;
  const auto type = [](std::uint8_t code, std::uint8_t bits) {
    return nb::dlpack::dtype{code, bits, 1};
  };
  switch (dtype) {
    case DType::kBool:
      return type(kBool, 8);
    case DType::kI8:
      return type(kInt, 8);
    case DType::kI16:
      return type(kInt, 16);
    case DType::kI32:
      return type(kInt, 32);
    case DType::kI64:
      return type(kInt, 64);
    case DType::kU16:
      return type(kUInt, 16);
    case DType::kU32:
      return type(kUInt, 32);
    case DType::kU64:
      return type(kUInt, 64);
    case DType::kF16:
      return type(kFloat, 16);
    case DType::kBF16:
      return type(kBfloat, 16);
    case DType::kF32:
      return type(kFloat, 32);
    case DType::kF64:
      return type(kFloat, 64);
    case DType::kC64:
      return type(kComplex, 64);
    case DType::kC128:
      return type(kComplex, 128);
    default:
      return type(kUInt, 8);
  }
}

}  // namespace

bool is_exchanged_as_bytes(DType dtype) {
  const auto type = type_of(dtype);
  return dtype != DType::kU8 && type.code == 1 && type.bits == 8;
}

bool is_aligned(DType dtype, ByteSpan bytes) {
  const auto type = type_of(dtype);
  const std::uintptr_t size = type.code == 5 ? type.bits / 16 : type.bits / 8;
  return reinterpret_cast<std::uintptr_t>(bytes.data()) % size == 0;
}

nb::object to_dlpack(DType dtype, const std::vector<std::uint64_t>& shape, ByteSpan bytes,
                     std::shared_ptr<const void> keeper) {
  auto owner = std::make_unique<Owner>();
  owner->shape.assign(shape.begin(), shape.end());
  owner->keeper = std::move(keeper);
  owner->managed.tensor = {.data = const_cast<std::byte*>(bytes.data()),
                           .device = {1, 0},  // kDLCPU
                           .ndim = static_cast<std::int32_t>(shape.size()),
                           .dtype = type_of(dtype),
                           .shape = owner->shape.data(),
                           .strides = nullptr,  // C order
                           .byte_offset = 0};
  owner->managed.context = owner.get();
  owner->managed.deleter = [](Managed* managed) {
    auto* const owner = static_cast<Owner*>(managed->context);
    if (owner->has_one_ended.exchange(true)) delete owner;
  };
  // A library that takes the tensor renames the capsule.
  PyObject* const capsule = PyCapsule_New(&owner->managed, kName, [](PyObject* object) {
    const bool is_taken = PyCapsule_IsValid(object, kName) == 0;
    auto* const managed = static_cast<Managed*>(
        PyCapsule_GetPointer(object, is_taken ? PyCapsule_GetName(object) : kName));
    auto* const owner = static_cast<Owner*>(managed->context);
    if (!is_taken || owner->has_one_ended.exchange(true)) delete owner;
  });
  if (capsule == nullptr) throw nb::python_error();
  owner.release();
  return nb::steal(capsule);
}

}  // namespace espalier::python
