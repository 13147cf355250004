#include "espalier/tree/path_text.h"

namespace espalier {

void PathText::append(const KeyView& key) {
  segment_.clear();
  append_segment(segment_, key);
  append_plain(segment_);
}

}  // namespace espalier
