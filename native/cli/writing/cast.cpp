#include "cli/writing/cast.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "cli/terminal/text.h"
#include "espalier/base/counted.h"
#include "espalier/dtype.h"
#include "espalier/tree/elements.h"
#include "espalier/tree/encode_elements.h"

namespace espalier::cli {
namespace {

bool can_cast(DType dtype) { return element_type(dtype) == ElementType::kFloat64; }

// Makes the bytes of a tensor that is cast.
struct Caster {
  TensorData source;
  std::uint64_t source_bytes;
  DType from;
  DType to;
  std::shared_ptr<std::atomic<std::uint64_t>> overflows;

  // Elements in a block. They fill whole bytes in every type.
  static constexpr std::uint64_t kBlock = 8192;

  Result<void> operator()(std::uint64_t offset, MutableByteSpan out) const {
    const std::uint64_t to_bytes = dtype_bits(to) / 8;
    const std::uint64_t from_bits = dtype_bits(from);
    const std::uint64_t end = offset + out.size();
    // In whole bytes of both types, whatever range is asked for.
    const std::uint64_t first = offset / to_bytes / 8 * 8;
    const std::uint64_t begin_byte = first / 8 * from_bits;
    const std::uint64_t last = (end + to_bytes - 1) / to_bytes;
    const std::uint64_t end_byte = std::min(source_bytes, (last + 7) / 8 * from_bits);
    std::vector<std::byte> stored(static_cast<std::size_t>(end_byte - begin_byte));
    if (auto ok = source.read(begin_byte, stored); !ok) return ok;

    std::uint64_t infinite = 0;
    std::vector<double> values;
    std::vector<std::byte> made;
    for (std::uint64_t at = first; at < last; at += kBlock) {
      const std::uint64_t count = std::min(kBlock, last - at);
      values.resize(static_cast<std::size_t>(count));
      made.resize(static_cast<std::size_t>(count * to_bytes));
      decode_elements<double>(from, stored, at - first, values);
      infinite += encode_elements(to, values, made);
      // The part of the block that was asked for.
      const std::uint64_t begin = std::max(offset, at * to_bytes);
      const std::uint64_t stop = std::min(end, (at + count) * to_bytes);
      std::copy_n(made.begin() + static_cast<std::ptrdiff_t>(begin - at * to_bytes), stop - begin,
                  out.begin() + static_cast<std::ptrdiff_t>(begin - offset));
    }
    *overflows += infinite;
    return {};
  }
};

}  // namespace

Cast::Cast(const std::string& dtype)
    : to_(dtype_from_name(dtype)), overflows_(std::make_shared<std::atomic<std::uint64_t>>(0)) {}

Result<Tensor> Cast::apply(Tensor tensor) {
  if (!to_) return tensor;
  if (!can_cast(tensor.dtype)) {
    ++not_cast_[std::string(dtype_name(tensor.dtype))];
    return tensor;
  }
  ++cast_;
  if (tensor.dtype == *to_) return tensor;
  const auto bytes = tensor_bytes(tensor.dtype, tensor.shape);
  if (!bytes) return propagate(bytes);
  if (!tensor.data.is_placeholder()) {
    tensor.data = TensorData::produced(
        Caster{std::move(tensor.data), *bytes, tensor.dtype, *to_, overflows_});
  }
  tensor.dtype = *to_;
  return tensor;
}

Result<void> Cast::check_used() const {
  if (!to_ || cast_ > 0) return {};
  return fail(ErrorCode::kInvalidArgument,
              "--cast " + std::string(dtype_name(*to_)) + " applies to none of the tensors" +
                  (not_cast_.empty() ? "" : " (" + not_cast_text() + ")") +
                  "; it casts real floating-point types alone");
}

std::string Cast::not_cast_text() const {
  std::string text;
  for (const auto& [dtype, count] : not_cast_) {
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + dtype;
  }
  return text;
}

void Cast::print(Output& out) const {
  if (!not_cast_.empty()) out.print("not cast: {}\n", not_cast_text());
  if (const std::uint64_t infinite = *overflows_; infinite > 0) {
    out.print("{} became infinite: beyond the range of {}\n", counted(infinite, "element"),
              dtype_name(*to_));
  }
}

void Cast::write_member(JsonWriter& json) const {
  if (!to_) return;
  json.key("cast");
  json.begin_object();
  json.member("dtype", dtype_name(*to_));
  json.member("tensors", cast_);
  json.key("not_cast");
  json.begin_object();
  for (const auto& [dtype, count] : not_cast_) json.member(dtype, count);
  json.end_object();
  json.member("became_infinite", overflows_->load());
  json.end_object();
}

void add_cast_option(CLI::App& command, std::string& dtype) {
  command
      .add_option("--cast", dtype,
                  "Round selected floating-point tensors to bf16, f16 or f32 (to nearest, ties to "
                  "even); integers, bools, complex numbers and quantised blocks stay as they are")
      ->check(CLI::IsMember({"bf16", "f16", "f32"}).description(""))
      ->type_name("bf16|f16|f32");
}

}  // namespace espalier::cli
