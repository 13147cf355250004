// Notes on a checkpoint that opened although something in its file was lost or is doubtful.
#ifndef ESPALIER_NOTES_H_
#define ESPALIER_NOTES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace espalier {

/// One thing that an opener of another format noticed.
struct Note {
  enum class Kind : std::uint8_t {
    /// The checkpoint lacks something that the file has: the opener does not understand it.
    kLoss = 0,
    /// Nothing is missing, but something may not be what it seems.
    kWarning = 1,
    /// The file names code, which the program that its format belongs to would import or call. It
    /// may be anything. Nothing was run here.
    kCode = 2,
  };
  Kind kind = Kind::kWarning;
  /// Printed key path of the node concerned in the stored tree, where dotted names are not nested.
  /// Empty if the note is about the whole file. As it is in the file: print it escaped.
  std::string path = {};
  /// One sentence. Printable, once it is among `Notes`.
  std::string message = {};

  friend bool operator==(const Note&, const Note&) = default;
};

/// "loss", "warning" or "code".
constexpr std::string_view note_kind_name(Note::Kind kind) {
  if (kind == Note::Kind::kCode) return "code";
  return kind == Note::Kind::kLoss ? "loss" : "warning";
}

/// The notes on one checkpoint: how many there are, and the first in full. Those of kCode come
/// first, whenever they are added.
class Notes {
 public:
  /// Of kCode, and of all other kinds together. Stops a file that is made to be noted a million
  /// times from filling memory and screens, and from hiding notes of kCode behind others.
  static constexpr std::size_t kMaxListed = 1000;

  /// Escapes the message, which may quote names from the file.
  void add(Note note);

  /// Whether the next one that is not of kCode is listed. The path of a millionth note is not worth
  /// making.
  bool is_listing() const { return listed_.size() - code_ < kMaxListed; }

  /// All of them, listed or not.
  std::uint64_t count() const { return count_; }
  std::span<const Note> listed() const { return listed_; }
  /// Those of kCode among the listed ones.
  std::span<const Note> code() const { return std::span(listed_).first(code_); }

 private:
  std::uint64_t count_ = 0;
  std::vector<Note> listed_;
  std::size_t code_ = 0;  // how many of the listed ones are of kCode
};

}  // namespace espalier

#endif  // ESPALIER_NOTES_H_
