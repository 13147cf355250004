// Files whose bytes are made (unpacked or converted) when they are read.
#ifndef ESPALIER_FILES_OPEN_MADE_SOURCE_H_
#define ESPALIER_FILES_OPEN_MADE_SOURCE_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "espalier/error.h"
#include "espalier/format/file_set.h"
#include "espalier/source.h"
#include "files/open/made_memory.h"

namespace espalier {

/// A made file of a checkpoint. `entry.maker` makes it from `files`.
///
/// If the maker can stream, the file is made from its beginning on, as far as reads come, and again
/// from its beginning for a read of what is kept no more: see KeptEnd. All files together keep 64
/// MiB. A file of up to 32 MiB is made at once, so its checksum is compared before any byte is
/// given. So is that of a longer one, by a pass that keeps nothing, unless announce() told
/// that its end will be read; then it is compared when that comes. A file that is read up and down
/// is kept whole after some passes, as is one whose maker cannot stream.
///
/// Concurrent reads wait for each other. If making the file fails, every read returns the same
/// error. Errors of read() and copy(): the maker's, kLimitExceeded if `memory` is too small,
/// kOutOfMemory, kTruncated.
std::shared_ptr<const Source> make_source(const FileEntry& entry,
                                          std::shared_ptr<const Source> files,
                                          std::shared_ptr<MadeMemory> memory);

/// Makes a file to compare its checksum, and keeps nothing. `entry.maker` must be able to stream.
/// Calls `made` with the bytes of each part; an error of it ends the call.
[[nodiscard]] Result<void> check_made_file(const FileEntry& entry, const Source& files,
                                           const std::function<Result<void>(std::uint64_t)>& made);

}  // namespace espalier

#endif  // ESPALIER_FILES_OPEN_MADE_SOURCE_H_
