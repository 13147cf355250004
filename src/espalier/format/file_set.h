// The files that make up one checkpoint.
#ifndef ESPALIER_FORMAT_FILE_SET_H_
#define ESPALIER_FORMAT_FILE_SET_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "espalier/error.h"
#include "espalier/format/file_maker.h"

namespace espalier {

/// A checksum that a file's format has of a range of its bytes: zip archives a CRC-32 of each
/// entry, TensorFlow a CRC-32C of each tensor.
struct Checksum {
  enum class Kind : std::uint8_t { kCrc32, kCrc32c };
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::uint32_t crc = 0;
  Kind kind = Kind::kCrc32;
  /// Of a part of the format that was predicted and not read, in place of contents: it is compared
  /// and not counted.
  bool is_of_header = false;
};

/// One file of a checkpoint.
struct FileEntry {
  /// The name under which the opener asked for it; empty for file 0, which was opened. A label: it
  /// comes from a file, so no driver takes it for a path.
  std::string name = {};
  /// Bytes that it has, or should have.
  std::uint64_t length = 0;
  /// The first byte that may belong to a tensor.
  std::uint64_t data_begin = 0;
  /// Why it cannot be read, such as kFileMissing. Its tensors are listed, and every read of one
  /// gives this error.
  std::optional<Error> problem = std::nullopt;
  /// Makes the bytes of a file that no driver can open; null for a file that is there. Made files
  /// have the highest numbers.
  std::shared_ptr<const FileMaker> maker = nullptr;
  /// Ranges that lie in the file, in any order. They say nothing about the other bytes.
  std::vector<Checksum> checksums = {};
};

/// The files by number, as in Extent::file and ChunkRecord::file. There is at least file 0.
using FileSet = std::vector<FileEntry>;

}  // namespace espalier

#endif  // ESPALIER_FORMAT_FILE_SET_H_
