#include "espalier/read/match.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "espalier/format/access.h"

namespace espalier {
namespace {

class Matcher {
 public:
  Matcher(const Catalog& catalog, std::span<const Pattern> patterns,
          std::optional<TensorFilter> filter)
      : catalog_(catalog), t_(catalog.tables()), patterns_(patterns), filter_(filter) {}

  std::vector<std::uint32_t> run(std::uint32_t root) {
    bool selected = patterns_.empty();
    for (const Pattern& pattern : patterns_) {
      states_.push_back(pattern.start());
      selected = selected || pattern.accepts(states_.back());
    }
    if (selected) take(root);
    enter(root, selected);
    while (!levels_.empty()) {
      Level& level = levels_.back();
      if (level.next == level.end) {
        levels_.pop_back();
        continue;
      }
      const std::uint32_t node = level.next++;
      const bool is_selected = level.selected || match(node, level);
      if (is_selected) take(node);
      if (is_selected || is_alive_) enter(node, is_selected);
    }
    return std::move(nodes_);
  }

 private:
  // The children of a node that are still to come.
  struct Level {
    std::uint32_t first;
    std::uint32_t next;
    std::uint32_t end;
    bool keyed;
    bool selected;  // with all of them
  };

  // What a pattern made of a text. Of a dead state, at first: from there it is always the same.
  struct Step {
    std::uint32_t text = 0;
    std::uint32_t pattern = 0;
    Pattern::State from = 0;
    Pattern::State to = 0;
  };
  static constexpr std::size_t kSteps = 256;

  void take(std::uint32_t node) {
    if (!filter_ || takes(t_.nodes[node])) nodes_.push_back(node);
  }

  bool takes(const NodeRecord& record) const {
    const Kind kind = node_kind(record);
    if (kind != Kind::kTensor && kind != Kind::kPlaceholder) return false;
    const TensorRef tensor(&catalog_, record.value);
    if (filter_->dtype && tensor.dtype() != *filter_->dtype) return false;
    return filter_->least_bytes == 0 || tensor.bytes() >= filter_->least_bytes;
  }

  // Goes down; the states of the node stand where match() left them.
  void enter(std::uint32_t node, bool selected) {
    const NodeRecord& record = t_.nodes[node];
    if (!is_container(node_kind(record)) || record.count == 0) return;
    levels_.push_back({record.value, record.value, record.value + record.count,
                       has_keys(node_kind(record)), selected});
    if (states_.size() < (levels_.size() + 1) * patterns_.size()) {
      states_.resize((levels_.size() + 1) * patterns_.size());
    }
  }

  // Steps every pattern from the parent's state to the node's.
  bool match(std::uint32_t node, const Level& level) {
    const NodeRecord& record = t_.nodes[node];
    const Pattern::State* from = states_.data() + (levels_.size() - 1) * patterns_.size();
    Pattern::State* to = states_.data() + levels_.size() * patterns_.size();
    if (level.keyed && record.key_kind == static_cast<std::uint8_t>(KeyKind::kText)) {
      for (std::size_t i = 0; i < patterns_.size(); ++i) to[i] = step(i, from[i], record.key);
    } else {
      segment_.clear();
      append_segment(segment_, level.keyed ? node_key(t_, record)
                                           : KeyView::of(std::int64_t{node - level.first}));
      for (std::size_t i = 0; i < patterns_.size(); ++i) {
        to[i] = patterns_[i].step(from[i], segment_);
      }
    }
    bool accepted = false;
    is_alive_ = false;
    for (std::size_t i = 0; i < patterns_.size(); ++i) {
      is_alive_ = is_alive_ || to[i] != 0;
      accepted = accepted || patterns_[i].accepts(to[i]);
    }
    return accepted;
  }

  // A step by a key that is a text. Nested trees repeat a few of them in every layer.
  Pattern::State step(std::size_t pattern, Pattern::State from, std::uint32_t text) {
    Step& known = steps_[(text + 31 * from + 7 * pattern) % kSteps];
    if (known.text == text && known.pattern == pattern && known.from == from) return known.to;
    std::string_view segment = table_text(t_, text);
    if (!catalog_.is_plain_text(text)) {
      segment_.clear();
      append_segment(segment_, KeyView::of(segment));
      segment = segment_;
    }
    known = {text, static_cast<std::uint32_t>(pattern), from,
             patterns_[pattern].step(from, segment)};
    return known.to;
  }

  const Catalog& catalog_;
  const Tables& t_;
  std::span<const Pattern> patterns_;
  std::optional<TensorFilter> filter_;
  std::vector<Level> levels_;
  std::vector<Pattern::State> states_;  // by depth, one for each pattern
  std::vector<std::uint32_t> nodes_;
  std::array<Step, kSteps> steps_;
  std::string segment_;  // scratch
  bool is_alive_ = false;
};

}  // namespace

std::vector<std::uint32_t> match_nodes(NodeRef root, std::span<const Pattern> patterns,
                                       std::optional<TensorFilter> filter) {
  return Matcher(root.catalog(), patterns, filter).run(root.number());
}

}  // namespace espalier
