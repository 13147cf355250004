// In WebAssembly: the same as inflate.cpp without zlib.
#include <array>

#include "espalier/foreign/zip/deflate_decoder.h"
#include "espalier/foreign/zip/inflate.h"

namespace espalier {
namespace {

constexpr std::uint32_t kPolynomial = 0xEDB88320;  // reversed, as zip has it

// The CRC-32 of each byte: a kilobyte, where zlib's tables take tens of them.
constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? crc >> 1 ^ kPolynomial : crc >> 1;
    table[byte] = crc;
  }
  return table;
}
constexpr auto kTable = make_table();

// The product of two polynomials modulo that of CRC-32. The highest bit is the coefficient of x^0.
std::uint32_t times(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (; a != 0; a <<= 1) {
    if (a >> 31 != 0) product ^= b;
    b = (b & 1) != 0 ? b >> 1 ^ kPolynomial : b >> 1;
  }
  return product;
}

}  // namespace

std::uint32_t crc32_after(std::uint32_t before, ByteSpan bytes) {
  std::uint32_t crc = ~before;
  for (const std::byte byte : bytes) {
    crc = kTable[(crc ^ std::to_integer<std::uint32_t>(byte)) & 0xFF] ^ crc >> 8;
  }
  return ~crc;
}

std::uint32_t crc32_joined(std::uint32_t before, std::uint32_t after, std::uint64_t length) {
  // Each byte behind `before` multiplies it by x^8.
  for (std::uint32_t power = 1u << 23; length != 0; length >>= 1, power = times(power, power)) {
    if ((length & 1) != 0) before = times(before, power);
  }
  return before ^ after;
}

struct Inflater::Stream {
  DeflateDecoder decoder;
};

Inflater::Inflater() : stream_(std::make_unique<Stream>()) {}
Inflater::~Inflater() = default;

Result<Inflater::Progress> Inflater::run(ByteSpan packed, MutableByteSpan out) {
  DeflateDecoder& decoder = stream_->decoder;
  const auto progress = decoder.run(packed, out);
  if (decoder.is_bad()) {
    return fail(ErrorCode::kForeignInvalid,
                "the compressed data are damaged; copy or download the file again");
  }
  is_at_end_ = decoder.is_at_end();
  return Progress{progress.taken, progress.made};
}

}  // namespace espalier
