// The files beside an Espalier file that have chunks of it: which they are, and whether a file is
// the one that is meant.
#ifndef ESPALIER_FORMAT_FILE_TABLE_H_
#define ESPALIER_FORMAT_FILE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "espalier/bytes.h"
#include "espalier/detail/catalog.h"
#include "espalier/error.h"
#include "espalier/format/file_set.h"

namespace espalier {

/// Files that chunks can lie in, beside the one with the index.
inline constexpr std::size_t kMaxFiles = 65'534;
/// Most bytes of a file that tell whether it is the one that is meant: those of one small read.
inline constexpr std::uint32_t kMaxHeadBytes = 65'536;
/// Bytes of a file's name.
inline constexpr std::size_t kMaxFileNameBytes = 128;

/// Whether `name` may stand in a file table. It is a label that no system takes for anything but a
/// file in a folder: letters, digits, '.', '_' and '-' of ASCII, not beginning with '.' or '-' and
/// not ending with '.', and not the name of a DOS device.
bool is_file_label(std::string_view name);

/// Checks all of the file table but that each file has a chunk, before any other part of the tables
/// is believed. kIndexInvalid, with an offset in the file whose index `index` is.
[[nodiscard]] Result<void> check_file_table(const Tables& tables, const std::byte* index);

/// The name of file number `file` (from 1 on) of a table that was checked.
std::string_view file_name(const Tables& tables, std::size_t file);

/// The file set of a table that was checked: `first`, which has the index, and the files of the
/// table with their names and recorded lengths.
FileSet file_set(const Tables& tables, FileEntry first);

/// Whether a file whose first bytes are `head`, FileRecord::head of them, is not the one that
/// `record` means.
bool is_other_file(const FileRecord& record, ByteSpan head);

/// Why file number `file` cannot be read if it is another one than the table means.
Error base_mismatch(const Tables& tables, std::size_t file);

}  // namespace espalier

#endif  // ESPALIER_FORMAT_FILE_TABLE_H_
