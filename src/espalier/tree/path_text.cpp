#include "espalier/tree/path_text.h"

namespace espalier {

std::size_t PathText::append_escaped(const KeyView& key) {
  segment_.clear();
  append_segment(segment_, key);
  return append_plain(segment_);
}

}  // namespace espalier
