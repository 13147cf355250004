// The central directory of a zip archive, read by strict rules.
//
// Programs that look at zip archives in different ways see different files in one archive, which is
// how malicious ones slip past scanners. So whatever leaves room for two opinions is refused: the
// rules are those by which Python's package index refuses wheels. Gaps between entries are harmless
// here: they are allowed and counted.
#ifndef ESPALIER_FOREIGN_ZIP_DIRECTORY_H_
#define ESPALIER_FOREIGN_ZIP_DIRECTORY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/error.h"
#include "espalier/format/file_set.h"
#include "espalier/limits.h"

namespace espalier {

/// The end record is among this many last bytes of an archive: 22 bytes and a comment of at most
/// 65,535, and before them the two records of ZIP64 with 76.
inline constexpr std::uint64_t kZipTailBytes = 66 * 1024;
/// A local header without its name and extra fields.
inline constexpr std::uint64_t kZipLocalBytes = 30;

/// What the end records say.
struct ZipEnd {
  std::uint64_t entries = 0;
  /// Where the directory lies in the archive. It ends where the end records begin.
  std::uint64_t directory_offset = 0;
  std::uint64_t directory_bytes = 0;
};

/// Reads the end records of an archive of `archive_bytes` bytes. `tail` holds its last
/// kZipTailBytes, or all of it. kTruncated if there are none, kTrailingBytes if they do not stand
/// at the very end, kForeignInvalid, and kLimitExceeded for a directory beyond
/// Limits::zip_directory_bytes.
[[nodiscard]] Result<ZipEnd> read_zip_end(ByteSpan tail, std::uint64_t archive_bytes,
                                          const Limits& limits);

/// One file in an archive. Offsets count from the beginning of the archive.
struct ZipEntry {
  /// UTF-8. A key, never a path: nothing is ever written under this name.
  std::string_view name;
  std::uint64_t header_offset = 0;
  /// The first byte of the data; 0 until the local header has been read, or the offset predicted.
  std::uint64_t data_offset = 0;
  /// Bytes in the archive, and once inflated.
  std::uint64_t stored = 0;
  std::uint64_t length = 0;
  /// Where what comes next in the archive begins: a local header or the directory.
  std::uint64_t next_offset = 0;
  /// Of the inflated bytes; 0 with `length` above 0 means that the writer recorded none, as PyTorch
  /// does if it is told so.
  std::uint32_t crc = 0;
  bool is_deflated = false;
  /// Whether a data descriptor follows the data, and so the local header may lack sizes.
  bool has_descriptor = false;
  /// Whether data_offset is a prediction that no local header has confirmed.
  bool is_predicted = false;

  bool is_folder() const { return name.ends_with('/'); }
  bool has_crc() const { return crc != 0 || length == 0; }
};

/// The entries of one archive, in the order of its directory.
class ZipDirectory {
 public:
  ZipDirectory() = default;

  /// Reads the directory that `end` describes; `bytes` are its bytes and must outlive the result,
  /// whose names point into them. `base` is added to the offsets in errors: where the archive
  /// begins in its file. kForeignInvalid with the sentence for each broken rule.
  [[nodiscard]] static Result<ZipDirectory> read(const ZipEnd& end, ByteSpan bytes,
                                                 std::uint64_t base = 0);

  std::span<const ZipEntry> entries() const { return entries_; }
  /// The number of the entry with this name.
  std::optional<std::uint32_t> find(std::string_view name) const;
  /// The same regardless of the case of ASCII letters: the first if there are several.
  std::optional<std::uint32_t> find_in_any_case(std::string_view name) const;
  /// The number of an entry whose name another one has but for the case of ASCII letters.
  std::optional<std::uint32_t> find_case_twin() const;

  /// Checks the local header of entry number `i` and sets its data_offset. `bytes` are the
  /// kZipLocalBytes at header_offset and the name, which is as long as the entry's. Also refuses
  /// data that begin elsewhere than was predicted.
  [[nodiscard]] Result<void> check_local_header(std::uint32_t i, ByteSpan bytes);

  /// Sets the data_offset of entry number `i` without its local header, if two independent ways to
  /// guess it agree: from the front, by the rules of the known writers (PyTorch aligns data to 64
  /// bytes, Python's zipfile writes a ZIP64 field or none), and from the next header back. If not,
  /// returns false: the header must be read.
  bool predict_data_offset(std::uint32_t i);

  /// A CRC-32 of that part of the local header of a predicted entry which says where its data
  /// begin: it matches if they begin as predicted.
  Checksum header_checksum(const ZipEntry& entry) const;

  /// Bytes between entries that belong to none, among those whose local header has been read.
  std::uint64_t gap_bytes() const { return gap_bytes_; }

 private:
  // A hash of a name in capital letters, and the number of its entry.
  using Name = std::pair<std::uint64_t, std::uint32_t>;

  [[nodiscard]] Result<void> check_order(const ZipEnd& end);
  [[nodiscard]] Result<void> check_names();
  // From the first that is `name` or behind it.
  std::span<const Name> names_from(std::string_view name) const;

  std::vector<ZipEntry> entries_;
  std::vector<Name> by_name_;  // sorted
  std::uint64_t base_ = 0;
  std::uint64_t gap_bytes_ = 0;
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_ZIP_DIRECTORY_H_
