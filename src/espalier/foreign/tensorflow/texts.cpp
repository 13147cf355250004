#include "espalier/foreign/tensorflow/texts.h"

#include <array>
#include <limits>
#include <string_view>

#include "espalier/base/little_endian.h"
#include "espalier/foreign/common/crc32c.h"
#include "espalier/foreign/common/varint.h"
#include "espalier/foreign/tensorflow/sorted_table.h"

namespace espalier {
namespace {

constexpr std::size_t kCrcBytes = sizeof(std::uint32_t);

template <class T>
std::uint32_t crc_of_number(std::uint32_t before, T number) {
  std::array<std::byte, sizeof(T)> bytes;
  store_le(bytes.data(), number);
  return crc32c_after(before, bytes);
}

tl::unexpected<Error> damaged(std::string_view what) {
  return fail(ErrorCode::kForeignInvalid, what);
}

constexpr std::string_view kWrongCrc = "it does not match its CRC-32C; copy or download it again";
constexpr std::string_view kWrongLengths = "the lengths of its elements do not fit its bytes";

class TextsReader {
 public:
  TextsReader(const BundleEntry& entry, ByteSpan bytes) : entry_(entry), bytes_(bytes) {}

  // All lengths, their CRC, all bytes.
  Result<std::vector<ByteSpan>> read_strings() {
    std::vector<std::size_t> lengths;
    lengths.reserve(static_cast<std::size_t>(entry_.elements));
    std::uint64_t total = 0;
    for (std::uint64_t i = 0; i < entry_.elements; ++i) {
      const auto length = read_varint(bytes_, at_);
      if (!length || *length > bytes_.size()) return damaged(kWrongLengths);
      // As a u32, whatever the number takes in the file. Longer ones are u64, and never fit here.
      crc_ = *length > std::numeric_limits<std::uint32_t>::max()
                 ? crc_of_number(crc_, *length)
                 : crc_of_number(crc_, static_cast<std::uint32_t>(*length));
      lengths.push_back(static_cast<std::size_t>(*length));
      total += *length;
    }
    if (auto ok = check_crc(); !ok) return propagate(ok);
    if (total != bytes_.size() - at_) return damaged(kWrongLengths);
    for (const std::size_t length : lengths) {
      texts_.push_back(bytes_.subspan(at_, length));
      at_ += length;
    }
    crc_ = crc32c_after(crc_, bytes_.subspan(at_ - static_cast<std::size_t>(total)));
    return finish();
  }

  // Each length, as many bytes, and the CRC up to there.
  Result<std::vector<ByteSpan>> read_variants() {
    for (std::uint64_t i = 0; i < entry_.elements; ++i) {
      const auto length = read_varint(bytes_, at_);
      if (!length || *length > bytes_.size() - at_) return damaged(kWrongLengths);
      texts_.push_back(bytes_.subspan(at_, static_cast<std::size_t>(*length)));
      at_ += static_cast<std::size_t>(*length);
      crc_ = crc32c_after(crc_of_number(crc_, *length), texts_.back());
      if (auto ok = check_crc(); !ok) return propagate(ok);
    }
    if (at_ != bytes_.size()) return damaged(kWrongLengths);
    return finish();
  }

 private:
  Result<void> check_crc() {
    if (bytes_.size() - at_ < kCrcBytes) return damaged(kWrongLengths);
    const auto masked = load_le<std::uint32_t>(bytes_.data() + at_);
    if (unmask_crc32c(masked) != crc_) return damaged(kWrongCrc);
    crc_ = crc_of_number(crc_, masked);
    at_ += kCrcBytes;
    return {};
  }

  Result<std::vector<ByteSpan>> finish() {
    if (crc_ != entry_.piece.crc) return damaged(kWrongCrc);
    return std::move(texts_);
  }

  const BundleEntry& entry_;
  ByteSpan bytes_;
  std::size_t at_ = 0;
  std::uint32_t crc_ = 0;
  std::vector<ByteSpan> texts_;
};

}  // namespace

Result<std::vector<ByteSpan>> read_texts(const BundleEntry& entry, ByteSpan bytes) {
  TextsReader reader(entry, bytes);
  return entry.type.storage == TensorFlowType::Storage::kText ? reader.read_strings()
                                                              : reader.read_variants();
}

}  // namespace espalier
