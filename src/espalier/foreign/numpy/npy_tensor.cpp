#include "espalier/foreign/numpy/npy_tensor.h"

#include <algorithm>
#include <string>
#include <vector>

#include "espalier/base/checked.h"
#include "espalier/dtype.h"

namespace espalier {
namespace {

// The steps of an array whose first axis is the fastest.
std::vector<std::uint64_t> fortran_strides(const std::vector<std::uint64_t>& shape) {
  std::vector<std::uint64_t> strides;
  std::uint64_t step = 1;
  for (const std::uint64_t axis : shape) {
    strides.push_back(step);
    step *= axis;
  }
  return strides;
}

// Types of ml_dtypes reach the file as plain bytes: "<V2" is bfloat16 as a rule, "<V1" any of the
// types of 8 bits or fewer.
std::optional<Note> note_on(const NpyArray& array) {
  const std::string_view name = array.block.name;
  if (name != "<V2" && name != "<V1") return std::nullopt;
  return Note{.message = std::string("NumPy stores elements of ml_dtypes, such as ") +
                         (name == "<V2" ? "bfloat16" : "float8_e4m3fn") +
                         ", without their type: they are opaque here, and "
                         "ARRAY.view(ml_dtypes.NAME) in Python tells NumPy what they are"};
}

}  // namespace

std::optional<std::uint64_t> npy_data_bytes(const NpyArray& array) {
  const auto elements = shape_elements(array.shape);
  const auto bytes = elements ? checked_mul(*elements, array.item_bytes) : std::nullopt;
  return bytes && *elements <= kMaxTensorBytes && *bytes <= kMaxTensorBytes ? bytes : std::nullopt;
}

std::optional<Note> add_npy_tensor(TableBuilder& builder, const NpyArray& array, std::uint16_t file,
                                   std::uint64_t offset) {
  if (array.item_bytes == 0) {
    // Texts of no characters: as many elements of no bytes.
    std::vector<std::uint64_t> shape = array.shape;
    shape.push_back(0);
    builder.tensor({DType::kU8, shape});
    builder.place(file, offset);
    return Note{.message =
                    "the elements of this array have no bytes, as empty texts; it is shown "
                    "as bytes with one more axis, of length 0"};
  }
  // Blocks need an axis to lie along.
  std::vector<std::uint64_t> one_axis;
  const bool is_single = array.dtype == DType::kOpaque && array.shape.empty();
  if (is_single) one_axis.push_back(1);
  const TensorType type{array.dtype, is_single ? one_axis : array.shape, array.block};
  if (array.has_objects) {
    builder.placeholder(type);
    return Note{.kind = Note::Kind::kLoss,
                .message =
                    "this is an array of Python objects, which are stored as a pickle that loading "
                    "would run; ask its author for arrays of numbers"};
  }
  const bool is_empty = std::find(array.shape.begin(), array.shape.end(), 0) != array.shape.end();
  const bool is_strided = array.is_fortran && !is_empty && array.shape.size() > 1;
  if (is_strided && array.dtype == DType::kOpaque) {
    builder.placeholder(type);
    return Note{.kind = Note::Kind::kLoss,
                .message =
                    "this array has Fortran order and elements that are no numbers; load "
                    "it with numpy and save numpy.ascontiguousarray(ARRAY)"};
  }
  builder.tensor(type);
  StorageRecord form;
  if (is_strided) form.flags |= kStorageStrided;
  if (array.is_swapped && !is_empty) form.flags |= kStorageSwapped;
  if (is_strided) {
    form.elements = 1;
    for (const std::uint64_t axis : array.shape) form.elements *= axis;
    builder.storage(form, fortran_strides(array.shape));
  } else if (form.flags != 0) {
    builder.storage(form, {});
  }
  builder.place(file, offset);
  if (auto note = note_on(array)) return note;
  if (!is_single) return std::nullopt;
  return Note{.message =
                  "this array has one element and no axes; as it is opaque here, it is shown "
                  "with one axis, of length 1"};
}

}  // namespace espalier
