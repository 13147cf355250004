// Notes on a checkpoint that opened although something in its file was lost or is doubtful.
#ifndef ESPALIER_FORMAT_NOTES_H_
#define ESPALIER_FORMAT_NOTES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "espalier/base/escaped.h"

namespace espalier {

/// One thing that an opener of another format noticed.
struct Note {
  enum class Kind : std::uint8_t {
    /// The checkpoint lacks something that the file has: the opener does not understand it.
    kLoss = 0,
    /// Nothing is missing, but something may not be what it seems.
    kWarning = 1,
  };
  Kind kind = Kind::kWarning;
  /// Printed key path of the node concerned in the stored tree, where dotted names are not nested.
  /// Empty if the note is about the whole file. As it is in the file: print it escaped.
  std::string path = {};
  /// One sentence. Printable, once it is among `Notes`.
  std::string message = {};

  friend bool operator==(const Note&, const Note&) = default;
};

/// The notes on one checkpoint: the first kMaxListed in full, and how many there are.
class Notes {
 public:
  /// Stops a file that is made to be noted a million times from filling memory and screens.
  static constexpr std::size_t kMaxListed = 1000;

  /// Escapes the message, which may quote names from the file.
  void add(Note note) {
    ++count_;
    if (!is_listing()) return;
    note.message = escaped(note.message);
    listed_.push_back(std::move(note));
  }

  /// Whether the next one is listed. The path of a millionth note is not worth making.
  bool is_listing() const { return listed_.size() < kMaxListed; }

  /// All of them, listed or not.
  std::uint64_t count() const { return count_; }
  std::span<const Note> listed() const { return listed_; }

 private:
  std::uint64_t count_ = 0;
  std::vector<Note> listed_;
};

}  // namespace espalier

#endif  // ESPALIER_FORMAT_NOTES_H_
