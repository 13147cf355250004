#include <algorithm>
#include <utility>

#include "espalier/map/blocks.h"
#include "espalier/map/rule.h"

namespace espalier {
namespace {

tl::unexpected<Error> bad(std::string_view message) {
  return fail(ErrorCode::kMapInvalid, message);
}

bool is_tensor(const TensorTerm& tensor) { return tensor.kind == TensorTerm::Kind::kTensor; }

class Checker {
 public:
  Checker(const Rule& rule, const RuleContext& context) : rule_(rule), context_(context) {}

  Result<void> check() {
    if (rule_.drops_left && rule_.drops_right) return bad("both sides are 'drop'");
    if (rule_.drops_left || rule_.drops_right) return check_drop();
    left_ = tensors_of(rule_.left);
    right_ = tensors_of(rule_.right);
    if (auto ok = check_axes(); !ok) return ok;
    const bool is_plain = is_plain_side(rule_.left) && is_plain_side(rule_.right);
    if (auto ok = check_words(is_plain); !ok) return ok;
    if (auto ok = check_numbers(); !ok) return ok;
    return is_plain ? check_blocks() : check_merge();
  }

 private:
  static bool is_plain_side(const std::vector<Part>& side) {
    return std::all_of(side.begin(), side.end(),
                       [](const Part& part) { return as_plain(part).has_value(); });
  }

  Result<void> check_drop() const {
    for (const Part& part : rule_.side(rule_.drops_right)) {
      const auto plain = as_plain(part);
      if (!plain || !plain->steps.empty() || !is_tensor(*plain->tensor) ||
          plain->tensor->is_looked_up) {
        return bad("what is dropped is a list of names");
      }
    }
    return {};
  }

  Result<void> check_axes() {
    std::size_t with = 0;
    for (const auto* side : {&left_, &right_}) {
      for (const TensorTerm* tensor : *side) {
        if (tensor->axes()) ++with;
      }
    }
    if (with == 0) {
      if (left_.size() != 1 || right_.size() != 1) {
        return bad("without axes, a rule has one tensor on each side; say [axes] for each");
      }
      return {};
    }
    if (with != left_.size() + right_.size()) {
      return bad("some tensors have axes and others have none; '[...]' means any");
    }
    return {};
  }

  // Every word of one side's names is one of the other's, or an axis there.
  Result<void> check_words(bool is_plain) const {
    for (std::size_t word = 0; word < rule_.words.size(); ++word) {
      const bool in_left = names_have(rule_.left, word);
      const bool in_right = names_have(rule_.right, word);
      if (auto ok =
              check_word(word, in_left && in_right, in_left, in_left ? right_ : left_, is_plain);
          !ok) {
        return ok;
      }
    }
    return {};
  }

  // A capture of one side numbers tensors: each name of such a tensor has it, and none is looked up
  // by a name that is not known.
  Result<void> check_own_side(std::size_t word, bool is_in_left) const {
    for (const TensorTerm* tensor : is_in_left ? left_ : right_) {
      std::size_t with = 0;
      for (const TensorName& name : tensor->names) with += name.pattern.has_word(word) ? 1 : 0;
      if (with == 0) continue;
      if (tensor->is_looked_up) {
        return bad("{" + rule_.words[word] + "} of a name with '@' stands on one side only");
      }
      if (with != tensor->names.size()) {
        return bad("{" + rule_.words[word] + "} is missing in a name that '=' joins");
      }
    }
    return {};
  }

  Result<void> check_word(std::size_t word, bool is_shared, bool is_in_left,
                          const std::vector<const TensorTerm*>& others, bool is_plain) const {
    const std::string& text = rule_.words[word];
    const Capture::Kind kind = kind_of(word);
    if (!is_shared) {
      if (auto ok = check_own_side(word, is_in_left); !ok) return ok;
    }
    if (kind == Capture::Kind::kCopies) {
      return is_shared ? bad("{" + text + "=} stands on both sides; write {" + text + "}")
                       : Result<void>();
    }
    const bool is_axis = has_axis(left_, text) || has_axis(right_, text);
    if (is_shared) {
      if (is_axis) return bad("'" + text + "' is a capture on both sides and an axis too");
      for (const auto* side : {&left_, &right_}) {
        for (const TensorTerm* tensor : *side) {
          if (!is_tensor(*tensor) || tensor->is_looked_up) continue;
          for (const TensorName& name : tensor->names) {
            if (name.pattern.has_word(word)) continue;
            return bad("{" + text + "} is missing in a name: it would be the same tensor for all");
          }
        }
      }
      return {};
    }
    if (kind != Capture::Kind::kInteger || !is_plain || !has_axis(others, text)) {
      return bad("{" + text + "} stands on one side only, and is no axis of the other");
    }
    return {};
  }

  Capture::Kind kind_of(std::size_t word) const {
    for (const auto* side : {&left_, &right_}) {
      for (const TensorTerm* tensor : *side) {
        for (const TensorName& name : tensor->names) {
          for (const NamePattern::Item& item : name.pattern.items()) {
            if (item.capture && item.capture->kind != Capture::Kind::kEither && item.word == word) {
              return item.capture->kind;
            }
          }
        }
      }
    }
    return Capture::Kind::kInteger;
  }

  static bool has_axis(const std::vector<const TensorTerm*>& tensors, const std::string& word) {
    return std::any_of(tensors.begin(), tensors.end(), [&](const TensorTerm* tensor) {
      if (!tensor->axes()) return false;
      const auto words = words_of(*tensor->axes());
      return std::find(words.begin(), words.end(), word) != words.end();
    });
  }

  // The words of expressions are sizes, also where a number was meant as a name.
  Result<void> check_numbers() const {
    for (const auto* side : {&rule_.left, &rule_.right}) {
      for (const Part& part : *side) {
        for (const Term& term : part.terms) {
          for (const auto& [scalar, divides] : term.scalars) {
            for (const std::string& word : words_of(scalar)) {
              if (context_.sizes.contains(word) || has_axis(left_, word) ||
                  has_axis(right_, word)) {
                continue;
              }
              return bad("the size '" + word + "' is not known; add it to \"sizes\"");
            }
          }
        }
      }
    }
    return {};
  }

  Result<void> check_blocks() const {
    if (!left_.front()->axes()) return {};
    // Sizes do not matter here, and neither does the number of axes behind "...".
    Sizes sizes;
    const auto axes_of = [&](const Axes& axes) {
      auto all = has_rest(axes) ? *with_rank(axes, axes.size()) : axes;
      for (const std::string& word : words_of(all)) sizes.emplace(word, 1);
      return all;
    };
    std::vector<Block> left;
    std::vector<Block> right;
    for (const bool is_left : {true, false}) {
      const auto& tensors = is_left ? left_ : right_;
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        for (const TensorName& name : tensors[i]->names) {
          std::vector<Block> blocks;
          if (auto ok = add_blocks(rule_, *tensors[i], i, rule_.side(!is_left), axes_of(*name.axes),
                                   sizes, blocks);
              !ok) {
            return ok;
          }
          // Other names of a tie may have the axes in another order, but must have the same.
          if (&name != &tensors[i]->names.front()) continue;
          auto& all = is_left ? left : right;
          std::move(blocks.begin(), blocks.end(), std::back_inserter(all));
          if (all.size() > kMaxCells) return bad("the axes make more than 256 blocks");
        }
      }
    }
    const auto pairs = pair_blocks(left, right);
    if (!pairs) return propagate(pairs);
    for (const auto& [i, k] : *pairs) {
      if (is_tensor(*left_[left[i].tensor]) || is_tensor(*right_[right[k].tensor])) continue;
      return bad("'zeros' or 'pad' on one side stands for the same block on the other");
    }
    return check_ties();
  }

  Result<void> check_ties() const {
    for (const auto* side : {&left_, &right_}) {
      for (const TensorTerm* tensor : *side) {
        for (const TensorName& name : tensor->names) {
          auto mine = words_of(*name.axes);
          auto first = words_of(*tensor->axes());
          std::sort(mine.begin(), mine.end());
          std::sort(first.begin(), first.end());
          if (mine != first) return bad("the names of a tie have different axes");
        }
      }
    }
    return {};
  }

  // A sum of products of tensors on one side, and one tensor on the other.
  Result<void> check_merge() const {
    const bool is_left = !is_plain_side(rule_.left);
    if (is_left && !is_plain_side(rule_.right)) return bad("both sides compute with tensors");
    if (rule_.direction !=
        (is_left ? Rule::Direction::kLeftToRight : Rule::Direction::kRightToLeft)) {
      return bad("what is computed from several tensors has no inverse; write '->' or '<-'");
    }
    const auto& from = rule_.side(is_left);
    const auto& to = rule_.side(!is_left);
    const auto target = to.size() == 1 ? as_plain(to.front()) : std::nullopt;
    if (from.size() != 1 || !target || !target->steps.empty() || !is_tensor(*target->tensor)) {
      return bad("a sum of tensors makes one tensor");
    }
    if (!target->tensor->axes()) return bad("a sum of tensors needs axes");
    const std::string axes = to_string(*target->tensor->axes());
    if (axes.find('-') != std::string::npos) {
      return bad("what a sum makes has no reversed axes; reverse those of the tensors");
    }
    for (const TensorName& name : target->tensor->names) {
      if (to_string(*name.axes) != axes) {
        return bad("the names of what a sum makes have the same axes");
      }
    }
    for (const TensorTerm* tensor : is_left ? left_ : right_) {
      if (!is_tensor(*tensor)) return bad("'zeros' and 'pad' stand in a sum");
    }
    if (auto ok = check_single(*target->tensor); !ok) return ok;
    auto wanted = words_of(*target->tensor->axes());
    for (const Term& term : from.front().terms) {
      if (term.tensors.empty()) return bad("a sum of tensors has a term without one");
      std::vector<std::string> words;
      for (const TensorTerm& tensor : term.tensors) {
        if (auto ok = check_single(tensor); !ok) return ok;
        const auto more = words_of(*tensor.axes());
        words.insert(words.end(), more.begin(), more.end());
      }
      for (const std::string& word : wanted) {
        if (std::find(words.begin(), words.end(), word) != words.end()) continue;
        return bad("the axis '" + word + "' of the result is missing in a term");
      }
      for (const std::string& word : words) {
        const bool is_summed = std::find(wanted.begin(), wanted.end(), word) == wanted.end();
        if (is_summed && std::count(words.begin(), words.end(), word) < 2) {
          return bad("the axis '" + word + "' stands in one tensor only and not in the result");
        }
      }
    }
    return {};
  }

  // One block without "...", so that each word is one loop.
  static Result<void> check_single(const TensorTerm& tensor) {
    if (has_rest(*tensor.axes())) return bad("'...' stands in a sum of tensors");
    Sizes sizes;
    for (const std::string& word : words_of(*tensor.axes())) sizes.emplace(word, 1);
    const auto cells = cells_of(*tensor.axes(), sizes);
    if (!cells) return propagate(cells);
    if (cells->size() != 1) return bad("a sum of axes stands in a sum of tensors");
    return {};
  }

  const Rule& rule_;
  const RuleContext& context_;
  std::vector<const TensorTerm*> left_;
  std::vector<const TensorTerm*> right_;
};

}  // namespace

Result<void> check_rule(const Rule& rule, const RuleContext& context) {
  return Checker(rule, context).check();
}

}  // namespace espalier
