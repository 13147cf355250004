#include "espalier/foreign/common/flatten.h"

#include <unordered_set>
#include <utility>

#include "espalier/base/counted.h"
#include "espalier/base/escaped.h"
#include "espalier/base/merge_sort.h"
#include "espalier/base/utf8.h"

namespace espalier {
namespace {

std::string with_article(std::string_view noun) {
  const bool vowel = !noun.empty() && std::string_view("aeiou").find(noun.front()) != noun.npos;
  return (vowel ? "an " : "a ") + std::string(noun);
}

class Flattener {
 public:
  Flattener(std::uint64_t name_bytes, const Limits& limits)
      : max_name_bytes_(name_bytes), limits_(limits) {}

  Result<void> visit(const Value& node, std::uint32_t depth) {
    if (auto defect = node.defect()) {
      return fail(ErrorCode::kInvalidTree, std::move(*defect), Error::kNoOffset, path_);
    }
    if (node.has_label()) flat_.losses.add(path_, "a label");
    switch (node.kind()) {
      case Kind::kTensor:
        if (!seen_.insert(node.as_tensor().get()).second) flat_.losses.add(path_, "a tied tensor");
        // A small file can name one tensor at a million long paths: fail before spending memory on
        // them.
        name_bytes_ += name_.size();
        if (name_bytes_ > max_name_bytes_) {
          return fail(ErrorCode::kUnrepresentable,
                      "the names of the tensors have more than the " +
                          counted(max_name_bytes_, "byte") +
                          " that the file's header may have; split the state into several files",
                      Error::kNoOffset, path_);
        }
        flat_.tensors.push_back({name_, path_, node.as_tensor()});
        // A single name reads back as a dict that contains it.
        if (depth == 0) flat_.losses.add(path_, "a tensor as the root");
        return {};
      case Kind::kDict:
      case Kind::kList:
      case Kind::kTuple:
      case Kind::kSet:
      case Kind::kRecord:
        return visit_children(node, depth);
      default:
        flat_.losses.add(path_, with_article(kind_name(node.kind())));
        return {};
    }
  }

  Result<FlatState> finish() {
    std::vector<const FlatTensor*> sorted;
    sorted.reserve(flat_.tensors.size());
    for (const FlatTensor& tensor : flat_.tensors) sorted.push_back(&tensor);
    merge_sort_runs(sorted,
                    [](const FlatTensor* a, const FlatTensor* b) { return a->name < b->name; });
    for (std::size_t i = 1; i < sorted.size(); ++i) {
      if (sorted[i - 1]->name == sorted[i]->name) {
        return fail(ErrorCode::kNameCollision,
                    sorted[i - 1]->path + " and " + sorted[i]->path +
                        " would both get the name \"" + sorted[i]->name + "\"; rename one of them",
                    Error::kNoOffset, sorted[i]->path);
      }
    }
    return std::move(flat_);
  }

 private:
  // Recursion is bounded by Limits::depth.
  Result<void> visit_children(const Value& node, std::uint32_t depth) {
    if (depth == limits_.depth) {
      return fail(ErrorCode::kLimitExceeded,
                  "the tree is deeper than the " + counted(limits_.depth, "level") +
                      " that Limits::depth allows",
                  Error::kNoOffset, path_);
    }
    if (node.kind() != Kind::kDict) {
      flat_.losses.add(path_, with_article(kind_name(node.kind())));
    } else if (node.children().empty() && depth > 0) {
      flat_.losses.add(path_, "an empty dict");
    }
    bool has_int_keys = false;
    const auto keys = node.keys();
    const DigitMarks marks(keys);
    for (std::size_t i = 0; i < node.children().size(); ++i) {
      const KeyView key = keys.empty() ? KeyView::of(static_cast<std::int64_t>(i)) : keys[i].view();
      const std::size_t name_size = name_.size();
      const std::size_t path_size = path_.size();
      append_path(path_, key, marks.of(key));
      if (depth > 0) name_ += '.';
      if (key.is_int) {
        name_ += std::to_string(key.integer);
        has_int_keys = true;
      } else {
        if (find_invalid_utf8(key.text)) {
          return fail(ErrorCode::kInvalidTree, "a key is not UTF-8", Error::kNoOffset, path_);
        }
        name_ += key.text;
      }
      if (auto ok = visit(node.children()[i], depth + 1); !ok) return ok;
      name_.resize(name_size);
      path_.resize(path_size);
    }
    if (has_int_keys && node.kind() == Kind::kDict) flat_.losses.add(path_, "int keys become text");
    return {};
  }

  const std::uint64_t max_name_bytes_;
  const Limits& limits_;
  FlatState flat_;
  std::unordered_set<const Tensor*> seen_;
  std::string name_;
  std::string path_;
  std::uint64_t name_bytes_ = 0;
};

}  // namespace

void Losses::add(std::string_view path, std::string what) {
  if (first_.size() < kKept) first_.push_back({std::string(path), std::move(what)});
  ++count_;
}

std::string Losses::to_string() const {
  std::string text;
  for (const Loss& loss : first_) {
    if (!text.empty()) text += ", ";
    text += (loss.path.empty() ? "the root" : escaped(loss.path)) + " (" + loss.what + ")";
  }
  if (count_ > first_.size()) text += " and " + std::to_string(count_ - first_.size()) + " more";
  return text;
}

Result<FlatState> flatten(const Value& state, std::uint64_t name_bytes, const Limits& limits) {
  Flattener flattener(name_bytes, limits);
  if (auto ok = flattener.visit(state, 0); !ok) return propagate(ok);
  return flattener.finish();
}

}  // namespace espalier
