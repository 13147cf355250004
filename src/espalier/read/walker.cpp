#include "espalier/read/walker.h"

#include "espalier/format/access.h"

namespace espalier {

// Applies the verdict on the current node; returns whether the node is selected.
inline bool Walker::take(Verdict verdict) {
  settled_ = verdict == Verdict::kSettled;
  descend_ = verdict != Verdict::kLeftOut && node_.size() > 0;
  return PatternStepper::is_selected(verdict);
}

// Extends the path by the key of the frame's current child.
inline void Walker::print_child(const Frame& frame) {
  const Catalog& catalog = node_.catalog();
  const Tables& t = catalog.tables();
  const std::uint32_t number = frame.next - 1;
  const NodeRecord& record = t.nodes[number];
  if (!frame.keyed) {
    path_.append(std::int64_t{number - frame.first});
  } else if (record.key_kind == static_cast<std::uint8_t>(KeyKind::kInt)) {
    path_.append(table_int(t, record.key));
  } else if (catalog.is_plain_text(record.key)) {
    path_.append_plain(table_text(t, record.key));
  } else {
    path_.append(table_text(t, record.key));
  }
}

bool Walker::next() {
  if (!started_) {
    started_ = true;
    if (take(patterns_ != nullptr ? patterns_->start() : Verdict::kSettled)) return true;
  }
  const Tables& t = node_.catalog().tables();
  for (;;) {
    if (descend_) {
      const NodeRecord& parent = t.nodes[node_.number()];
      stack_.push_back({node_.number(), parent.value, parent.value, parent.value + parent.count,
                        path_.size(), has_keys(node_kind(parent)), settled_});
    }
    for (;;) {
      if (stack_.empty()) return false;
      if (stack_.back().next != stack_.back().end) break;
      stack_.pop_back();
    }
    Frame& frame = stack_.back();
    const std::uint32_t number = frame.next++;
    node_ = NodeRef(&node_.catalog(), number);
    if (prints_) {
      path_.truncate(frame.path_size);
      print_child(frame);
    }
    if (frame.settled) {
      take(Verdict::kSettled);
      return true;
    }
    const NodeRef parent(&node_.catalog(), frame.parent);
    if (take(patterns_->step(stack_.size(), parent, number - frame.first))) return true;
  }
}

void Walker::begin_to_print() {
  prints_ = true;
  for (Frame& frame : stack_) {
    frame.path_size = path_.size();
    print_child(frame);
  }
}

}  // namespace espalier
