// Walks over a tree, whole or as far as patterns select it.
//
//   for (auto [path, node] : Walk(file->state())) {
//     if (const auto tensor = node.tensor()) use(path, tensor->shape());
//   }
//
// A Walker can leave out what is below a node, and is faster without paths. CheckpointFile::find()
// gives the nodes that a pattern matches.
#ifndef ESPALIER_WALKER_H_
#define ESPALIER_WALKER_H_

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/checkpoint.h"
#include "espalier/key_path.h"

namespace espalier {

class PatternStepper;
enum class PatternVerdict : std::uint8_t;

/// Visits a node and all below it, parents before children, children in order.
class Walker {
 public:
  /// From `root` on; paths start there.
  explicit Walker(NodeRef root) : node_(root) {}
  /// For the library's own programs, as no public header defines the stepper: only what `patterns`
  /// select. The stepper must outlive the walker, and one walk uses it at a time.
  Walker(NodeRef root, PatternStepper& patterns) : node_(root), patterns_(&patterns) {}

  /// Goes to the next node; false when there is none. Must be called before the first node.
  bool next();
  /// The current node.
  NodeRef node() const { return node_; }
  /// Its printed key path, relative to the root. Valid until next(). A walk that never asks is
  /// faster.
  std::string_view path() {
    if (!prints_) begin_to_print();
    return path_.view();
  }
  /// Levels below the root; 0 for the root itself.
  std::size_t depth() const { return outer_.size(); }
  /// Skips the nodes below the current node.
  void skip_children() { descend_ = false; }

 private:
  // A container around the current node, and its children that are still to come.
  struct Frame {
    std::uint32_t parent;
    std::uint32_t next;
    std::uint32_t end;
    std::size_t path_size;  // of the container's own path
    bool settled;
  };

  bool take(PatternVerdict verdict);
  bool take_by_patterns();
  void begin_to_print();
  void print_child(const Frame& frame);
  void print_unusual_child(const Frame& frame);

  NodeRef node_;
  PatternStepper* patterns_ = nullptr;
  Frame frame_ = {};          // the innermost
  std::vector<Frame> outer_;  // those around it; the first one is empty and around the root
  PathText path_;
  std::string segment_;  // scratch
  bool started_ = false;
  bool descend_ = false;
  bool settled_ = false;  // whether the patterns select all below the current node
  bool prints_ = false;   // whether path_ is kept, which costs more than the walk
};

/// A node of a walk and its printed key path, which is valid until the next one.
struct WalkStep {
  std::string_view path;
  NodeRef node;
};

/// A node and all below it, parents before children, with their paths from there: a range that can
/// be gone through once.
class Walk {
 public:
  class Iterator {
   public:
    using difference_type = std::ptrdiff_t;
    using value_type = WalkStep;

    explicit Iterator(Walker& walker) : walker_(&walker), is_at_end_(!walker.next()) {}
    WalkStep operator*() const { return {walker_->path(), walker_->node()}; }
    Iterator& operator++() {
      is_at_end_ = !walker_->next();
      return *this;
    }
    void operator++(int) { ++*this; }
    friend bool operator==(const Iterator& a, std::default_sentinel_t) { return a.is_at_end_; }

   private:
    Walker* walker_;
    bool is_at_end_;
  };

  explicit Walk(NodeRef root) : walker_(root) {}
  Iterator begin() { return Iterator(walker_); }
  std::default_sentinel_t end() const { return {}; }

 private:
  Walker walker_;
};

}  // namespace espalier

#endif  // ESPALIER_WALKER_H_
