// The further files that an opening machine asks for: the one place that counts them.
#ifndef ESPALIER_READ_WANTED_FILES_H_
#define ESPALIER_READ_WANTED_FILES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/error.h"
#include "espalier/limits.h"

namespace espalier {

/// Whether `name` can only name a file in the same folder: no separator of any system, no "." or
/// "..", no control characters. Stops "../../.ssh/id_rsa" and "C:x".
bool is_sibling_name(std::string_view name);

/// Whether `name` can only name a file in the same folder or in one below it, as "d/0f" does: at
/// most 16 parts with '/' between them, and is_sibling_name() of each.
bool is_name_below(std::string_view name);

/// Where the further files of a checkpoint may lie.
enum class FilePlace : std::uint8_t {
  kBeside,  // in the folder of the opened file: is_sibling_name()
  kBelow,   // also in folders below it: is_name_below()
};

/// A further file that a checkpoint has bytes in.
struct WantedFile {
  /// The number that extents use for it: 1 for the first one that is wanted, 2 for the second.
  std::uint32_t number = 0;
  /// A file in the folder, or below the base URL, of file 0. It comes from a file: a driver opens
  /// it only if has_allowed_name(), and follows no link in a folder below.
  std::string name;
  FilePlace place = FilePlace::kBeside;
};

/// Whether the file's name leads nowhere but where its format has such files. Every driver asks.
inline bool has_allowed_name(const WantedFile& file) {
  return file.place == FilePlace::kBelow ? is_name_below(file.name) : is_sibling_name(file.name);
}

/// The largest number that a further file can have, as numbers have 16 bits and one is kept free.
inline constexpr std::uint32_t kMaxWantedFiles = 65'534;

/// The files that a machine asked for, in the order of their numbers. Files are answered in that
/// order. Not thread-safe.
class WantedFiles {
 public:
  explicit WantedFiles(const Limits& limits) : limit_(std::min(limits.files, kMaxWantedFiles)) {}

  /// kLimitExceeded if `more` files, beside those that were asked for, would be more than
  /// Limits::files or kMaxWantedFiles. want() asks this itself; a machine may ask it early, and
  /// save the work on a file that will be refused.
  [[nodiscard]] Result<void> check_count(std::size_t more) const;
  /// Asks for these files, too. kLimitExceeded, and none of them is asked for, as check_count() has
  /// it. Stops a file of 100 bytes that has 65,535 others opened or fetched.
  [[nodiscard]] Result<void> want(std::vector<std::string> names,
                                  FilePlace place = FilePlace::kBeside);
  /// Notes that the next file has an answer. kInvalidArgument if it is not number `number`.
  [[nodiscard]] Result<void> take_answer(std::uint32_t number);

  /// Those without an answer. Valid until the next call of another function.
  std::span<const WantedFile> waiting() const { return std::span(files_).subspan(answered_); }
  std::size_t answered() const { return answered_; }
  /// All of them: file `number` is at `number` - 1.
  std::span<const WantedFile> all() const { return files_; }

 private:
  std::uint32_t limit_;
  std::vector<WantedFile> files_;
  std::size_t answered_ = 0;
};

}  // namespace espalier

#endif  // ESPALIER_READ_WANTED_FILES_H_
