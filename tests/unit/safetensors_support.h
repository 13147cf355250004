// Shared by the safetensors tests: makes files, opens them, and writes plans to memory.
#ifndef ESPALIER_TESTS_UNIT_SAFETENSORS_SUPPORT_H_
#define ESPALIER_TESTS_UNIT_SAFETENSORS_SUPPORT_H_

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/data_folder.h"
#include <doctest/doctest.h>

#include "espalier/base/little_endian.h"
#include "espalier/foreign/safetensors/opener.h"
#include "espalier/foreign/safetensors/writer.h"
#include "espalier/read/to_value.h"

namespace espalier::testing {

/// A file with that header, and `buffer` after it.
inline std::string safetensors_file(std::string_view json, std::string_view buffer = {}) {
  std::string file(8, '\0');
  store_le(reinterpret_cast<std::byte*>(file.data()), std::uint64_t{json.size()});
  file += json;
  file += buffer;
  return file;
}

inline std::string bytes_of(std::size_t count) {
  std::string bytes(count, '\0');
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<char>(i * 37 % 251);
  return bytes;
}

/// Opens a file in memory, fed in pieces of at most `piece` bytes.
inline Result<Checkpoint> open_safetensors(std::string_view file, Limits limits = {},
                                           std::uint64_t piece = ~std::uint64_t{0},
                                           bool nest = false) {
  SafetensorsOpener opener({.file_size = file.size(), .limits = limits, .nest = nest});
  while (!opener.needs().empty()) {
    Extent extent = opener.needs().front();
    extent.length = std::min(extent.length, piece);
    auto fed = opener.feed(extent, as_bytes(file.substr(static_cast<std::size_t>(extent.offset),
                                                        static_cast<std::size_t>(extent.length))));
    if (!fed) return propagate(fed);
  }
  return opener.finish();
}

/// The state of an open file, its tensors pointing into `file`.
inline Value state_of(const Checkpoint& checkpoint, std::string_view file) {
  auto state = to_value(checkpoint.state(), [&](const TensorRef& tensor) -> Result<TensorData> {
    const auto extent = tensor.raw_extent();
    REQUIRE(extent);
    return TensorData::borrowed(as_bytes(file).subspan(static_cast<std::size_t>(extent->offset),
                                                       static_cast<std::size_t>(extent->length)));
  });
  REQUIRE(state);
  return std::move(*state);
}

/// The file that a plan describes, written tensor by tensor.
inline std::string file_of(const SafetensorsPlan& plan) {
  std::string file(as_text(plan.header));
  for (const SafetensorsTensor& tensor : plan.tensors) {
    REQUIRE(tensor.extent.offset == file.size());
    std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.extent.length));
    REQUIRE(tensor.data.read(0, bytes));
    file += as_text(bytes);
  }
  REQUIRE(file.size() == plan.file_length);
  return file;
}

inline std::string read_file(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  REQUIRE_MESSAGE(stream.is_open(), "cannot read " << path);
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

/// A file that the public package wrote.
inline std::string safetensors_example(std::string_view name) {
  return read_file(data_path("safetensors/" + std::string(name) + ".safetensors"));
}

/// Whether two trees are the same: kinds, labels, keys and their order, bits of numbers, tensors'
/// types and bytes. `ties` collects which tensor of `a` is which of `b`.
inline bool same(const Value& a, const Value& b,
                 std::vector<std::pair<const Tensor*, const Tensor*>>& ties) {
  if (a.kind() != b.kind() || a.has_label() != b.has_label() || a.label() != b.label() ||
      a.children().size() != b.children().size()) {
    return false;
  }
  const auto same_bits = [](double x, double y) { return std::memcmp(&x, &y, sizeof x) == 0; };
  switch (a.kind()) {
    case Kind::kBool:
      return a.as_bool() == b.as_bool();
    case Kind::kInt64:
      return a.as_int64() == b.as_int64();
    case Kind::kBigInt:
      return *a.as_bigint() == *b.as_bigint();
    case Kind::kFloat64:
      return same_bits(*a.as_double(), *b.as_double());
    case Kind::kComplex128:
      return same_bits(a.as_complex()->real(), b.as_complex()->real()) &&
             same_bits(a.as_complex()->imag(), b.as_complex()->imag());
    case Kind::kString:
      return *a.as_string() == *b.as_string();
    case Kind::kBytes:
      return *a.as_bytes() == *b.as_bytes();
    case Kind::kTensor:
    case Kind::kPlaceholder: {
      const auto x = a.as_tensor();
      const auto y = b.as_tensor();
      for (const auto& [left, right] : ties) {
        if ((left == x.get()) != (right == y.get())) return false;
      }
      ties.push_back({x.get(), y.get()});
      const auto left = x->data.memory();
      const auto right = y->data.memory();
      return x->dtype == y->dtype && x->shape == y->shape && x->axis_names == y->axis_names &&
             x->block() == y->block() && left.has_value() == right.has_value() &&
             (!left || as_text(*left) == as_text(*right));
    }
    default:
      break;
  }
  for (std::size_t i = 0; i < a.children().size(); ++i) {
    if (!a.keys().empty() && a.keys()[i] != b.keys()[i]) return false;
    if (!same(a.children()[i], b.children()[i], ties)) return false;
  }
  return true;
}

inline bool same(const Value& a, const Value& b) {
  std::vector<std::pair<const Tensor*, const Tensor*>> ties;
  return same(a, b, ties);
}

/// A tensor that owns `bytes` made-up bytes.
inline Tensor tensor_of(DType dtype, std::vector<std::uint64_t> shape, std::size_t bytes) {
  const std::string text = bytes_of(bytes);
  const ByteSpan span = as_bytes(text);
  Tensor tensor;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  tensor.data = TensorData::owned({span.begin(), span.end()});
  return tensor;
}

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_UNIT_SAFETENSORS_SUPPORT_H_
