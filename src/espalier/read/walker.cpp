#include "espalier/read/walker.h"

#include <algorithm>

#include "espalier/format/access.h"

namespace espalier {

// Prints the path of the current child of a frame after the frame's own path.
inline void Walker::print_child(const Frame& frame) {
  path_.truncate(frame.path_size);
  const Catalog& catalog = node_.catalog();
  const Tables& t = catalog.tables();
  const NodeRecord& record = t.nodes[frame.next - 1];
  // Only keys of dicts and records are texts.
  if (record.key_kind == static_cast<std::uint8_t>(KeyKind::kText) &&
      catalog.is_plain_text(record.key)) {
    path_.append_plain(table_text(t, record.key));
  } else {
    print_unusual_child(frame);
  }
}

[[gnu::noinline]] void Walker::print_unusual_child(const Frame& frame) {
  const Tables& t = node_.catalog().tables();
  const NodeRecord& record = t.nodes[frame.next - 1];
  if (!has_keys(node_kind(t.nodes[frame.parent]))) {
    path_.append(std::int64_t{frame.next - 1 - frame.first});
  } else if (record.key_kind == static_cast<std::uint8_t>(KeyKind::kInt)) {
    path_.append(table_int(t, record.key));
  } else {
    path_.append(table_text(t, record.key));
  }
}

// Applies the patterns' verdict on the current node; returns whether the node is selected.
inline bool Walker::take(Verdict verdict) {
  settled_ = verdict == Verdict::kSettled;
  descend_ = verdict != Verdict::kLeftOut && node_.size() > 0;
  return PatternStepper::is_selected(verdict);
}

// Asks the patterns about the current child of frame_; returns whether it is selected. Kept out of
// next(), whose walk of a whole tree is faster without it.
[[gnu::noinline]] bool Walker::take_by_patterns() {
  const NodeRef parent(&node_.catalog(), frame_.parent);
  const bool selected = take(patterns_->step(depth(), parent, node_.number() - frame_.first));
  if (prints_) print_child(frame_);
  return selected;
}

bool Walker::next() {
  if (!started_) {
    started_ = true;
    if (take(patterns_ != nullptr ? patterns_->start() : Verdict::kSettled)) return true;
  }
  for (;;) {
    if (descend_) {
      outer_.push_back(frame_);
      const NodeRecord& parent = node_.catalog().tables().nodes[node_.number()];
      frame_ = {node_.number(), parent.value,
                parent.value,   parent.value + parent.count,
                path_.size(),   frame_.settled || settled_};
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
  if (outer_.empty()) return;  // at the root
  const auto print = [&](Frame& frame) {
    frame.path_size = path_.size();
    print_child(frame);
  };
  std::for_each(outer_.begin() + 1, outer_.end(), print);
  print(frame_);
}

}  // namespace espalier
