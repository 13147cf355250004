#include "espalier/walker.h"

#include "espalier/base/loop_body.h"
#include "espalier/format/access.h"
#include "espalier/read/pattern_stepper.h"

namespace espalier {

// Prints the path of the current child of a frame after the frame's own path.
ESPALIER_LOOP_BODY void Walker::print_child(const Frame& frame) {
  path_.truncate(frame.path_size);
  const Catalog& catalog = node_.catalog();
  const Tables& t = catalog.tables();
  const NodeRecord& record = t.nodes[frame.next - 1];
  // Only keys of dicts and records are texts.
  if (record.key_kind == static_cast<std::uint8_t>(KeyKind::kText) &&
      catalog.is_plain_text(record.key)) {
    path_.append(table_text(t, record.key));
  } else {
    print_unusual_child(frame);
  }
}

[[gnu::noinline]] void Walker::print_unusual_child(const Frame& frame) {
  const NodeRef parent(&node_.catalog(), frame.parent);
  const KeyView key = parent.key(frame.next - 1 - parent.child(0).number());
  segment_.clear();
  append_segment(segment_, key, parent.digit_mark(key));
  path_.append(segment_);
}

// Applies the patterns' verdict on the current node; returns whether the node is selected.
inline bool Walker::take(PatternVerdict verdict) {
  settled_ = verdict == PatternVerdict::kSettled;
  descend_ = verdict != PatternVerdict::kLeftOut && node_.size() > 0;
  return PatternStepper::is_selected(verdict);
}

// Asks the patterns about the current child of frame_; returns whether it is selected. Kept out of
// next(), whose walk of a whole tree is faster without it.
[[gnu::noinline]] bool Walker::take_by_patterns() {
  const bool selected =
      take(patterns_->step(depth(), node_.catalog(), frame_.parent, node_.number()));
  if (prints_) print_child(frame_);
  return selected;
}

bool Walker::next() {
  if (!started_) {
    started_ = true;
    if (take(patterns_ != nullptr ? patterns_->start() : PatternVerdict::kSettled)) return true;
  }
  for (;;) {
    if (descend_) {
      outer_.push_back(frame_);
      const NodeRecord& parent = node_.catalog().tables().nodes[node_.number()];
      frame_ = {node_.number(), parent.value, parent.value + parent.count, path_.size(),
                frame_.settled || settled_};
    }
    while (frame_.next == frame_.end) {
      if (outer_.empty()) return false;
      frame_ = outer_.back();
      outer_.pop_back();
    }
    node_ = NodeRef(&node_.catalog(), frame_.next++);
    if (frame_.settled) {
      descend_ = node_.size() > 0;
      if (prints_) print_child(frame_);
      return true;
    }
    if (take_by_patterns()) return true;
  }
}

void Walker::begin_to_print() {
  prints_ = true;
  // The first frame is around the root, which has no key.
  for (std::size_t level = 1; level <= outer_.size(); ++level) {
    Frame& frame = level < outer_.size() ? outer_[level] : frame_;
    frame.path_size = path_.size();
    print_child(frame);
  }
}

}  // namespace espalier
