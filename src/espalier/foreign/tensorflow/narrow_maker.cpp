#include "espalier/foreign/tensorflow/narrow_maker.h"

#include <cstddef>
#include <optional>

#include "espalier/foreign/common/crc32c.h"
#include "espalier/foreign/common/whole_machine.h"
#include "espalier/read/gather.h"

namespace espalier {

class NarrowMaker::Stream final : public MakingStream {
 public:
  explicit Stream(const NarrowMaker& maker)
      : bits_(maker.bits_),
        is_signed_(maker.is_signed_),
        numbers_in_byte_(maker.is_packed_ ? 8 / maker.bits_ : 1),
        crc_(maker.crc_),
        name_(maker.name_),
        left_(maker.from_) {}

  std::span<const Extent> needs() const override {
    return left_.length == 0 ? std::span<const Extent>() : std::span(&left_, 1);
  }

  Result<std::size_t> feed(const Extent& extent, ByteSpan bytes, MutableByteSpan out) override {
    if (auto ok = check_fed(extent, bytes); !ok) return propagate(ok);
    const bool is_next = extent.file == left_.file && extent.offset == left_.offset;
    if ((!is_next && !bytes.empty()) || extent.length > left_.length) {
      return fail(ErrorCode::kInvalidArgument, "the machine did not ask for these bytes");
    }
    std::size_t used = 0;
    std::size_t made = 0;
    while (used < bytes.size() && made < out.size()) {
      const auto number = read_number(std::to_integer<unsigned>(bytes[used]));
      if (!number) {
        return fail(ErrorCode::kForeignInvalid,
                    "a byte of '" + name_ + "' has bits beyond the " + std::to_string(bits_) +
                        " of its number, which would be lost",
                    extent.offset + used);
      }
      ++used;
      byte_ |= *number << (bits_ * filled_);
      if (++filled_ < numbers_in_byte_) continue;
      out[made++] = static_cast<std::byte>(byte_);
      byte_ = filled_ = 0;
    }
    found_crc_ = crc32c_after(found_crc_, bytes.first(used));
    left_.offset += used;
    left_.length -= used;
    return made;
  }

  Result<void> finish() override {
    if (left_.length > 0) {
      return fail(ErrorCode::kIncomplete, "more bytes are needed to put the tensor together");
    }
    if (found_crc_ == crc_) return {};
    return fail(
        ErrorCode::kForeignInvalid,
        "the tensor '" + name_ + "' does not match its CRC-32C; copy or download the file again");
  }

 private:
  // The bits of a number, with its sign where it has a byte of its own.
  std::optional<unsigned> read_number(unsigned byte) const {
    const unsigned mask = (1u << bits_) - 1;
    const bool is_negative = is_signed_ && (byte >> (bits_ - 1) & 1) != 0;
    const unsigned extended = is_negative ? (byte & mask) | (0xFFu & ~mask) : byte & mask;
    if (byte != (byte & mask) && byte != extended) return std::nullopt;
    return numbers_in_byte_ == 1 ? extended : byte & mask;
  }

  const std::uint32_t bits_;
  const bool is_signed_;
  const std::uint32_t numbers_in_byte_;
  const std::uint32_t crc_;
  const std::string name_;
  Extent left_;
  std::uint32_t found_crc_ = 0;
  // The byte that is being filled, and how many numbers it has.
  unsigned byte_ = 0;
  unsigned filled_ = 0;
};

std::unique_ptr<MakingMachine> NarrowMaker::start(MutableByteSpan out) const {
  return std::make_unique<WholeMachine>(stream(out.size()), out);
}

std::unique_ptr<MakingStream> NarrowMaker::stream(std::uint64_t) const {
  return std::make_unique<Stream>(*this);
}

}  // namespace espalier
