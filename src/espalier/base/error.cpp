#include "espalier/base/error.h"

#include <cstddef>

namespace espalier {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kNotACheckpoint:
      return "not_a_checkpoint";
    case ErrorCode::kTruncated:
      return "truncated";
    case ErrorCode::kTrailingBytes:
      return "trailing_bytes";
    case ErrorCode::kUnsupportedVersion:
      return "unsupported_version";
    case ErrorCode::kUnsupportedFeature:
      return "unsupported_feature";
    case ErrorCode::kHeaderCorrupt:
      return "header_corrupt";
    case ErrorCode::kHeaderInvalid:
      return "header_invalid";
    case ErrorCode::kIndexCorrupt:
      return "index_corrupt";
    case ErrorCode::kIndexInvalid:
      return "index_invalid";
    case ErrorCode::kTreeInvalid:
      return "tree_invalid";
    case ErrorCode::kTensorInvalid:
      return "tensor_invalid";
    case ErrorCode::kChunkInvalid:
      return "chunk_invalid";
    case ErrorCode::kTextInvalid:
      return "text_invalid";
    case ErrorCode::kKeyInvalid:
      return "key_invalid";
    case ErrorCode::kLimitExceeded:
      return "limit_exceeded";
    case ErrorCode::kOutOfMemory:
      return "out_of_memory";
    case ErrorCode::kChunkCorrupt:
      return "chunk_corrupt";
    case ErrorCode::kPaddingCorrupt:
      return "padding_corrupt";
    case ErrorCode::kDigestMismatch:
      return "digest_mismatch";
    case ErrorCode::kNotARegularFile:
      return "not_a_regular_file";
    case ErrorCode::kSafetensorsInvalid:
      return "safetensors_invalid";
    case ErrorCode::kUnsupportedCodec:
      return "unsupported_codec";
    case ErrorCode::kForeignInvalid:
      return "foreign_invalid";
    case ErrorCode::kBaseMismatch:
      return "base_mismatch";
    case ErrorCode::kMapData:
      return "map_data";
    case ErrorCode::kInvalidKeyPath:
      return "invalid_key_path";
    case ErrorCode::kInvalidPattern:
      return "invalid_pattern";
    case ErrorCode::kNotFound:
      return "not_found";
    case ErrorCode::kWrongKind:
      return "wrong_kind";
    case ErrorCode::kInvalidSlice:
      return "invalid_slice";
    case ErrorCode::kInvalidArgument:
      return "invalid_argument";
    case ErrorCode::kInvalidTree:
      return "invalid_tree";
    case ErrorCode::kIncomplete:
      return "incomplete";
    case ErrorCode::kNameCollision:
      return "name_collision";
    case ErrorCode::kFileExists:
      return "file_exists";
    case ErrorCode::kNotContiguous:
      return "not_contiguous";
    case ErrorCode::kMapInvalid:
      return "map_invalid";
    case ErrorCode::kMapUnmatched:
      return "map_unmatched";
    case ErrorCode::kMapAmbiguous:
      return "map_ambiguous";
    case ErrorCode::kMapIncomplete:
      return "map_incomplete";
    case ErrorCode::kMapShape:
      return "map_shape";
    case ErrorCode::kMapUndetermined:
      return "map_undetermined";
    case ErrorCode::kMapTemplate:
      return "map_template";
    case ErrorCode::kMapNotInvertible:
      return "map_not_invertible";
    case ErrorCode::kUnrepresentable:
      return "unrepresentable";
    case ErrorCode::kIoError:
      return "io_error";
    case ErrorCode::kFileNotFound:
      return "file_not_found";
    case ErrorCode::kFileChanged:
      return "file_changed";
    case ErrorCode::kDurabilityUnknown:
      return "durability_unknown";
    case ErrorCode::kFileMissing:
      return "file_missing";
    case ErrorCode::kCancelled:
      return "cancelled";
  }
  return "unknown";
}

namespace {

// Names in files may contain terminal control sequences, and a line break would forge a second
// line.
void append_line(std::string& out, std::string_view text) {
  static constexpr char kDigits[] = "0123456789abcdef";
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    // U+0080 to U+009F are two bytes of UTF-8.
    const bool is_c1 =
        byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (byte >= 0x20 && byte != 0x7F && !is_c1) {
      out += text[i];
      continue;
    }
    const auto shown = is_c1 ? static_cast<unsigned char>(text[++i]) : byte;
    out += is_c1 ? "\\u{" : "\\x";
    out += kDigits[shown >> 4];
    out += kDigits[shown & 15];
    if (is_c1) out += '}';
  }
}

}  // namespace

std::string Error::describe() const {
  std::string text;
  append_line(text, message);
  text += " (code ";
  text += to_string(code);
  if (!file.empty()) append_line(text += ", in file ", file);
  if (offset != kNoOffset) text += ", at byte " + std::to_string(offset);
  if (!path.empty()) append_line(text += ", in ", path);
  text += ")";
  return text;
}

}  // namespace espalier
