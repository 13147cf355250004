#include "support/equal.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "espalier/dtype.h"

namespace espalier::testing {
namespace {

std::uint64_t bits(double number) { return std::bit_cast<std::uint64_t>(number); }

std::optional<std::vector<std::byte>> contents(const Tensor& tensor) {
  const auto size = tensor_bytes(tensor.dtype, tensor.shape, tensor.block());
  if (!size) return std::nullopt;
  std::vector<std::byte> bytes(static_cast<std::size_t>(*size));
  if (!tensor.data.read(0, bytes)) return std::nullopt;
  return bytes;
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  const auto in_a = a.data.memory();
  const auto in_b = b.data.memory();
  if (in_a && in_b) return std::equal(in_a->begin(), in_a->end(), in_b->begin(), in_b->end());
  const auto of_a = contents(a);
  return of_a && of_a == contents(b);
}

class Comparison {
 public:
  std::string compare(const Value& a, const Value& b) {
    if (const std::string what = difference_of(a, b); !what.empty()) {
      return path_.empty() ? "in the root: " + what : "in " + path_.to_string() + ": " + what;
    }
    for (std::size_t i = 0; i < a.children().size(); ++i) {
      path_.push_back(a.keys().empty() ? Key(static_cast<std::int64_t>(i)) : a.keys()[i]);
      if (std::string found = compare(a.children()[i], b.children()[i]); !found.empty()) {
        return found;
      }
      path_.pop_back();
    }
    return {};
  }

 private:
  std::string difference_of(const Value& a, const Value& b) {
    if (a.kind() != b.kind()) {
      return std::string(kind_name(a.kind())) + " and " + std::string(kind_name(b.kind()));
    }
    if (a.has_label() != b.has_label() || a.label() != b.label()) return "labels";
    switch (a.kind()) {
      case Kind::kNull:
        return {};
      case Kind::kBool:
        return a.as_bool() == b.as_bool() ? "" : "bools";
      case Kind::kInt64:
        return a.as_int64() == b.as_int64() ? "" : "integers";
      case Kind::kBigInt:
        return *a.as_bigint() == *b.as_bigint() ? "" : "big integers";
      case Kind::kFloat64:
        return bits(*a.as_double()) == bits(*b.as_double()) ? "" : "floats";
      case Kind::kComplex128:
        return bits(a.as_complex()->real()) == bits(b.as_complex()->real()) &&
                       bits(a.as_complex()->imag()) == bits(b.as_complex()->imag())
                   ? ""
                   : "complex numbers";
      case Kind::kString:
        return *a.as_string() == *b.as_string() ? "" : "strings";
      case Kind::kBytes:
        return *a.as_bytes() == *b.as_bytes() ? "" : "bytes";
      case Kind::kDict:
      case Kind::kList:
      case Kind::kTuple:
      case Kind::kSet:
      case Kind::kRecord:
        if (a.children().size() != b.children().size()) return "numbers of children";
        return std::equal(a.keys().begin(), a.keys().end(), b.keys().begin(), b.keys().end())
                   ? ""
                   : "keys, or their order";
      case Kind::kTensor:
      case Kind::kPlaceholder:
        return difference_of(a.as_tensor(), b.as_tensor());
    }
    return "unknown kinds";
  }

  std::string difference_of(std::shared_ptr<const Tensor> a, std::shared_ptr<const Tensor> b) {
    // A placeholder is its own, however many nodes share the object.
    if (!a->data.is_placeholder()) {
      const auto [to, is_new] = partners_.try_emplace(a.get(), b.get());
      const auto [back, is_new_back] = partners_back_.try_emplace(b.get(), a.get());
      if (to->second != b.get() || back->second != a.get()) return "ties";
      if (!is_new && !is_new_back) return {};
    }
    if (a->dtype != b->dtype) return "dtypes";
    if (a->shape != b->shape) return "shapes";
    if (a->axis_names != b->axis_names) return "axis names";
    if (a->block() != b->block()) return "block types";
    if (a->data.is_placeholder()) return b->data.is_placeholder() ? "" : "data";
    return same_bytes(*a, *b) ? "" : "tensor bytes";
  }

  KeyPath path_;
  std::unordered_map<const Tensor*, const Tensor*> partners_;
  std::unordered_map<const Tensor*, const Tensor*> partners_back_;
};

}  // namespace

std::string first_difference(const Value& a, const Value& b) { return Comparison().compare(a, b); }

}  // namespace espalier::testing
