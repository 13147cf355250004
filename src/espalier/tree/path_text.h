// The printed key path of a node, changed key by key while a tree is walked.
#ifndef ESPALIER_TREE_PATH_TEXT_H_
#define ESPALIER_TREE_PATH_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "espalier/base/bytes.h"
#include "espalier/tree/key_path.h"

namespace espalier {

/// What append_path() makes, for those who print the paths of a million nodes: a short key costs a
/// few instructions. Not thread-safe.
class PathText {
 public:
  /// The path; valid until it is changed.
  std::string_view view() const { return {buffer_.data(), size_}; }
  std::size_t size() const { return size_; }

  /// Cuts the path to its first `size` bytes.
  void truncate(std::size_t size) { size_ = size; }

  /// Extends the path by one key and returns where its segment begins.
  std::size_t append(std::string_view key) {
    char* to = begin_segment(key.size());
    const std::size_t segment = size_;
    // Keys that may read as integers, and empty ones, take a mark.
    if (!key.empty() && key.front() > '9' && copy_plain(key, to)) {
      size_ += key.size();
    } else {
      append_escaped(KeyView::of(key));
    }
    return segment;
  }
  std::size_t append(std::int64_t key) {
    begin_segment(0);
    const std::size_t segment = size_;
    append_escaped(KeyView::of(key));
    return segment;
  }

 private:
  // Makes room for a separator and `bytes` more, writes the separator, and gives the place after
  // it.
  char* begin_segment(std::size_t bytes) {
    if (buffer_.size() - size_ < bytes + 1) buffer_.resize(2 * (size_ + bytes) + 64);
    if (size_ > 0) buffer_[size_++] = '/';
    return buffer_.data() + size_;
  }

  // Copies `text` to `to`. Returns whether it has no character that must be escaped. Takes 8 bytes
  // at a time, the last ones overlapping those before them.
  static bool copy_plain(std::string_view text, char* to) {
    const auto* source = reinterpret_cast<const std::byte*>(text.data());
    auto* target = reinterpret_cast<std::byte*>(to);
    const std::size_t size = text.size();
    std::uint64_t found = 0;
    if (size >= 8) {
      for (std::size_t i = 0; i + 8 < size; i += 8)
        found |= copy<std::uint64_t>(source + i, target + i);
      found |= copy<std::uint64_t>(source + size - 8, target + size - 8);
    } else if (size >= 4) {
      found |= copy<std::uint32_t>(source, target);
      found |= copy<std::uint32_t>(source + size - 4, target + size - 4);
    } else {
      for (std::size_t i = 0; i < size; ++i) found |= copy<std::uint8_t>(source + i, target + i);
    }
    return found == 0;
  }

  // Copies one word; not 0 if a byte of it is '~' or '/'.
  template <class Word>
  static std::uint64_t copy(const std::byte* source, std::byte* target) {
    const auto word = load_le<Word>(source);
    store_le(target, word);
    constexpr auto kOnes = static_cast<Word>(0x0101010101010101u);
    const auto zero_byte = [](Word w) {
      return static_cast<Word>((w - kOnes) & ~w & static_cast<Word>(kOnes << 7));
    };
    return static_cast<Word>(zero_byte(static_cast<Word>(word ^ static_cast<Word>(kOnes * '~'))) |
                             zero_byte(static_cast<Word>(word ^ static_cast<Word>(kOnes * '/'))));
  }

  void append_escaped(const KeyView& key);

  std::vector<char> buffer_;
  std::size_t size_ = 0;
};

}  // namespace espalier

#endif  // ESPALIER_TREE_PATH_TEXT_H_
