// The layout of a file that PyTorch wrote before 1.6, or writes if it is told to.
#ifndef ESPALIER_FOREIGN_TORCH_LEGACY_FILE_H_
#define ESPALIER_FOREIGN_TORCH_LEGACY_FILE_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/error.h"
#include "espalier/foreign/pickle/pickle_graph.h"

namespace espalier {

/// Whether `bytes` begin with the magic pickle of such a file.
bool looks_like_legacy_torch(ByteSpan bytes);

/// A storage in such a file: after five pickles, each storage is its count of elements, an i64, and
/// its bytes, unaligned.
struct LegacyStorage {
  std::string_view key;
  std::uint64_t numel = 0;
  /// Bytes of an element.
  std::uint64_t width = 0;
  /// Offset in the file of the count; the bytes follow.
  std::uint64_t offset = 0;

  std::uint64_t data_offset() const { return offset + 8; }
  std::uint64_t length() const { return numel * width; }
};

/// The pickles of such a file, and where its storages lie by them.
struct LegacyFile {
  /// Of the object that was saved. Refers to the bytes that were parsed.
  PickleGraph graph;
  bool is_big_endian = false;
  /// In the order of the file.
  std::vector<LegacyStorage> storages;

  /// The storage with this key, or null. In logarithmic time.
  const LegacyStorage* find(std::string_view key) const;
  /// Numbers of `storages`, by key.
  std::vector<std::uint32_t> sorted;
};

/// Parses the pickles at the front of a file of `file_bytes` bytes; `front` are its first ones, as
/// many as are at hand. kIncomplete if they do not suffice. kForeignInvalid, kTruncated,
/// kTrailingBytes. Errors give offsets from the start of the bytes plus `base`.
[[nodiscard]] Result<LegacyFile> parse_legacy(ByteSpan front, std::uint64_t file_bytes,
                                              std::uint64_t base);

/// That `count`, the 8 bytes at storage.offset, agrees with the pickle.
[[nodiscard]] Result<void> check_legacy_count(const LegacyStorage& storage, ByteSpan count,
                                              bool is_big_endian, std::uint64_t base);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_TORCH_LEGACY_FILE_H_
