#include "espalier/read/walker.h"

#include "espalier/format/access.h"

namespace espalier {

// Applies the verdict on the current node; returns whether the node is selected.
inline bool Walker::take(Verdict verdict) {
  settled_ = verdict == Verdict::kSettled;
  descend_ = verdict != Verdict::kLeftOut && node_.size() > 0;
  return PatternStepper::is_selected(verdict);
}

// Replaces what follows the frame's own path by the key of its current child.
inline void Walker::print_child(const Frame& frame) {
  path_.truncate(frame.path_size);
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

// Asks the patterns about the frame's current child. Kept out of next(), whose walk of a whole tree
// is a fifth faster without it.
[[gnu::noinline]] bool Walker::take_by_patterns(const Frame& frame) {
  const NodeRef parent(&node_.catalog(), frame.parent);
  return take(patterns_->step(stack_.size(), parent, node_.number() - frame.first));
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
    node_ = NodeRef(&node_.catalog(), frame.next++);
    // Before the path is written: after that, the compiler must load everything again.
    const bool selected = frame.settled ? take(Verdict::kSettled) : take_by_patterns(frame);
    if (prints_) print_child(frame);
    if (selected) return true;
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
