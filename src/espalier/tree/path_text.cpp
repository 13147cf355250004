#include "espalier/tree/path_text.h"

#include <algorithm>
#include <charconv>
#include <string>

namespace espalier {

void PathText::append_escaped(const KeyView& key) {
  if (key.is_int) {
    constexpr std::size_t kMaxDigits = 20;  // "-9223372036854775808"
    if (buffer_.size() - size_ < kMaxDigits) buffer_.resize(2 * size_ + 64);
    char* to = buffer_.data() + size_;
    size_ += static_cast<std::size_t>(std::to_chars(to, to + kMaxDigits, key.integer).ptr - to);
    return;
  }
  std::string segment;
  append_segment(segment, key);
  if (buffer_.size() - size_ < segment.size()) buffer_.resize(2 * (size_ + segment.size()));
  std::copy(segment.begin(), segment.end(), buffer_.begin() + static_cast<std::ptrdiff_t>(size_));
  size_ += segment.size();
}

}  // namespace espalier
