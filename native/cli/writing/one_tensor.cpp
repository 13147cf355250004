#include "cli/writing/one_tensor.h"

#include <cstdint>
#include <unordered_set>
#include <utility>

#include "espalier/base/counted.h"
#include "espalier/key_path.h"

namespace espalier::cli {
namespace {

class Finder {
 public:
  void visit(const Value& node) {
    if (is_container(node.kind())) {
      const auto keys = node.keys();
      const DigitMarks marks(keys);
      for (std::size_t i = 0; i < node.children().size(); ++i) {
        const std::size_t size = path_.size();
        const KeyView key =
            keys.empty() ? KeyView::of(static_cast<std::int64_t>(i)) : keys[i].view();
        append_path(path_, key, marks.of(key));
        visit(node.children()[i]);
        path_.resize(size);
      }
    } else if (node.kind() != Kind::kTensor) {
      const std::string kind(kind_name(node.kind()));
      found_.left_out.add(path_, (kind.front() == 'i' ? "an " : "a ") + kind);
    } else if (seen_.insert(node.as_tensor().get()).second) {
      if (seen_.size() <= Losses::kKept) paths_ += (paths_.empty() ? "" : ", ") + path_;
      if (found_.tensor) return;
      found_.tensor = node.as_tensor();
      found_.path = path_;
      has_label_ = node.has_label();
    }
  }

  Result<OneTensor> finish(const Value& metadata, bool drop) {
    if (seen_.empty()) {
      return fail(ErrorCode::kUnrepresentable, "there is no tensor with data to write");
    }
    Losses& left_out = found_.left_out;
    if (seen_.size() > 1) {
      if (seen_.size() > Losses::kKept) paths_ += ", ...";
      return fail(ErrorCode::kUnrepresentable, "the format holds one tensor, and there are " +
                                                   std::to_string(seen_.size()) + " (" + paths_ +
                                                   "); give the path of one, as in "
                                                   "`espalier extract FILE PATH -o OUT`");
    }
    if (!left_out.empty() && !drop) {
      return fail(ErrorCode::kUnrepresentable,
                  "the format holds one tensor and cannot hold " + left_out.to_string() +
                      "; give the path of the tensor alone, as in `espalier extract FILE PATH "
                      "-o OUT`, or leave the rest out "
                      "with --unrepresentable=drop");
    }
    if (has_label_) left_out.add(found_.path, "a label");
    if (!found_.tensor->axis_names.empty()) left_out.add(found_.path, "axis names");
    const std::size_t pairs = metadata.children().size();
    if (pairs > 0) left_out.add("(metadata)", counted(pairs, "value"));
    return std::move(found_);
  }

 private:
  std::string path_;
  std::unordered_set<const Tensor*> seen_;  // Tied nodes are one tensor.
  std::string paths_;                       // of the first tensors
  OneTensor found_;
  bool has_label_ = false;
};

}  // namespace

Result<OneTensor> find_one_tensor(const Value& state, const Value& metadata, bool drop) {
  Finder finder;
  finder.visit(state);
  return finder.finish(metadata, drop);
}

}  // namespace espalier::cli
