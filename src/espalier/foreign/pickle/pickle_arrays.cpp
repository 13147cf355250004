// The part of PickleTree that reads arrays of numpy.
#include <algorithm>
#include <string>
#include <utility>

#include "espalier/base/checked.h"
#include "espalier/dtype.h"
#include "espalier/foreign/numpy/numpy_type.h"
#include "espalier/foreign/pickle/pickle_tree.h"

namespace espalier {
namespace {

// Python's repr() of a text without line ends.
std::string repr(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

}  // namespace

// "f4" of numpy.dtype('f4', False, True).
std::optional<std::string_view> PickleTree::numpy_code(PickleRef ref) {
  if (graph_.type(ref) != PickleType::kCall) return std::nullopt;
  const auto function = global_of(graph_.call(ref).callable);
  if (!function || function->module != "numpy" || function->name != "dtype") return std::nullopt;
  const auto args = args_of(ref);
  return args.empty() ? std::nullopt : text_of(args[0]);
}

// The state of a dtype is (version, order, (base, shape) of a subarray, names of fields,
// {name: (dtype, offset)}, bytes, alignment, flags), and ({}, (unit, count, ...)) for dates.
std::optional<PickleTree::NumpyElement> PickleTree::numpy_element(PickleRef ref, int depth) {
  const auto code = numpy_code(ref);
  if (!code || error_ || depth > kMaxFieldNesting) return std::nullopt;
  const PickleRef* const state = graph_.state(ref);
  const auto parts = state == nullptr ? std::span<const PickleRef>() : tuple(*state);
  const auto order = parts.size() > 1 ? text_of(parts[1]) : std::nullopt;
  std::string name(order.value_or(""));
  const auto type = parse_numpy_type(name += *code);
  if (!type) return std::nullopt;
  if (parts.size() > 8 && tuple(parts[8]).size() == 2) {
    const auto dates = tuple(tuple(parts[8])[1]);
    const auto unit = dates.size() > 1 ? bytes_of(dates[0]) : std::nullopt;
    const auto count = unit ? integer(dates[1]) : std::nullopt;
    if (count && as_text(*unit) != "generic") {
      count_steps(unit->size() / kMadeBytesPerStep);
      name += '[' + (*count == 1 ? std::string() : std::to_string(*count));
      name.append(as_text(*unit)) += ']';
    }
  }
  if (parts.size() > 4 && is_tuple(parts[3])) {
    auto fields = numpy_fields(parts[3], parts[4], type->bytes, depth);
    if (!fields) return std::nullopt;
    name = std::move(*fields);
  }
  std::string axes;
  if (parts.size() > 4 && tuple(parts[2]).size() == 2) {
    std::vector<std::uint64_t> shape;
    const bool is_shape = read_sizes(tuple(parts[2])[1], shape);
    auto base = is_shape ? numpy_element(tuple(parts[2])[0], depth + 1) : std::nullopt;
    if (!base) return std::nullopt;
    for (const std::uint64_t axis : shape) axes += std::to_string(axis) + ", ";
    if (!axes.empty()) axes.resize(axes.size() - (shape.size() == 1 ? 1 : 2));
    name = std::move(base->name);
  }
  return NumpyElement{*type, std::move(name), std::move(axes)};
}

// As a .npy file says it: [('a', '<f4'), ('b', '<i8', (3,))]. Nothing if fields overlap.
std::optional<std::string> PickleTree::numpy_fields(PickleRef names, PickleRef fields,
                                                    std::uint64_t bytes, int depth) {
  if (graph_.type(fields) != PickleType::kDict) return std::nullopt;
  std::string all = "[";
  std::uint64_t at = 0;
  const auto pad_to = [&](std::uint64_t offset) {
    if (offset > at) all += "('', '|V" + std::to_string(offset - at) + "'), ";
  };
  const auto of = elements_of(fields);
  for (const PickleRef each : tuple(names)) {
    count_steps(of.size());
    const auto name = text_of(each);
    std::span<const PickleRef> place;
    for (std::size_t i = 0; name && i < of.size(); i += 2) {
      if (text_of(of[i]) == name) place = tuple(of[i + 1]);
    }
    const auto offset = place.size() == 2 ? integer(place[1]) : std::nullopt;
    const auto element = offset ? numpy_element(place[0], depth + 1) : std::nullopt;
    if (!element || *offset < 0 || static_cast<std::uint64_t>(*offset) < at) return std::nullopt;
    // Fields may share a name or a type of half a megabyte.
    count_steps((name->size() + element->name.size()) / kMadeBytesPerStep);
    if (error_) return std::nullopt;
    pad_to(static_cast<std::uint64_t>(*offset));
    at = static_cast<std::uint64_t>(*offset) + element->type.bytes;
    const bool is_plain = !element->name.starts_with('[');
    all += '(' + repr(*name) + ", " + (is_plain ? repr(element->name) : element->name);
    if (!element->axes.empty()) all += ", (" + element->axes + ')';
    all += "), ";
  }
  if (at > bytes) return std::nullopt;
  pad_to(bytes);
  if (all.size() > 1) all.resize(all.size() - 2);
  return all + ']';
}

bool PickleTree::read_numpy_dtype(PickleRef ref, ForeignTensor& tensor, std::string& missing) {
  auto element = numpy_element(ref, 0);
  if (!element || element->type.bytes == 0) {
    return missing = "its dtype has no counterpart here", false;
  }
  tensor.dtype = element->type.dtype;
  if (tensor.dtype == DType::kOpaque) {
    tensor.block = {keep(std::move(element->name)), 1,
                    static_cast<std::uint32_t>(element->type.bytes)};
    give_axis(tensor);
  }
  if (element->type.is_swapped) tensor.flags |= kStorageSwapped;
  missing.clear();
  return true;
}

void PickleTree::give_axis(ForeignTensor& tensor) {
  if (tensor.dtype != DType::kOpaque || !tensor.shape.empty()) return;
  tensor.shape.push_back(1);
  tensor.strides.clear();
  note(Note::Kind::kWarning, "This has no axes; as it is opaque here, it is shown with one.");
}

bool PickleTree::read_array(PickleRef ref, ForeignTensor& tensor, std::string& missing) {
  const auto args = args_of(ref);
  PickleRef dtype = ref;
  PickleRef data = ref;
  bool is_fortran = false;
  missing = "its array is not one that numpy writes";
  if (const PickleRef* state = graph_.state(ref)) {  // (version, shape, dtype, is_fortran, bytes)
    const auto parts = tuple(*state);
    if (parts.size() != 5) return false;
    if (!read_sizes(parts[1], tensor.shape)) return false;
    dtype = parts[2];
    const auto order = boolean(parts[3]);
    if (!order) return false;
    is_fortran = *order;
    data = parts[4];
  } else if (args.size() == 4) {  // _frombuffer(bytes, dtype, shape, order)
    if (!read_sizes(args[2], tensor.shape)) return false;
    data = args[0];
    dtype = args[1];
    is_fortran = text_of(args[3]) == "F";
  } else if (args.size() == 2) {  // scalar(dtype, bytes)
    dtype = args[0];
    data = args[1];
  } else {
    return false;
  }
  if (!read_numpy_dtype(dtype, tensor, missing)) return false;
  if (is_fortran && tensor.shape.size() > 1) {
    if (tensor.dtype == DType::kOpaque) {
      return missing = "it has Fortran order and elements that are no numbers", false;
    }
    std::uint64_t stride = 1;
    for (const std::uint64_t axis : tensor.shape) {
      tensor.strides.push_back(stride);
      stride *= std::max<std::uint64_t>(axis, 1);
    }
  }
  const auto needed = tensor_bytes(tensor.dtype, tensor.shape, tensor.block);
  const auto found = bytes_of(data);
  if (!found) {
    missing = "it holds Python objects, or its bytes are not in the pickle";
    return false;
  }
  const ByteSpan bytes = *found;
  if (!needed || bytes.size() != *needed) {
    missing = "its bytes do not fit its shape";
    return false;
  }
  const auto place = place_bytes(bytes);
  if (!place) return missing = "its bytes cannot be kept", false;
  tensor.file = place->file;
  tensor.offset = place->offset;
  missing.clear();
  return true;
}

std::optional<ByteSpan> PickleTree::bytes_of(PickleRef ref) {
  if (!ref.is_literal()) {
    if (graph_.type(ref) != PickleType::kCall) return std::nullopt;
    auto decoded = encoded_latin(ref);
    if (!decoded) return std::nullopt;
    latin_ = std::move(*decoded);
    return as_bytes(latin_);
  }
  const PickleLiteral literal = graph_.literal(ref);
  switch (literal.type) {
    case PickleType::kBytes:
    case PickleType::kByteArray:
      return literal.bytes;
    case PickleType::kOldText:
      return as_bytes(unescaped(literal));
    default:
      return std::nullopt;
  }
}

bool PickleTree::read_tensor(PickleRef ref, ForeignTensor& tensor, std::string& missing) {
  return read_array(ref, tensor, missing);
}

}  // namespace espalier
