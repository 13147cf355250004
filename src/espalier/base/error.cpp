#include "espalier/error.h"

#include "espalier/base/escaped.h"

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
    case ErrorCode::kElementsMissing:
      return "elements_missing";
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
    case ErrorCode::kFolderInUse:
      return "folder_in_use";
  }
  return "unknown";
}

Error::Error(ErrorCode failure, std::uint64_t at, std::string node, std::string_view text,
             std::string name)
    : code(failure),
      offset(at),
      path(std::move(node)),
      message(escaped(text)),
      file(std::move(name)) {}

std::string Error::describe() const {
  std::string text;
  append_escaped(text, message);
  text += " (code ";
  text += to_string(code);
  if (!file.empty()) append_escaped(text += ", in file ", file);
  if (offset != kNoOffset) text += ", at byte " + std::to_string(offset);
  if (!path.empty()) append_escaped(text += ", in ", path);
  text += ")";
  return text;
}

}  // namespace espalier
