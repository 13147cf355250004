#include "espalier/foreign/ocdbt/envelope.h"

#include <string>
#include <utility>

#include "espalier/base/counted.h"
#include "espalier/base/little_endian.h"
#include "espalier/foreign/common/crc32c.h"
#include "espalier/foreign/common/varint.h"
#include "espalier/foreign/common/zstd_frame.h"

namespace espalier {
namespace {

constexpr std::size_t kBeforeVersion = 12;  // magic and length
constexpr std::size_t kChecksum = 4;
constexpr std::size_t kLeast = kBeforeVersion + kChecksum;

}  // namespace

bool has_ocdbt_magic(ByteSpan front, OcdbtMagic magic) {
  if (front.size() < sizeof(magic)) return false;
  std::uint32_t first = 0;
  for (std::size_t i = 0; i < sizeof(magic); ++i) {
    first = first << 8 | std::to_integer<std::uint32_t>(front[i]);
  }
  return first == static_cast<std::uint32_t>(magic);
}

Result<std::vector<std::byte>> open_ocdbt_envelope(ByteSpan bytes, OcdbtMagic magic,
                                                   std::uint64_t most) {
  const auto damaged = [](const std::string& how, std::uint64_t offset = 0) {
    return fail(ErrorCode::kForeignInvalid, how + "; copy or download the checkpoint again",
                offset);
  };
  const bool is_manifest = magic == OcdbtMagic::kManifest;
  if (!has_ocdbt_magic(bytes, magic) || bytes.size() < kLeast) {
    return damaged(is_manifest ? "this is no manifest of OCDBT" : "a node of the database is none");
  }
  const auto length = load_le<std::uint64_t>(bytes.data() + 4);
  if (length != bytes.size()) {
    return damaged("it says that it has " + counted(length, "byte") + " and has " +
                   std::to_string(bytes.size()));
  }
  const std::size_t end = bytes.size() - kChecksum;
  if (crc32c_after(0, bytes.first(end)) != load_le<std::uint32_t>(bytes.data() + end)) {
    return damaged("it does not match its CRC-32C");
  }
  const ByteSpan inner = bytes.first(end);
  std::size_t at = kBeforeVersion;
  const auto version = read_varint(inner, at);
  if (version && *version != 0) {
    return fail(ErrorCode::kUnsupportedVersion,
                "it is of version " + std::to_string(*version) + " of OCDBT, and 0 is known",
                kBeforeVersion);
  }
  const auto compression = version ? read_varint(inner, at) : std::nullopt;
  if (!compression || *compression > 1) return damaged("its compression is unknown", at);
  const ByteSpan body = inner.subspan(at);
  if (*compression == 0) return std::vector<std::byte>(body.begin(), body.end());
  auto opened = decompress_frame(body, most);
  if (!opened) {
    opened.error().message = (is_manifest ? "the body of the manifest " : "the body of a node ") +
                             opened.error().message;
  }
  return opened;
}

}  // namespace espalier
