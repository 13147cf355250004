#include "espalier/foreign/onnx/element_maker.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "espalier/base/counted.h"
#include "espalier/base/little_endian.h"
#include "espalier/foreign/common/protobuf.h"
#include "espalier/foreign/common/varint.h"
#include "espalier/read/gather.h"

namespace espalier {
namespace {

// The head of a field and a number: more than what can be cut off between two buffers.
constexpr std::size_t kMostCut = 2 * kMaxVarintBytes;

// The values that an element can have. Floats and elements that share a byte are bits, which
// writers take for signed numbers or unsigned ones.
struct ElementRange {
  std::int64_t least;
  std::int64_t most;
};
ElementRange range_of(const OnnxElements& elements) {
  const std::uint32_t bits = elements.from_bits;
  if (bits == 64) {
    return {std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()};
  }
  const std::int64_t half = std::int64_t{1} << (bits - 1);
  switch (elements.dtype) {
    case DType::kBool:
      return {0, 1};
    case DType::kI8:
    case DType::kI16:
    case DType::kI32:
      return {-half, half - 1};
    case DType::kU8:
    case DType::kU16:
    case DType::kU32:
      return {0, 2 * half - 1};
    default:
      return {-half, 2 * half - 1};
  }
}

class ElementMachine final : public MakingMachine {
 public:
  ElementMachine(const OnnxElements& elements, MutableByteSpan out)
      : elements_(elements), range_(range_of(elements)), left_(elements.from), out_(out) {}

  std::span<const Extent> needs() const override {
    return left_.length == 0 ? std::span<const Extent>() : std::span(&left_, 1);
  }

  Result<void> feed(const Extent& extent, ByteSpan bytes) override {
    if (auto ok = check_fed(extent, bytes); !ok) return ok;
    if (extent.file != left_.file || extent.offset != left_.offset ||
        extent.length > left_.length) {
      return fail(ErrorCode::kInvalidArgument, "the machine did not ask for these bytes");
    }
    // What is cut off at the end of a buffer waits for a part of the next one.
    while (!cut_.empty() && !bytes.empty()) {
      const std::size_t before = cut_.size();
      const std::size_t more = std::min(kMostCut, bytes.size());
      cut_.insert(cut_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(more));
      const auto used = take(cut_);
      if (!used) return propagate(used);
      if (*used < before) {
        cut_.erase(cut_.begin(), cut_.begin() + static_cast<std::ptrdiff_t>(*used));
        use(bytes, more);
      } else {
        cut_.clear();
        use(bytes, *used - before);
      }
    }
    const auto used = take(bytes);
    if (!used) return propagate(used);
    cut_.insert(cut_.end(), bytes.begin() + static_cast<std::ptrdiff_t>(*used), bytes.end());
    use(bytes, bytes.size());
    return {};
  }

  Result<void> finish() override {
    if (left_.length > 0) return fail(ErrorCode::kIncomplete, "more bytes are needed");
    if (!cut_.empty() || skipped_ > 0 || packed_ > 0) return bad("the last of its numbers is cut");
    if (count_ < elements_.count) {
      return bad("it has " + counted(count_, "number") + " and needs " +
                 std::to_string(elements_.count));
    }
    if (made_ < out_.size()) out_[made_++] = static_cast<std::byte>(bits_);
    return {};
  }

 private:
  void use(ByteSpan& bytes, std::size_t count) {
    bytes = bytes.subspan(count);
    left_.offset += count;
    left_.length -= count;
  }

  tl::unexpected<Error> bad(std::string_view message) const {
    return fail(ErrorCode::kForeignInvalid, "this tensor is damaged: " + std::string(message),
                elements_.from.offset);
  }

  // How many of `bytes` were used: all but what is cut off at their end.
  Result<std::size_t> take(ByteSpan bytes) {
    std::size_t at = 0;
    while (at < bytes.size()) {
      if (skipped_ > 0) {
        const auto over =
            static_cast<std::size_t>(std::min<std::uint64_t>(skipped_, bytes.size() - at));
        skipped_ -= over;
        at += over;
        continue;
      }
      const std::size_t before = at;
      auto ok = elements_.field == 0 ? add(std::to_integer<std::uint64_t>(bytes[at++]))
                : packed_ > 0        ? take_packed(bytes, at)
                                     : take_field(bytes, at);
      if (!ok) return propagate(ok);
      if (at == before) break;
    }
    return at;
  }

  Result<void> take_packed(ByteSpan bytes, std::size_t& at) {
    const auto there =
        static_cast<std::size_t>(std::min<std::uint64_t>(packed_, bytes.size() - at));
    const ByteSpan packed = bytes.subspan(at, there);
    std::size_t width = 0;
    std::uint64_t value = 0;
    if (elements_.numbers == OnnxNumbers::kFloats || elements_.numbers == OnnxNumbers::kDoubles) {
      width = elements_.from_bits / 8;
      if (width <= there) {
        value = width == 4 ? load_le<std::uint32_t>(packed.data())
                           : load_le<std::uint64_t>(packed.data());
      } else {
        width = 0;
      }
    } else if (const auto number = read_varint(packed, width)) {
      value = *number;
    }
    if (width == 0) {
      if (there == packed_ || there >= kMaxVarintBytes) return bad("one of its numbers is cut");
      return {};
    }
    at += width;
    packed_ -= width;
    return add(value);
  }

  Result<void> take_field(ByteSpan bytes, std::size_t& at) {
    WireField field;
    const WireResult result = read_wire_field(bytes, at, field);
    if (result == WireResult::kCut) return {};
    if (result == WireResult::kBad) return bad("it has no field where one should be");
    if (field.number != elements_.field) {
      if (field.type == WireType::kBytes) skipped_ = field.length;
      return {};
    }
    if (field.type != WireType::kBytes) return add(field.value);
    packed_ = field.length;
    return {};
  }

  Result<void> add(std::uint64_t number) {
    if (count_ == elements_.count) {
      return bad("it has more than the " + counted(elements_.count, "number") + " that it needs");
    }
    ++count_;
    if (elements_.field != 0 && !fits(number)) {
      return bad("one of its numbers is " + std::to_string(static_cast<std::int64_t>(number)) +
                 ", which does not fit the dtype " + std::string(dtype_name(elements_.dtype)));
    }
    if (elements_.from_bits > 8) {
      // A number of at least 8 bytes goes as its lower ones, which come first.
      const std::size_t width = elements_.from_bits / 8;
      if (out_.size() - made_ < width) return bad("it has more numbers than there is room for");
      std::byte whole[sizeof number];
      store_le(whole, number);
      std::copy_n(whole, width, out_.begin() + static_cast<std::ptrdiff_t>(made_));
      made_ += width;
      return {};
    }
    bits_ |= (number & ((1u << elements_.from_bits) - 1)) << bit_count_;
    bit_count_ += elements_.from_bits;
    for (; bit_count_ >= elements_.to_bits && made_ < out_.size();
         bit_count_ -= elements_.to_bits) {
      out_[made_++] = static_cast<std::byte>(bits_ & ((1u << elements_.to_bits) - 1));
      bits_ >>= elements_.to_bits;
    }
    return {};
  }

  bool fits(std::uint64_t& number) const {
    switch (elements_.numbers) {
      case OnnxNumbers::kInt32s: {
        // A negative one has 64 bits, or 32 as some write it.
        if (number >> 32 == 0) {
          number = static_cast<std::uint64_t>(
              std::int64_t{static_cast<std::int32_t>(static_cast<std::uint32_t>(number))});
        } else if (static_cast<std::int64_t>(number) < std::numeric_limits<std::int32_t>::min() ||
                   static_cast<std::int64_t>(number) >= 0) {
          return false;
        }
        break;
      }
      case OnnxNumbers::kInt64s:
      case OnnxNumbers::kUint64s:
        break;
      case OnnxNumbers::kNone:
      case OnnxNumbers::kFloats:
      case OnnxNumbers::kDoubles:
        return true;
    }
    const auto value = static_cast<std::int64_t>(number);
    return value >= range_.least && value <= range_.most;
  }

  const OnnxElements elements_;
  const ElementRange range_;
  Extent left_;
  MutableByteSpan out_;
  std::size_t made_ = 0;
  std::uint64_t count_ = 0;
  std::uint64_t bits_ = 0;  // of elements that are not complete
  std::uint32_t bit_count_ = 0;
  std::uint64_t skipped_ = 0;  // left of a field of another number
  std::uint64_t packed_ = 0;   // left of a packed field
  std::vector<std::byte> cut_;
};

}  // namespace

std::unique_ptr<MakingMachine> OnnxElementMaker::start(MutableByteSpan out) const {
  return std::make_unique<ElementMachine>(elements_, out);
}

}  // namespace espalier
